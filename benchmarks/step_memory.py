"""Memory of a training step, donated as in training: ours by recipe beside XLA's.

The total of arguments, results and temporaries, where a result that takes a donated argument's
memory counts once. Ours includes the memory for tiles of each thread.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import jax

import scalify
from suite_models import SUITE, Case

__all__ = ["main"]

MIB = 2**20


def measure_xla(case: Case) -> tuple[int, int]:
    """Returns the bytes of XLA's step, and of its temporaries."""
    step = jax.jit(case.step, donate_argnums=0).lower(case.state, case.batch).compile()
    found: Any = step.memory_analysis()
    total = found.argument_size_in_bytes + found.output_size_in_bytes
    temporaries = found.temp_size_in_bytes
    return total + temporaries - found.alias_size_in_bytes, temporaries


def measure(case: Case, recipe: str, threads: int) -> tuple[int, int]:
    """Returns the bytes of our step, and of its temporaries; `+` packs the state."""
    numerics = scalify.Numerics(pack_state=recipe.endswith("+"))
    step = scalify.jit(
        case.step, recipe=recipe.rstrip("+"), donate_argnums=0, numerics=numerics, threads=threads
    )
    state = jax.tree.map(jax.numpy.array, case.state)
    if numerics.pack_state:
        state, _ = step(state, case.batch)
    manifest = step.executable(state, case.batch).manifest
    tiles = threads * manifest.get("tile_bytes", 0)
    memory = manifest["memory"]
    return memory["peak"] + tiles, memory["arena"] + tiles


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", nargs="*", choices=SUITE, default=["llama-768", "gpt2-small"])
    parser.add_argument("--recipes", nargs="*", default=["none", "bf16", "fp8", "fp8-lm-o2+"])
    parser.add_argument("--threads", type=int, default=2, help="of our step (2)")
    options = parser.parse_args()
    print("| model | step | MiB | of XLA's | temporaries, MiB | of XLA's |")
    print("|---|---|---|---|---|---|")
    for name in options.models:
        case = SUITE[name]()
        total, temporaries = measure_xla(case)
        print(f"| `{name}` | `jax.jit` | {total / MIB:,.0f} | | {temporaries / MIB:,.0f} | |")
        for recipe in options.recipes:
            ours, own = measure(case, recipe, options.threads)
            label = f"`{recipe.rstrip('+')}`" + (", packed state" if recipe.endswith("+") else "")
            print(
                f"| | {label} | {ours / MIB:,.0f} | {ours / total:.2f} | {own / MIB:,.0f} | "
                f"{own / temporaries:.2f} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
