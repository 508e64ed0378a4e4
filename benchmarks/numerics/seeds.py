"""Trains the example under each recipe and many seeds; prints the mean paired gap to F32.

Runs of one seed share initial weights, data order and steps, so the gap is paired. F32 also runs
against itself: the same step from weights that differ by 2^-20 of their value, far below the
rounding of any format. Its gap is the effect of chaos alone.

Every finished run is a line of --store and is not run again: runs can be stopped and resumed. The
store is committed, so that seeds can be added later. Several processes may share it: each takes one
--part of the list.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import math
import multiprocessing
import pathlib
import statistics
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "llama"))

import gradients
import numpy as np
from store import RESULTS, Store

import cli
from config import ModelConfig, TrainConfig

__all__ = ["Gap", "main"]

BASE = "none"
NUDGED = "none, nudged"  # F32 from weights that differ by 2^-20
# Health policies other than the default.
HEALTH: dict[str, Any] = {"fp8, off": "off", "fp8, rescale": "rescale"}
RUN_AS = {NUDGED: BASE, **dict.fromkeys(HEALTH, "fp8")}

# Two-sided 95 % quantiles of Student's t by degrees of freedom (any table of the distribution),
# and one-sided ones: the upper bound alone.
STUDENT = {
    1: 12.706,
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    6: 2.447,
    7: 2.365,
    8: 2.306,
    9: 2.262,
    11: 2.201,
    15: 2.131,
    23: 2.069,
    31: 2.040,
}
ONE_SIDED = {
    1: 6.314,
    2: 2.920,
    3: 2.353,
    4: 2.132,
    5: 2.015,
    6: 1.943,
    7: 1.895,
    8: 1.860,
    9: 1.833,
    11: 1.796,
    15: 1.753,
    23: 1.714,
    31: 1.696,
}


@dataclasses.dataclass(frozen=True)
class Gap:
    """Paired gaps of a recipe to F32, in percent of the F32 validation loss."""

    recipe: str
    gaps: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(self.gaps)

    def half_width(self, quantiles: dict[int, float]) -> float:
        """Half of the 95 % interval of the mean by a table; infinite for fewer than two seeds."""
        count = len(self.gaps)
        if count < 2:
            return math.inf
        # Between two entries, the one with fewer degrees of freedom gives the wider interval.
        known = max(degrees for degrees in quantiles if degrees < count)
        return quantiles[known] * statistics.stdev(self.gaps) / math.sqrt(count)

    @property
    def high(self) -> float:
        """The upper 95 % bound of the mean: one-sided."""
        return self.mean + self.half_width(ONE_SIDED)


def key_of(recipe: str, cfg: ModelConfig, plan: TrainConfig) -> str:
    """Returns the name of one run, from all its parameters."""
    key = json.dumps([dataclasses.asdict(cfg), dataclasses.asdict(plan)], sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    return f"{recipe.replace(', ', '-')}.{plan.seed}.{digest}"


def run(recipe: str, cfg: ModelConfig, plan: TrainConfig) -> dict[str, Any]:
    """Trains once, in a process of its own, and returns the table's figures."""
    import jax

    import data
    import model
    import scalify
    import train

    if recipe == NUDGED:
        plain = model.init

        def nudged(key: Any, cfg: ModelConfig) -> Any:
            return jax.tree.map(lambda w: w * (1 + 2.0**-20), plain(key, cfg))

        model.init = nudged
    if (health := HEALTH.get(recipe)) is not None:
        usual = train.compiled

        def kept(fn: Any, backend: str, recipe: str, donate: tuple[int, ...] = ()) -> Any:
            if not donate:  # the loss alone, with scales measured from its weights
                return usual(fn, backend, recipe)
            return scalify.jit(
                fn, recipe=recipe, donate_argnums=donate, numerics=scalify.Numerics(health=health)
            )

        train.compiled = kept
    text = data.load()
    result = train.train(cfg, plan, text, "scalify", RUN_AS.get(recipe, recipe))
    wide = train.compiled(lambda p, batch: model.loss(p, batch, cfg), "scalify", BASE)
    windows = data.validation_batches(text, plan.batch, cfg.seq)
    return {
        "recipe": recipe,
        "seed": plan.seed,
        "steps": plan.steps,
        "validation": result.validation,
        "validation_f32": statistics.fmean(
            float(np.asarray(wide(result.params, batch))) for batch in windows
        ),
        "train": statistics.fmean(result.losses[-20:]),
        "seconds": result.seconds,
        "saturated": sum(row["saturated"] for row in result.health),
        "flushed": sum(row["flushed"] for row in result.health),
        "cast": sum(row["elements"] for row in result.health),
    }


def finish(store: Store, todo: list[tuple[str, ModelConfig, TrainConfig]], limit: float) -> None:
    """Runs a list, and adds each run at its end; starts none after `limit` seconds."""
    end = time.monotonic() + limit
    # A process per run: a run leaves threads and compiled steps behind, and a forked JAX hangs.
    context = multiprocessing.get_context("spawn")
    for recipe, cfg, plan in todo:
        if time.monotonic() > end:
            print("stopped at the time limit: run again to go on")
            return
        with context.Pool(1) as pool:
            row = pool.apply(run, (recipe, cfg, plan))
        store.add(key_of(recipe, cfg, plan), row)
        print(f"{recipe}, seed {plan.seed}: {row['validation']:.4f}", flush=True)


