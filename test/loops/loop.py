"""What a training loop is run by, and the table of loops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

__all__ = ["REGISTRY", "Loop", "Ways", "images", "loop", "regression", "tokens"]


@dataclasses.dataclass(frozen=True)
class Ways:
    """How the steps of a loop are compiled. All else in a loop is JAX's, Flax's and optax's own.

    Attributes:
        jit: in the place of `jax.jit`.
        nnx_jit: in the place of `flax.nnx.jit`.
        filter_jit: in the place of `equinox.filter_jit`.
    """

    jit: Callable[..., Any]
    nnx_jit: Callable[..., Any]
    filter_jit: Callable[..., Any]


Rounds = Literal["state", "sums"]


@dataclasses.dataclass(frozen=True)
class Loop:
    """A training loop.

    Attributes:
        run: takes the ways and a number of steps, and returns losses, evaluations among them.
        quick: whether CI runs it.
        bound: of the relative difference of losses under "fp8", with the reason in `why`.
        why: what makes that bound another one.
        rounds: the program itself rounds to BF16: "state" alone, or "sums" too, whose order then
            shows in the losses. The reference rounds where the program says, as jax.jit does on
            request alone.
    """

    name: str
    run: Callable[[Ways, int], list[float]]
    quick: bool = False
    bound: float | None = None
    why: str = ""
    rounds: Rounds | None = None


REGISTRY: dict[str, Loop] = {}


def loop(
    *, quick: bool = False, bound: float | None = None, why: str = "", rounds: Rounds | None = None
) -> Callable[..., Any]:
    """Registers a loop by its function's name."""

    def register(run: Callable[[Ways, int], list[float]]) -> Callable[[Ways, int], list[float]]:
        name = run.__name__
        REGISTRY[name] = Loop(name, run, quick, bound, why, rounds)
        return run

    return register


def regression(steps: int, size: int = 32, inputs: int = 16, outputs: int = 4) -> list[Any]:
    """Returns batches (x, y) of a smooth function of x."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(inputs, outputs)).astype(np.float32) / np.sqrt(inputs)
    found = []
    for _ in range(steps):
        x = rng.normal(size=(size, inputs)).astype(np.float32)
        found.append((x, np.tanh(x @ weights).astype(np.float32)))
    return found


def images(steps: int, size: int = 16) -> list[Any]:
    """Returns batches (image [size, 8, 8, 1], label) whose label is the brighter quadrant."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(steps):
        image = rng.normal(0, 0.5, size=(size, 8, 8, 1)).astype(np.float32)
        label = rng.integers(0, 4, size=size).astype(np.int32)
        for row, quadrant in enumerate(label):
            top, left = 4 * (quadrant // 2), 4 * (quadrant % 2)
            image[row, top : top + 4, left : left + 4] += 1
        found.append((image, label))
    return found


def tokens(steps: int, size: int = 8, length: int = 16, vocabulary: int = 32) -> list[Any]:
    """Returns batches of sequences that count up by a step of their own."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(steps):
        start = rng.integers(0, vocabulary, size=(size, 1))
        stride = rng.integers(1, 4, size=(size, 1))
        found.append(((start + stride * np.arange(length + 1)) % vocabulary).astype(np.int32))
    return found
