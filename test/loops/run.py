"""Runs training loops by jax.jit and by Scalify, and compares their losses.

    python test/loops/run.py [NAME ...] [--steps 30] [--recipes none,fp8]

Under "none" a loop may differ from jax.jit's by rounding, under a recipe by what its casts explain.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import io
import pathlib
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import equinox as eqx
from loop import REGISTRY, Loop, Ways

import scalify
import scalify.nnx

for _module in ("linen_loops", "nnx_loops", "equinox_loops", "optax_loops"):
    importlib.import_module(_module)

PLAIN = Ways(jit=jax.jit, nnx_jit=nnx.jit, filter_jit=eqx.filter_jit)

# By default XLA leaves out a rounding to BF16 that a conversion back follows: then jax.jit differs
# from the same program run op by op, and from ours, which round where the program says.
AS_WRITTEN = Ways(
    *(
        functools.partial(jit, compiler_options={"xla_allow_excess_precision": False})
        for jit in (jax.jit, nnx.jit, eqx.filter_jit)
    )
)

# Sums of F32 in another order: 2^-24 each, a hundred in a row of a product, and Adam's division by
# the root of small second moments makes a hundred times as much of it within 30 steps.
NONE = 3e-4
# A value of BF16 at the border of two falls to either side as its sum is ordered, and XLA:CPU
# rounds each addition of a sum of BF16, where ours is rounded once: a unit in the last place,
# 2^-8, of a loss at most.
ROUNDED = 2**-8
# A cast to E4M3 has a relative error of 2^-4 at most and 0.026 in the root mean square; the three
# or four in a row that these models have change a loss by a tenth of the losses' mean at most.
FP8 = 0.1


def ours(recipe: str) -> Ways:
    """Returns the ways by which Scalify compiles."""

    def by(jit: Any) -> Any:
        def wrapped(fn: Any, **options: Any) -> Any:
            return jit(fn, recipe=recipe, **options)

        return wrapped

    return Ways(by(scalify.jit), by(scalify.nnx.jit), by(scalify.filter_jit))


def difference(found: Sequence[float], expected: Sequence[float]) -> float:
    """Returns the largest difference of losses beside the mean of the expected ones."""
    if len(found) != len(expected):
        return float("inf")
    size = np.abs(expected).mean()
    return float(np.abs(np.subtract(found, expected)).max() / size)


def bound_of(loop: Loop, recipe: str) -> float:
    """Returns how far losses may be from jax.jit's."""
    if recipe == "none":
        return ROUNDED if loop.rounds == "sums" else NONE
    return FP8 if loop.bound is None else loop.bound


def judge(loop: Loop, recipes: Sequence[str], steps: int) -> list[dict[str, Any]]:
    """Returns a row for each recipe: the difference, its bound, and the error if there was one."""
    with contextlib.redirect_stdout(io.StringIO()):
        expected = loop.run(AS_WRITTEN if loop.rounds else PLAIN, steps)
    rows = []
    for recipe in recipes:
        row: dict[str, Any] = {"loop": loop.name, "recipe": recipe, "error": ""}
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                row["difference"] = difference(loop.run(ours(recipe), steps), expected)
        except Exception:
            row["difference"], row["error"] = float("inf"), traceback.format_exc()
        row["bound"] = bound_of(loop, recipe)
        row["last"] = expected[-1]
        rows.append(row)
    return rows


def main() -> int:
    """Prints the table; returns 1 if a loop is out of its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of loops; all if none is given")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--recipes", default="none,fp8")
    options = parser.parse_args()
    if unknown := set(options.names) - REGISTRY.keys():
        parser.error(f"unknown loops {sorted(unknown)}; there are {', '.join(sorted(REGISTRY))}")
    warnings.simplefilter("ignore", DeprecationWarning)
    failed = 0
    for name, loop in REGISTRY.items():
        if options.names and name not in options.names:
            continue
        for row in judge(loop, options.recipes.split(","), options.steps):
            is_right = row["difference"] <= row["bound"]
            failed += not is_right
            print(
                f"{row['loop']:24} {row['recipe']:6} {row['difference']:9.2e} of "
                f"{row['bound']:.1e}  {'' if is_right else 'FAILED'}",
                flush=True,
            )
            if row["error"]:
                print(row["error"], flush=True)
        jax.clear_caches()
    print(f"{failed} failed" if failed else "all within their bounds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