def gaps(rows: list[dict[str, Any]], recipe: str, key: str = "validation") -> Gap:
    """Returns the gaps of the seeds for which both the recipe and F32 have run.

    A run without losses in the store has its gaps to F32 there.
    """
    base = {row["seed"]: row for row in rows if row["recipe"] == BASE}
    found = {}
    for row in rows:
        if row["recipe"] != recipe:
            continue
        if f"gap of {key}" in row:
            found[row["seed"]] = row[f"gap of {key}"]
        elif key in row and "validation" in base.get(row["seed"], {}):
            found[row["seed"]] = 100 * (row[key] / base[row["seed"]]["validation"] - 1)
    return Gap(recipe, tuple(found[seed] for seed in sorted(found)))


def table(rows: list[dict[str, Any]], recipes: list[str]) -> str:
    """Returns the table in Markdown: one line per recipe."""
    lines = [
        "| recipe | seeds | gap to F32, mean | upper 95 % bound | 95 % interval | each seed "
        "| gap, weights read by F32 |",
        "|---|---|---|---|---|---|---|",
    ]
    for recipe in recipes:
        gap = gaps(rows, recipe)
        if recipe == BASE or not gap.gaps:
            continue
        name = "f32 against itself" if recipe == NUDGED else recipe
        half = gap.half_width(STUDENT)
        interval = f"{gap.mean - half:+.2f} .. {gap.mean + half:+.2f} %"
        cells = [name, str(len(gap.gaps)), f"{gap.mean:+.2f} %"]
        cells += [f"{gap.high:+.2f} %", interval] if len(gap.gaps) > 1 else ["-", "-"]
        cells.append(" ".join(f"{value:+.2f}" for value in gap.gaps))
        read = gaps(rows, recipe, "validation_f32").gaps
        cells.append(f"{statistics.fmean(read):+.2f} % ({len(read)})" if read else "-")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def described(cfg: ModelConfig, plan: TrainConfig, seeds: int) -> str:
    """Returns a description of the training and of the table."""
    return (
        f"The example LLaMA ({cfg.layers} layers, width {cfg.dim}, F32 as written): {plan.steps} "
        f"steps of {plan.batch} sequences of {cfg.seq} bytes, learning rate {plan.learning_rate}, "
        f"warm-up {plan.warmup}, seeds {plan.seed} to {plan.seed + seeds - 1}, in our own "
        "executable on the CPU, without a loss scale. Losses are those of the full validation "
        "text, in nats, by the recipe's own forward. Runs of one seed share initial weights and "
        "the order of the data, so gaps are paired; the bound (one-sided) and the interval "
        "(two-sided) are Student's. F32 against itself "
        "starts from weights that differ by 2^-20 of their value: its gap is the effect of chaos "
        "alone. The last column is the gap of the same weights evaluated in F32: the gap "
        "that training causes, without the rounding of the validation's forward."
    )


def main() -> int:
    """Runs the command; returns 1 if an upper bound is above --bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", nargs="*", default=["fp16", "fp8", "fp8-block", "fp8-lm-o2"])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--part", default="0/1", help="I/N: of every N runs left, the I-th")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no run after this")
    parser.add_argument("--bar", type=float, help="exit with 1 above this upper bound, in %%")
    parser.add_argument("--store", type=pathlib.Path, default=RESULTS / "seeds.jsonl")
    parser.add_argument("--write", action="store_true", help="to docs/research/numerics-seeds.md")
    cli.add_fields(parser, ModelConfig, TrainConfig)
    parser.set_defaults(steps=1000)
    options = parser.parse_args()
    cfg, first = cli.made(options, ModelConfig), cli.made(options, TrainConfig)
    store = Store(options.store)
    recipes = [BASE, NUDGED, *options.recipes]
    plans = [dataclasses.replace(first, seed=first.seed + i) for i in range(options.seeds)]
    # Seed by seed, so that a stopped run leaves complete pairs.
    work = [(recipe, cfg, plan) for plan in plans for recipe in recipes]
    part, parts = map(int, options.part.split("/"))
    done = store.rows()
    todo = [item for item in work[part::parts] if key_of(*item) not in done]
    finish(store, todo, 60 * options.minutes)
    done = store.rows()
    rows = [done[name] for item in work if (name := key_of(*item)) in done]
    found_table = table(rows, recipes)
    print(found_table)
    if options.write:
        text = f"{described(cfg, first, options.seeds)}\n\n{found_table}"
        gradients.write(
            "docs/research/numerics-seeds.md", "Training with many seeds", text, "make seeds"
        )
    found = [gap for gap in (gaps(rows, recipe) for recipe in options.recipes) if gap.gaps]
    highs = [gap.high for gap in found]
    return 1 if options.bar is not None and max(highs, default=math.inf) > options.bar else 0


if __name__ == "__main__":
    sys.exit(main())
