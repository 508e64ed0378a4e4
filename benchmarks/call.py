"""The overhead of a step's call beyond its kernels, against jax.jit's, for a pytree of many leaves.

    make call

Each leaf is small, so that kernels take next to no time. Their time, from the runtime's profile, is
subtracted from our figure. That of XLA's kernels is unknown and stays in its figure.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import scalify


def step(state: Any, x: Any) -> Any:
    """Changes every leaf a little."""
    return jax.tree.map(lambda w: w - 0.01 * x, state), jnp.sum(x)


def seconds(run: Callable[..., Any], leaves: int, calls: int) -> tuple[float, Any]:
    """Returns the shortest time from a call to its results, and the state at the end."""
    state: Any = {f"w{index:03}": jnp.ones((4, 4)) for index in range(leaves)}
    x = jnp.ones((4, 4))
    times = []
    for index in range(calls + 10):
        start = time.perf_counter()
        state, total = run(state, x)
        jax.block_until_ready(total)
        if index >= 10:
            times.append(time.perf_counter() - start)
    return min(times), state


def kernel_seconds(run: scalify.Jit, state: Any) -> float:
    """Returns the shortest time of the commands of one step, as a busy machine may add to it."""
    executable = run.executable()
    times = []
    for _ in range(20):
        executable.profiling(True)
        state, _ = run(state, jnp.ones((4, 4)))
        times.append(sum(row["nanoseconds"] for row in executable.profile()))
    executable.profiling(False)
    return float(min(times)) / 1e9


def main() -> None:
    """Prints a table of both, by recipe and number of leaves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, nargs="*", default=[10, 100, 500])
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--recipes", nargs="*", default=["none", "fp8", "fp8-lm-o2"])
    given = parser.parse_args()
    print("| recipe | leaves | jax.jit, us | scalify.jit, us | of it kernels, us | ratio |")
    print("|---|---|---|---|---|---|")
    for recipe in given.recipes:
        for leaves in given.leaves:
            run = scalify.jit(step, recipe, donate_argnums=0)
            # Alternating, since the machine may be busy with other work.
            pairs = [
                (
                    seconds(jax.jit(step, donate_argnums=0), leaves, given.calls // 3),
                    seconds(run, leaves, given.calls // 3),
                )
                for _ in range(3)
            ]
            theirs = min(one for (one, _), _ in pairs)
            ours = min(one for _, (one, _) in pairs)
            kernels = kernel_seconds(run, pairs[-1][1][1])
            row = np.array([theirs, ours, kernels]) * 1e6
            cells = " | ".join(f"{value:.0f}" for value in row)
            print(f"| {recipe} | {leaves} | {cells} | {(ours - kernels) / theirs:.2f} |")


if __name__ == "__main__":
    main()
