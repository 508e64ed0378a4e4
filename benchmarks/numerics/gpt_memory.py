"""SIMULATED memory of GPT-7B, 13B and 175B at FP8-LM's layouts, against what its authors measured.

Nothing is run and no such machine was at hand. Weights, gradients and state are arithmetic on the
bytes of the recipe's formats; activations are what the plan of one GPT layer keeps for the
backward, at the layout's micro-batch and its tensor-parallel shard.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["Layout", "main"]

GIB = 2**30
SEQUENCE, VOCABULARY = 2048, 50304


@dataclasses.dataclass(frozen=True)
class Layout:
    """A model over ranks, and the gigabytes that FP8-LM reports at equal micro-batches."""

    name: str
    layers: int
    dim: int
    heads: int
    tensor: int
    pipeline: int
    data: int
    batch: int
    bf16: float
    fp8: float

    @property
    def parameters(self) -> float:
        """Parameters of one rank: its share of the layers, of the embedding and of positions."""
        layers = self.layers * (12 * self.dim**2 + 13 * self.dim)
        return (layers + (VOCABULARY + SEQUENCE) * self.dim) / (self.tensor * self.pipeline)


# The last two columns: FP8-LM's table of H100s with 80 GB, read off a figure.
LAYOUTS = [
    Layout("GPT-7B", 32, 4096, 32, 1, 1, 32, 2, 69.6, 49.4),
    Layout("GPT-13B", 40, 5120, 40, 2, 1, 16, 2, 68.2, 48.9),
    Layout("GPT-175B", 96, 12288, 96, 8, 4, 4, 1, 66.1, 40.3),
]

# Bytes per parameter: each rank holds weights and gradients, ranks of data parallelism share state.
# BF16 is Megatron's: BF16 weights, F32 gradients, F32 master and moments. FP8 is o3: E4M3 weights
# and gradients, F16 master, E4M3 and F16 moments. On Hopper a dot on FP8 wants K minor-most, so
# that the backward takes a transposed copy of each weight: one byte more.
BF16 = {"weights": 2, "gradients": 4, "state": 12}
FP8 = {"weights": 2, "gradients": 1, "state": 5}

# Attention is in 16 bits in FP8-LM's runs; the preset alone would keep its operands in F32.
O3 = '#scalify.recipe<"fp8-lm-o3", attention = bf16>'


def layer(weights: dict[str, Any], x: jax.Array, heads: int, shards: int) -> jax.Array:
    """One rank's part of a GPT layer under sequence parallelism; x is its piece of the sequence.

    Copies stand for what an all-gather brings, a sum over pieces for a reduce-scatter: the sizes
    are those of the rank.
    """

    def norm(value: jax.Array, gain: jax.Array) -> jax.Array:
        mean = jnp.mean(value, -1, keepdims=True)
        spread = jnp.mean(jnp.square(value - mean), -1, keepdims=True)
        return (value - mean) * jax.lax.rsqrt(spread + 1e-5) * gain

    def gather(value: jax.Array) -> jax.Array:
        return jnp.concatenate([value] * shards, axis=1)

    def scatter(value: jax.Array) -> jax.Array:
        batch, length, dim = value.shape
        return jnp.sum(value.reshape(batch, shards, length // shards, dim), axis=1)

    def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        at = jnp.arange(scores.shape[-1])
        share = jax.nn.softmax(jnp.where(at[:, None] >= at, scores, -1e30), axis=-1)
        return jnp.einsum("bhqk,bkhd->bqhd", share, v)

    hidden = gather(norm(x, weights["gain1"]))
    q, k, v = (
        (hidden @ weights[name]).reshape(*hidden.shape[:2], heads // shards, -1) for name in "qkv"
    )
    # As a fused attention does: the backward makes the scores again.
    mixed = jax.checkpoint(attend)(q, k, v).reshape(*hidden.shape[:2], -1)
    x = x + scatter(mixed @ weights["out"])
    hidden = gather(norm(x, weights["gain2"]))
    return x + scatter(jax.nn.gelu(hidden @ weights["up"]) @ weights["down"])


def kept(layout: Layout, recipe: str, layers: int) -> int:
    """Bytes that the plan of some layers keeps from the forward to the backward."""
    dim, part = layout.dim, layout.dim // layout.tensor
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys("qkv", (dim, part))
    shapes |= {"out": (part, dim), "up": (dim, 4 * part), "down": (4 * part, dim)}
    shapes |= {"gain1": (dim,), "gain2": (dim,)}

    def loss(params: Any, x: jax.Array) -> jax.Array:
        for weights in params:
            x = layer(weights, x, layout.heads, layout.tensor)
        return jnp.mean(jnp.square(x))

    params = [
        {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
        for _ in range(layers)
    ]
    x = jax.ShapeDtypeStruct((layout.batch, SEQUENCE // layout.tensor, dim), jnp.float32)
    text = jax.jit(jax.grad(loss)).lower(params, x).as_text(debug_info=True)
    build = pathlib.Path(os.environ.get("SCALIFY_BUILD", "build"))
    with tempfile.TemporaryDirectory() as folder:
        step = pathlib.Path(folder) / "step.mlir"
        step.write_text(text)
        command = [str(build / "bin" / "scalify-compile"), str(step), f"--recipe={recipe}"]
        command += ["--compile-to=fusion", "--memory", "-o", str(step.with_suffix(".plan"))]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"activations\s+([\d,]+)", printed)
    if not found:
        raise ValueError(f"scalify-compile printed no activations: {printed!r}")
    return int(found[1].replace(",", ""))


def activations(layout: Layout, recipe: str, weight_bytes: int) -> float:
    """Bytes kept on the first stage, which has as many micro-batches in flight as stages.

    The plan keeps a layer's weights as they were cast for its dots; they are counted elsewhere.
    """
    each = kept(layout, recipe, 3) - kept(layout, recipe, 2)
    each -= weight_bytes * 12 * layout.dim**2 // layout.tensor
    logits = layout.batch * SEQUENCE * VOCABULARY // layout.tensor * (2 + 4)
    return layout.layers * each + (logits if layout.pipeline == 1 else 0)


def held(layout: Layout, formats: dict[str, int]) -> float:
    """Bytes of a rank's weights, gradients and share of the state."""
    each = formats["weights"] + formats["gradients"] + formats["state"] / layout.data
    return each * layout.parameters


def main() -> int:
    """Prints the table; returns the command's exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.parse_args()
    print(
        "| SIMULATED, GiB a rank | weights, gradients, state | activations | sum | less than BF16 |"
        " published | less |"
    )
    print("|---|---|---|---|---|---|---|")
    for layout in LAYOUTS:
        wide, narrow = held(layout, BF16), held(layout, FP8)
        kept_wide, kept_narrow = activations(layout, "bf16", 2), activations(layout, O3, 1)
        saved = layout.bf16 - layout.fp8
        rows = [
            ("BF16", wide, kept_wide, f"{layout.bf16} | "),
            ("o3, BF16's activations", narrow, kept_wide, " | "),
            ("o3", narrow, kept_narrow, f"{layout.fp8} | {saved:.1f} ({saved / layout.bf16:.1%})"),
        ]
        for name, bytes_held, bytes_kept, published in rows:
            total = bytes_held + bytes_kept
            cells = " | ".join(f"{number / GIB:.1f}" for number in (bytes_held, bytes_kept, total))
            less = wide + kept_wide - total
            gain = f"{less / GIB:.1f} ({less / (wide + kept_wide):.1%})" if less else ""
            print(f"| {layout.name} {name} | {cells} | {gain} | {published} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
