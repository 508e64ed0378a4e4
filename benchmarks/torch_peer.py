"""Times training steps of decoders: ours by recipe beside PyTorch in F32 and by autocast in BF16.

    make bench-torch ARGS="--models llama-256 --json rows.json"

The models of the suite, with the same initial weights and batch, as one writes them for PyTorch:
scaled_dot_product_attention, AdamW with `fused`, clipping by the global norm. PyTorch runs eagerly
and by torch.compile. Contenders of a model alternate; only ratios within a model are meaningful.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
from suite import Contender, contenders
from torch import Tensor
from torch.nn import functional

from scalify import _runtime
from suite_models import SUITE, Case, Decoder

__all__ = ["main"]

MODELS = ("llama-256", "llama-768", "gpt2-dropout", "gpt2-small")
RECIPES = ("none", "bf16", "fp8")


class Model(torch.nn.Module):
    """A decoder of the suite, by PyTorch's operators."""

    def __init__(self, decoder: Decoder, params: Any):
        super().__init__()
        self.decoder = decoder
        leaves, self.tree = jax.tree.flatten(params)
        self.leaves = torch.nn.ParameterList(torch.from_numpy(np.array(leaf)) for leaf in leaves)

    def normed(self, x: Tensor, gain: Tensor) -> Tensor:
        """RMSNorm, or LayerNorm without a bias."""
        if self.decoder.gated:
            return functional.rms_norm(x, gain.shape, gain, eps=1e-5)
        return functional.layer_norm(x, gain.shape, gain, eps=1e-5)

    def attend(self, p: Any, x: Tensor) -> Tensor:
        """Multi-head causal self-attention."""
        rows, length, dim = x.shape
        heads = self.decoder.heads
        q, k, v = (
            part.view(rows, length, heads, dim // heads).transpose(1, 2)
            for part in (x @ p["qkv"]).split(dim, -1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(rows, length, dim) @ p["out"]

    def mix(self, p: Any, x: Tensor) -> Tensor:
        """The feed-forward layer."""
        up = x @ p["up"]
        hidden = (
            functional.silu(x @ p["gate"]) * up
            if self.decoder.gated
            else functional.gelu(up, approximate="tanh")
        )
        return hidden @ p["down"]

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Returns the mean cross entropy of [rows, length] tokens."""
        params = jax.tree.unflatten(self.tree, list(self.leaves))
        rate = self.decoder.dropout
        x = params["embed"][inputs] + params["position"]
        for p in params["layers"]:
            x = x + functional.dropout(self.attend(p, self.normed(x, p["norm1"])), rate)
            x = x + functional.dropout(self.mix(p, self.normed(x, p["norm2"])), rate)
        logits = self.normed(x, params["norm"]) @ params["head"]
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class Peer:
    """A training step of PyTorch, with its own state."""

    def __init__(self, name: str, decoder: Decoder, case: Case, narrow: bool, compiled: bool):
        self.name = name
        self.times: list[float] = []
        self.loss = math.nan
        self.model = Model(decoder, case.state[0])
        self.narrow = narrow
        self.run: Callable[..., Any] = torch.compile(self.model) if compiled else self.model
        # optax.adamw's default decay.
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=1e-4, fused=True
        )
        self.batch = [torch.from_numpy(np.asarray(part)).long() for part in case.batch]

    def advance(self) -> float:
        """Runs a step; returns its seconds."""
        started = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.narrow):
            loss = self.run(*self.batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.loss = float(loss.detach())
        return time.perf_counter() - started


def decoder_of(name: str) -> Decoder:
    """Returns the decoder whose training step is a model of the suite."""
    case: Any = SUITE[name]
    decoder = getattr(case, "__self__", None)
    if not isinstance(decoder, Decoder):
        raise ValueError(f"{name} is no decoder")
    return decoder


def measure(name: str, recipes: list[str], rounds: int) -> list[dict[str, Any]]:
    """Times a model; returns one row a contender."""
    decoder = decoder_of(name)
    case = decoder.case()
    peers = [
        Peer("torch", decoder, case, narrow=False, compiled=False),
        Peer("torch compiled", decoder, case, narrow=False, compiled=True),
        Peer("torch bf16", decoder, case, narrow=True, compiled=False),
        Peer("torch bf16 compiled", decoder, case, narrow=True, compiled=True),
    ]
    field: list[Peer | Contender] = [*peers, *contenders(case, recipes)[2:]]
    compiles = [one.advance() for one in field]
    first = [one.loss for one in field]
    for one in field:
        one.advance()
    for _ in range(rounds):
        for one in field:
            one.times.append(one.advance())
    base = statistics.median(field[0].times)
    rows = []
    for one, seconds, loss in zip(field, compiles, first, strict=True):
        median = statistics.median(one.times)
        row = {"model": name, "name": one.name, "ms": 1e3 * median, "speedup": base / median}
        row |= {"fastest_ms": 1e3 * min(one.times), "compile_s": seconds, "first_loss": loss}
        rows.append(row)
        print(
            f"{name:<14}{one.name:<20}{row['ms']:>9.1f} ms{row['fastest_ms']:>9.1f} ms"
            f"{row['speedup']:>7.2f}x  first step {seconds:5.1f} s  its loss {loss:.4f}",
            flush=True,
        )
    return rows


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7, help="timed steps of each (7)")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--recipes", nargs="*", default=list(RECIPES), help="(none bf16 fp8)")
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch (2)")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows here")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    unit = _runtime.product_unit()
    print(f"PyTorch {torch.__version__}; our products of BF16 on {unit}")
    rows = []
    for name in options.models:
        rows += measure(name, options.recipes, options.rounds)
    if options.json:
        found = {"unit": unit, "torch": torch.__version__, "rows": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
