"""Times training steps of the usual kinds: ours by recipe beside jax.jit, in F32 and BF16.

Contenders of a model alternate, A B C A B C, so that a busy machine slows all of them; only ratios
within a model are meaningful. Losses of the contenders after the timed steps are compared too.
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
import jax.numpy as jnp
import numpy as np

import scalify
from scalify import _runtime
from suite_models import SUITE, Case

__all__ = ["main"]

RECIPES = ("none", "bf16", "fp8")


class Contender:
    """A compiled step with its own state."""

    def __init__(self, name: str, step: Callable[..., Any], case: Case):
        self.name, self.step, self.batch = name, step, case.batch
        self.state = jax.tree.map(jnp.array, case.state)
        self.times: list[float] = []
        self.loss = math.nan

    def advance(self) -> float:
        """Runs a step; returns its seconds until the loss is on the host."""
        started = time.perf_counter()
        self.state, loss = self.step(self.state, self.batch)
        self.loss = float(np.asarray(loss))
        return time.perf_counter() - started


def contenders(case: Case, recipes: list[str]) -> list[Contender]:
    """Returns jax.jit first, then jax.jit in BF16, then ours by recipe."""
    found = [
        Contender("jax.jit", jax.jit(case.step, donate_argnums=0), case),
        Contender("jax.jit bf16", jax.jit(case.narrow, donate_argnums=0), case),
    ]
    for recipe in recipes:
        step = scalify.jit(case.step, recipe=recipe, donate_argnums=0)
        found.append(Contender(f"scalify {recipe}", step, case))
    return found


def measure(name: str, recipes: list[str], rounds: int) -> list[dict[str, Any]]:
    """Times a model; returns one row a contender."""
    field = contenders(SUITE[name](), recipes)
    compiles = [one.advance() for one in field]
    for one in field:
        one.advance()
    for _ in range(rounds):
        for one in field:
            one.times.append(one.advance())
    rows = []
    base = statistics.median(field[0].times)
    for one, seconds in zip(field, compiles, strict=True):
        median = statistics.median(one.times)
        row = {"model": name, "name": one.name, "ms": 1e3 * median, "speedup": base / median}
        row |= {"fastest_ms": 1e3 * min(one.times), "compile_s": seconds, "loss": one.loss}
        rows.append(row)
        print(
            f"{name:<18}{one.name:<16}{row['ms']:>9.1f} ms{row['fastest_ms']:>9.1f} ms"
            f"{row['speedup']:>7.2f}x  compiled in {seconds:5.1f} s  loss {one.loss:.4f}",
            flush=True,
        )
    return rows


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7, help="timed steps of each (7)")
    parser.add_argument("--models", nargs="*", choices=SUITE, default=list(SUITE))
    parser.add_argument("--recipes", nargs="*", default=list(RECIPES), help="(none bf16 fp8)")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows here")
    options = parser.parse_args()
    unit = _runtime.product_unit()
    print(f"products of BF16 on {unit}, kernels for {_runtime.processor()}")
    rows = []
    for name in options.models:
        rows += measure(name, options.recipes, options.rounds)
    print("\ngeometric means of the speed-up over jax.jit")
    for contender in dict.fromkeys(row["name"] for row in rows):
        logs = [math.log(row["speedup"]) for row in rows if row["name"] == contender]
        print(f"{contender:<16}{math.exp(statistics.mean(logs)):.2f}x")
    if options.json:
        options.json.write_text(json.dumps({"unit": unit, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
