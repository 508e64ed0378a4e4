"""Times the example's training step: ours against jax.jit, interleaved on the same cores.

Runs alternate, A B C A B C, so that a busy machine slows all of them; only ratios within a run are
meaningful.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples" / "llama"))

import cli
import data
import model
import optimizer
from config import ModelConfig, TrainConfig

__all__ = ["Contender", "main"]


class Contender:
    """A compiled step with its own state, advanced one step at a time."""

    def __init__(self, name: str, step: Callable[..., Any], cfg: ModelConfig, plan: TrainConfig):
        self.name = name
        self.step = step
        self.params = model.init(jax.random.key(plan.seed), cfg)
        self.state = optimizer.make_optimizer(plan).init(self.params)
        self.times: list[float] = []
        self.loss = 0.0

    def advance(self, batch: np.ndarray) -> float:
        """Runs one step and returns its seconds until the loss is on the host."""
        started = time.perf_counter()
        self.params, self.state, loss = self.step(self.params, self.state, batch)
        self.loss = float(np.asarray(loss))
        return time.perf_counter() - started


def contenders(cfg: ModelConfig, plan: TrainConfig, recipes: list[str]) -> list[Contender]:
    """Returns jax.jit first, then our step by each recipe, then XLA on our rewritten step."""
    step = optimizer.make_step(cfg, optimizer.make_optimizer(plan))
    found = [Contender("jax.jit f32", jax.jit(step, donate_argnums=(0, 1)), cfg, plan)]
    if not recipes:
        return found
    import scalify

    for recipe in recipes:
        ours = scalify.jit(step, recipe=recipe, target="cpu", donate_argnums=(0, 1))
        name = "f32" if recipe == "none" else recipe
        found.append(Contender(f"scalify {name}", ours, cfg, plan))
        if recipe != "none":
            rewritten = scalify.transform(step, recipe=recipe, donate_argnums=(0, 1))
            found.append(Contender(f"jax.jit {name}", rewritten, cfg, plan))
    return found


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=20, help="timed steps of each (20)")
    parser.add_argument("--warm", type=int, default=2, help="untimed steps after compiling (2)")
    parser.add_argument("--recipes", nargs="*", default=["none", "fp8"], help="(none fp8)")
    parser.add_argument("--json", type=pathlib.Path, help="also write the numbers here")
    cli.add_fields(parser, ModelConfig, TrainConfig)
    options = parser.parse_args()
    cfg, plan = cli.made(options, ModelConfig), cli.made(options, TrainConfig)

    batches = data.train_batches(
        data.load(), 1 + options.warm + options.rounds, plan.batch, cfg.seq, plan.seed
    )
    field_of = contenders(cfg, plan, options.recipes)
    print(f"{cfg.layers} layers, dim {cfg.dim}, batch {plan.batch} x {cfg.seq}, {cfg.dtype}")
    compiles = []
    for one in field_of:
        compiles.append(one.advance(batches[0]))
        print(f"  compiled {one.name} in {compiles[-1]:.1f} s", flush=True)
    for batch in batches[1 : 1 + options.warm]:
        for one in field_of:
            one.advance(batch)
    for batch in batches[1 + options.warm :]:
        for one in field_of:
            one.times.append(one.advance(batch))

    base = statistics.median(field_of[0].times)
    print("\nstep                     median ms   fastest ms   of jax.jit f32   loss")
    rows = []
    for one, seconds in zip(field_of, compiles, strict=True):
        median = statistics.median(one.times)
        rows.append(
            {
                "name": one.name,
                "median_ms": 1e3 * median,
                "fastest_ms": 1e3 * min(one.times),
                "ratio": median / base,
                "compile_s": seconds,
                "loss": one.loss,
            }
        )
        print(
            f"{one.name:<25}{1e3 * median:>9.1f}{1e3 * min(one.times):>13.1f}"
            f"{median / base:>17.2f}{one.loss:>7.3f}"
        )
    if options.json:
        settings = {"model": dataclasses.asdict(cfg), "batch": plan.batch, "rounds": options.rounds}
        options.json.write_text(json.dumps({"settings": settings, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
