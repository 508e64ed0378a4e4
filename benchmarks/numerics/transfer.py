"""The best learning rate by width, in F32 and in fp8: does the recipe move it?

Short runs of `scalify.train` on the corpus of the long run, from equal weights and data for all
rates and recipes of a seed and width. Each finished run is a line of --store and is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
import shutil
import sys
import time
from typing import Any

import corpus
import gradients
import numpy as np
from long_run import machine
from store import RESULTS, Store

from scalify.train.config import read_text
from scalify.train.log import read_records
from scalify.train.settings import Config

__all__ = ["main", "optimum", "table"]

BASE = "none"
# muS's weights have unit variance: their rates are this times the others'.
MUS_FACTOR = 16
PAGE = "docs/research/numerics-transfer.md"

# Losses by recipe, width and log2 of the rate: one for each seed.
Losses = dict[tuple[str, int], dict[int, list[float]]]


def config_of(width: int, exponent: int, seed: int, options: argparse.Namespace) -> Config:
    """Returns the configuration of a run; heads have 32 channels, SwiGLU 8/3 of the width."""
    inner = -(-8 * width // 3 // 64) * 64
    shape = {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": options.layers,
        "num_attention_heads": width // 32,
        "max_position_embeddings": 128,
    }
    sections = {
        "model.override": shape,
        "data": {
            "train": [f"{options.corpus}/corpus.tokens"],
            "validation": [f"{options.corpus}/corpus.held.tokens"],
            "sequence": 128,
        },
        "train": {"steps": options.steps, "batch": options.batch, "seed": seed},
        "optimizer": {"learning_rate": 2.0**exponent},
        "schedule": {"warmup": options.steps // 10},
        "evaluation": {"every": options.steps, "batches": 16},
        "checkpoint": {"every": options.steps},
        "log": {"folder": f"{options.folder}/run", "every": options.steps},
    }
    lines = []
    for name, keys in sections.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    return read_text("\n".join(lines), ["log.page=false"])


def trained(recipe: str, config: Config) -> dict[str, Any]:
    """Trains once; returns the held-out loss, not a number if training diverged."""
    import mus

    from scalify.train.loop import Run

    if recipe == "mus":
        rate = MUS_FACTOR * config.optimizer.learning_rate
        optimizer = dataclasses.replace(config.optimizer, learning_rate=rate)
        config = mus.with_recipe(dataclasses.replace(config, optimizer=optimizer))
    else:
        section = dataclasses.replace(config.recipe, name=recipe)
        config = dataclasses.replace(config, recipe=section)
    folder = pathlib.Path(config.log.folder)
    shutil.rmtree(folder, ignore_errors=True)
    run = (mus.MusRun if recipe == "mus" else Run)(config)
    try:
        if number := run.train():
            sys.exit(128 + number)
    except FloatingPointError:
        return {"held": math.nan}
    finally:
        run.close()
    records = list(read_records(folder / "log.jsonl"))
    moved = sum(row.get("moved", 0) for row in records)
    held = next(row["loss"] for row in records if row["kind"] == "evaluation")
    return {"held": held, "moved": moved}


def optimum(losses: dict[int, float]) -> float | None:
    """Returns log2 of the best rate: the vertex of the parabola by the best rate and its two sides.

    None if the best rate is the first or the last one, or a side is not finite.

    Args:
        losses: by log2 of the rate, which differ by equal amounts.
    """
    finite = {at: loss for at, loss in losses.items() if math.isfinite(loss)}
    places = sorted(finite)
    best = min(places, key=lambda at: finite[at], default=None)
    if best is None or best in (places[0], places[-1]):
        return None
    index = places.index(best)
    near = places[index - 1 : index + 2]
    square, slope, _ = np.polyfit(near, [finite[at] for at in near], 2)
    return float(-slope / (2 * square))


def _means(found: dict[int, list[float]]) -> dict[int, float]:
    return {at: float(np.mean(values)) for at, values in sorted(found.items())}


def table(losses: Losses, exponents: list[int]) -> str:
    """Returns the table in Markdown: a line for each width and recipe."""
    rows = []
    for (recipe, width), found in sorted(losses.items(), key=lambda item: item[0][1]):
        means = _means(found)
        best = min(means, key=lambda at: (not math.isfinite(means[at]), means[at]))
        where, base = optimum(means), losses.get((BASE, width))
        other = optimum(_means(base)) if base else None
        shift = "-"
        if recipe not in (BASE, "mus") and where is not None and other is not None:
            shift = f"{where - other:+.2f}"
        cells = [
            ("**{:.4f}**" if at == best else "{:.4f}").format(means[at]) if at in means else "-"
            for at in exponents
        ]
        place = "at an end" if where is None else f"2^{where:.2f}"
        seeds = max(map(len, found.values()))
        rows.append([str(width), recipe, str(seeds), *cells, place, shift])
    rates = [f"2^{at}" for at in exponents]
    header = ["width", "recipe", "seeds", *rates, "optimum", "binades from F32's"]
    return gradients.table(header, rows)


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--widths", nargs="*", type=int, default=[128, 256, 512])
    parser.add_argument("--recipes", nargs="*", default=[BASE, "fp8", "mus"])
    parser.add_argument("--rates", nargs=2, type=int, default=[-12, -5], help="log2, both ends")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no run after this")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/transfer"))
    long_run = pathlib.Path("build/long-run/corpus")
    parser.add_argument("--corpus", type=pathlib.Path, default=long_run)
    parser.add_argument("--store", type=pathlib.Path, default=RESULTS / "transfer.jsonl")
    parser.add_argument("--write", action="store_true", help=f"to {PAGE}")
    return parser


def described(options: argparse.Namespace) -> str:
    """Returns a description of the runs and of the table."""
    return (
        f"On {machine()}: LLaMA of {options.layers} layers, heads of 32 channels, "
        f"{options.steps} steps of {options.batch} x 128 tokens of the "
        "[long run's corpus](numerics-long-run.md), AdamW "
        f"with a warm-up of {options.steps // 10} steps and a cosine to a tenth; standard "
        "parametrisation, so that the optimum may move with the width by F32 too. Entries are "
        "held-out losses in nats on "
        f"{16 * options.batch * 128:,} tokens, computed in F32; runs of one width and seed share "
        "initial weights and data. The optimum is the vertex of a parabola in log2 of the rate "
        "through the best entry and its two sides. Rates are a factor of two apart, and a seed "
        "moves the vertex too, so that less than half a binade says nothing. Of "
        f"[muS](numerics-long-run.md) the rates are {MUS_FACTOR} times those of the header."
    )


def main() -> int:
    """Runs the command; returns 0."""
    options = make_parser().parse_args()
    store, end = Store(options.store), time.monotonic() + 60 * options.minutes
    exponents = list(range(options.rates[0], options.rates[1] + 1))
    corpus.prepare(options.corpus)
    losses: Losses = {}
    for seed in range(options.seeds):
        for width in options.widths:
            for exponent in exponents:
                for recipe in options.recipes:
                    shape = f"{options.layers}x{width}.{options.steps}x{options.batch}"
                    key = f"{recipe}.{shape}.{exponent}.{seed}"
                    row = store.get(key)
                    if row is None and time.monotonic() < end:
                        config = config_of(width, exponent, seed, options)
                        row = trained(recipe, config)
                        store.add(key, {"machine": machine(), **row})
                        print(f"{key}: {row['held']:.4f}", flush=True)
                    if row is not None:
                        by_rate = losses.setdefault((recipe, width), {})
                        by_rate.setdefault(exponent, []).append(row["held"])
    found = table(losses, exponents)
    print(found)
    if options.write:
        text = f"{described(options)}\n\n{found}"
        gradients.write(PAGE, "Learning rates by width", text, "make transfer")
    return 0


if __name__ == "__main__":
    sys.exit(main())
