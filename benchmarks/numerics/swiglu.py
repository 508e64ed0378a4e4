"""SwiGLU's feed-forward network by each recipe: noise of outputs, gradients and casts.

The data are those of torchao's test of its float8 numerics (pytorch/ao,
test/float8/test_numerics_integration.py, LLaMA 3 70B's 4096 x 14336 over 8,192 tokens) at a smaller
size: weights uniform within 1 / sqrt(fan-in), inputs standard normal, the loss the sum of the
outputs, the second of two batches. Its bars: 20 dB for the output and the gradient of each weight,
25 dB for a cast, which a cast to E5M2 just meets: a bit of mantissa is 6 dB. The casts of
`fp8-block`, which has none to E5M2, are made by NumPy and ml_dtypes from F32's values.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from typing import Any

import gradients as common
import jax
import jax.numpy as jnp
import ml_dtypes
import numerics
import numpy as np

import scalify

__all__ = ["block_cast_decibels", "main", "measured"]

# All three dots are cast, even the last one before the result; the cost model keeps none wide.
ALL = "head = true, sensitive = true"
RECIPES = ("fp8", "fp8-current", "fp8-delayed", "fp8-block", "fp8-lm-o1", "fp8-lm-o2")
OUT_BAR, CAST_BAR = 20.0, 25.0
# Largest value of E4M3 (OCP 8-bit floating point, revision 1.0, table 2).
LARGEST = 448.0

Tree = Any


def decibels(exact: Any, found: Any) -> float:
    """Returns the signal to noise ratio, 10 log10(|exact|^2 / |exact - found|^2)."""
    wide = np.asarray(exact, np.float64)
    noise = float(np.sum((wide - np.asarray(found, np.float64)) ** 2))
    return 10 * math.log10(float(np.sum(wide**2)) / noise) if noise else math.inf


def inputs(dim: int, hidden: int, tokens: int, seed: int) -> tuple[Tree, list[jax.Array]]:
    """Returns the weights, and two batches [tokens, dim]."""
    keys = jax.random.split(jax.random.key(seed), 5)
    shapes = {"w1": (dim, hidden), "w2": (hidden, dim), "w3": (dim, hidden)}
    params = {
        name: jax.random.uniform(key, shape, minval=-1, maxval=1) * shape[0] ** -0.5
        for key, (name, shape) in zip(keys, shapes.items(), strict=False)
    }
    return params, [jax.random.normal(key, (tokens, dim)) for key in keys[3:]]


def step(params: Tree, x: jax.Array) -> tuple[jax.Array, Tree]:
    """Returns the output, [tokens * dim], and the gradients of its sum."""

    def total(params: Tree, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        out = (jax.nn.silu(x @ params["w1"]) * (x @ params["w3"])) @ params["w2"]
        # Flat, since a result of the input's type would make the input look like state.
        return jnp.sum(out), out.ravel()

    found, out = jax.grad(total, has_aux=True)(params, x)
    return out, found


def round_to_fp8_blocks(value: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    """Returns a matrix rounded to E4M3, with the least sufficient power of two per block."""
    kept = np.empty_like(value)
    rows, columns = (
        range(0, extent, size) for extent, size in zip(value.shape, block, strict=True)
    )
    for i, j in itertools.product(rows, columns):
        part = value[i : i + block[0], j : j + block[1]]
        amax = float(np.abs(part).max())
        scale = np.float32(2.0 ** math.ceil(math.log2(amax / LARGEST)) if amax else 1)
        data = (part / scale).astype(ml_dtypes.float8_e4m3fn)
        kept[i : i + block[0], j : j + block[1]] = data.astype(np.float32) * scale
    return kept


def block_cast_decibels(params: Tree, x: jax.Array) -> dict[str, float]:
    """Returns dB of each cast by blocks, of F32's values, as cast by NumPy and ml_dtypes.

    Scales of blocks are no single number to probe. test_block_scaling.py tests that the compiler's
    casts have these bits.
    """
    gate, up = x @ params["w1"], x @ params["w3"]
    hidden, silu = jax.vjp(lambda gate, up: jax.nn.silu(gate) * up, gate, up)
    # The loss is the sum of the outputs: their gradient is one, and casts exactly.
    ones = jnp.ones((x.shape[0], params["w2"].shape[1]))
    dgate, dup = silu(ones @ params["w2"].T)
    blocks = {"w1": (128, 128), "w2": (128, 128), "w3": (128, 128)}
    found = {name: (params[name], block) for name, block in blocks.items()}
    found |= {"x": (x, (1, 128)), "hidden": (hidden, (1, 128))}
    by_tokens = {"x": x, "hidden": hidden, "dgate": dgate, "dup": dup}
    found |= {f"{name}, by tokens": (value, (128, 1)) for name, value in by_tokens.items()}
    return {
        name: decibels(value, round_to_fp8_blocks(np.asarray(value), block))
        for name, (value, block) in found.items()
    }


def measured(recipe: str, params: Tree, batches: list[jax.Array]) -> dict[str, float]:
    """Returns dB of the output, of each gradient, and of the worst cast to E4M3 and to E5M2."""
    text = f'#scalify.recipe<"{recipe}", {ALL}>'
    exact = jax.jit(step)(params, batches[-1])
    run = scalify.jit(step, recipe=text)
    for x in batches:
        out, weights = run(params, x)
    rows = {
        "output": decibels(exact[0], out),
        **{name: decibels(exact[1][name], weights[name]) for name in sorted(weights)},
    }
    if recipe == "fp8-block":
        worst = min(block_cast_decibels(params, batches[-1]).values())
        return rows | {"E4M3 casts": worst, "E5M2 casts": math.nan}
    probed = scalify.probe(step, text)(params, batches[-1])
    judged = [found for row in probed if (found := numerics.operand(row)) is not None]
    for word, name in (("e4m3", "E4M3 casts"), ("e5m2", "E5M2 casts")):
        each = [row.sqnr for row in judged if word in row.format]
        rows[name] = min(each, default=math.nan)
    return rows


def cell(value: float) -> str:
    """Returns a figure of the table."""
    return "-" if math.isnan(value) else "exact" if math.isinf(value) else f"{value:.1f}"


def main() -> int:
    """Runs the command; returns 1 if a bar fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=1792)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="to docs/research/numerics-swiglu.md")
    options = parser.parse_args()
    lines, good = [], True
    for recipe in RECIPES:
        found = [
            measured(recipe, *inputs(options.dim, options.hidden, options.tokens, seed))
            for seed in range(options.seeds)
        ]
        worst = {name: min(row[name] for row in found) for name in found[0]}
        holds = all(
            math.isnan(value) or value >= (CAST_BAR if "casts" in name else OUT_BAR)
            for name, value in worst.items()
        )
        good &= holds
        lines.append([f"`{recipe}`", *map(cell, worst.values()), numerics.verdict(holds)])
        print(lines[-1], flush=True)
    text = common.table(["recipe", *worst, "bars"], lines)
    print(text)
    if options.write:
        page = (
            f"{options.dim} x {options.hidden} over {options.tokens} tokens, the worst of "
            f"{options.seeds} seeds, in dB of signal over noise. "
            f"{' '.join((__doc__ or '').split())}\n\n{text}"
        )
        common.write(
            "docs/research/numerics-swiglu.md", "SwiGLU by each recipe", page, "make swiglu"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
