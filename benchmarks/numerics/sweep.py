"""Trains the example by each recipe at three learning rates and three seeds; counts divergences.

The rates are the example's own, a third of it and three times it. At the largest rate, which moves
scales most, `fp8` also runs with constant scales and with scales that follow the counts from the
start; by default a step adopts these once a cast clips. Runs are those of seeds.py in the same
store, so that neither repeats the other's. A run diverged if its validation loss is not finite, or
a quarter above F32's from the same seed at the example's own rate: it did not recover.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import statistics
import sys
from typing import Any

import gradients
import seeds
from store import RESULTS, Store

import cli
from config import ModelConfig, TrainConfig

__all__ = ["main", "table"]

# fp8-lm-o3 equals fp8-lm-o2 within one process.
RECIPES = tuple(recipe for recipe in gradients.PRESETS if recipe != "fp8-lm-o3")
FACTORS = (1.0, 1 / 3, 3.0)
# A run has diverged above this factor of F32's validation loss at the example's own rate.
LOST = 1.25

Losses = dict[tuple[str, float], dict[int, float]]


def has_diverged(loss: float, usual: float) -> bool:
    """True if a run's validation loss shows divergence; `usual` is F32's."""
    return not math.isfinite(loss) or loss > LOST * usual


def cells_of(losses: Losses, recipe: str, rate: float, own: float) -> list[str]:
    """Returns one line of the table, for one recipe at one rate.

    Args:
        losses: validation losses by recipe and rate, by seed.
        recipe: the recipe.
        rate: the learning rate.
        own: the example's own rate.
    """
    found, base = losses[recipe, rate], losses.get((seeds.BASE, rate), {})
    usual = losses.get((seeds.BASE, own), {})
    judged = [seed for seed in found if seed in usual]
    diverged = {seed for seed in judged if has_diverged(found[seed], usual[seed])}
    gaps = [
        100 * (found[seed] / base[seed] - 1)
        for seed in found
        if seed in base and seed not in diverged
    ]
    return [
        recipe,
        f"{rate:.2g}",
        " ".join(f"{found[seed]:.4f}" for seed in sorted(found)),
        f"{statistics.fmean(gaps):+.2f} %" if gaps and recipe != seeds.BASE else "-",
        " ".join(f"{gap:+.2f}" for gap in gaps) if recipe != seeds.BASE else "-",
        f"{len(diverged)} of {len(judged)}",
    ]


def table(losses: Losses, own: float) -> str:
    """Returns the table in Markdown."""
    header = [
        "recipe",
        "learning rate",
        "validation loss, each seed",
        "gap to F32 at that rate",
        "each",
        "diverged",
    ]
    return gradients.table(header, [cells_of(losses, *key, own) for key in losses])


def described(cfg: ModelConfig, plan: TrainConfig, count: int) -> str:
    """Returns a description of the training and of the table."""
    return (
        f"The example LLaMA ({cfg.layers} layers, width {cfg.dim}), {plan.steps} steps of "
        f"{plan.batch} sequences of {cfg.seq} bytes, in our own executable on the CPU, seeds "
        f"{plan.seed} to {plan.seed + count - 1}. Validation is by the recipe's own forward, in "
        "nats. Runs of one seed and rate share initial weights and data. A run counts as diverged "
        f"if its loss is not finite or above {LOST} times F32's at the example's own rate, "
        f"{plan.learning_rate:g}; it is left out of the gaps. A single gap is mostly chaos: "
        "[many seeds](numerics-seeds.md) says how much."
    )


def main() -> int:
    """Runs the command; returns 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", nargs="*", default=list(RECIPES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no run after this")
    parser.add_argument("--store", type=pathlib.Path, default=RESULTS / "seeds.jsonl")
    parser.add_argument("--write", action="store_true", help="to docs/research/numerics-sweep.md")
    cli.add_fields(parser, ModelConfig, TrainConfig)
    parser.set_defaults(steps=1000)
    options = parser.parse_args()
    cfg, first = cli.made(options, ModelConfig), cli.made(options, TrainConfig)
    store = Store(options.store)
    rates = [first.learning_rate * factor for factor in FACTORS]
    cases = [(recipe, rate) for recipe in (seeds.BASE, *options.recipes) for rate in rates]
    if "fp8" in options.recipes:
        cases += [(recipe, rates[-1]) for recipe in seeds.HEALTH]
    work = [
        (recipe, cfg, dataclasses.replace(first, seed=first.seed + i, learning_rate=rate))
        for recipe, rate in cases
        for i in range(options.seeds)
    ]
    done = store.rows()
    todo = [item for item in work if "validation" not in done.get(seeds.key_of(*item), {})]
    seeds.finish(store, todo, 60 * options.minutes)
    done = store.rows()
    losses: Losses = {}
    for recipe, _, plan in work:
        row: dict[str, Any] = done.get(seeds.key_of(recipe, cfg, plan), {})
        if "validation" in row:
            losses.setdefault((recipe, plan.learning_rate), {})[plan.seed] = row["validation"]
    found = table(losses, first.learning_rate)
    print(found)
    if options.write:
        text = f"{described(cfg, first, options.seeds)}\n\n{found}"
        if left := len(work) - sum(map(len, losses.values())):
            text += f"\n\n{left} of {len(work)} runs are still to be made."
        gradients.write("docs/research/numerics-sweep.md", "Learning rates", text, "make sweep")
    return 0


if __name__ == "__main__":
    sys.exit(main())
