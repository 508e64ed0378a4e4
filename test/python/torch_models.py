"""Modules, and eager training beside a compiled step, for the tests of scalify.torch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

import scalify.torch

CROSS_ENTROPY = nn.functional.cross_entropy


class Block(nn.Module):
    """A residual block of a ResNet (He et al., CVPR 2016)."""

    def __init__(self, width: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Identity()
        if stride != 1:
            self.down = nn.Sequential(
                nn.Conv2d(width, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.down(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, width: int = 8, classes: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(Block(width), Block(width, stride=2))
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.pool(self.stem(x)))
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


def mlp(*, dropout: float = 0.0) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(dropout), nn.Linear(16, 4))


def images(count: int, size: int = 8) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        x = torch.randn(8, 3, size, size, generator=generator)
        yield x, torch.randint(0, 4, (8,), generator=generator)


def vectors(count: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        x = torch.randn(8, 8, generator=generator)
        yield x, torch.randint(0, 4, (8,), generator=generator)


class Twins:
    """A model that a compiled step trains, and its copy that torch trains eagerly."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Callable[[nn.Module], torch.optim.Optimizer],
        loss: Any = CROSS_ENTROPY,
        clip: float | None = None,
        **options: Any,
    ) -> None:
        self.model, self.eager = model, copy.deepcopy(model)
        self.loss, self.clip = loss, clip
        self.optimizer, self.eager_optimizer = optimizer(self.model), optimizer(self.eager)
        options.setdefault("recipe", "none")
        self.step = scalify.torch.compile(
            self.model, loss, self.optimizer, clip_grad_norm=clip, **options
        )

    def train(self, *batch: Any, **named: Any) -> tuple[float, float]:
        """Runs a step of both; returns their losses."""
        loss = float(self.step(*batch, **named))
        return loss, self.train_eager(*batch, **named)

    def train_eager(self, *batch: Any, **named: Any) -> float:
        self.eager_optimizer.zero_grad()
        if self.loss is None:
            loss = self.eager(*batch, **named).loss
        else:
            loss = self.loss(self.eager(*batch[:-1], **named), batch[-1])
        loss.backward()
        if self.clip is not None:
            params = [one for group in self.eager_optimizer.param_groups for one in group["params"]]
            nn.utils.clip_grad_norm_(params, self.clip)
        self.eager_optimizer.step()
        return float(loss.detach())

    def weights(self) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        theirs = self.eager.state_dict()
        for name, own in self.model.state_dict().items():
            yield name, own, theirs[name]


def gradients(model: nn.Module, step: Callable[[], Any]) -> dict[str, torch.Tensor]:
    """Returns what a step of SGD with a learning rate of 1 subtracts from each parameter."""
    before = {name: one.detach().clone() for name, one in model.named_parameters()}
    step()
    return {name: before[name] - one.detach() for name, one in model.named_parameters()}


def cosine(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> float:
    flat = [torch.cat([one.flatten() for one in side]) for side in (left, right)]
    return float(nn.functional.cosine_similarity(*flat, dim=0))
