"""The last 5 % of training in BF16, after FP8: the example, with no state converted by hand.

The results of a step by one recipe, FP8 moments and F16 masters included, are the arguments of
another recipe's step, unchanged. They are compared with runs that keep one recipe to the end; all
have the same initial weights, data and learning rates. The losses are of the last step before the
change and of the first after it. Validation is in F32, of the final weights. All are means over
seeds. Gaps of a percent are noise ([many seeds](numerics-seeds.md)).
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import gradients as common
import jax
import numpy as np

import cli
import data
import model
import optimizer
import scalify
from config import ModelConfig, TrainConfig

__all__ = ["main"]

BASE, LAST = "none", "bf16"
RECIPES = ("fp8-lm-o2",)

Tree = Any


class Trainer:
    """Trains the example; one step for each recipe."""

    def __init__(self, cfg: ModelConfig, plan: TrainConfig) -> None:
        self._cfg, self._plan, text = cfg, plan, data.load()
        self._adamw = optimizer.make_optimizer(plan)
        self._batches = data.train_batches(text, plan.steps, plan.batch, cfg.seq, plan.seed)
        self._validation = data.validation_batches(text, plan.batch, cfg.seq)
        self._loss = jax.jit(lambda params, batch: model.loss(params, batch, cfg))

    def start(self) -> tuple[Tree, Tree]:
        """Returns initial weights and state."""
        params = model.init(jax.random.key(self._plan.seed), self._cfg)
        return params, self._adamw.init(params)

    def step(self, recipe: str) -> Any:
        """Returns the step by a recipe; state is donated."""
        step = optimizer.make_step(self._cfg, self._adamw)
        return scalify.jit(step, recipe, donate_argnums=(0, 1))

    def run(self, step: Any, state: Tree, first: int, last: int) -> tuple[Tree, list[float]]:
        """Returns state and losses after the steps from `first` to `last`."""
        losses = []
        for batch in self._batches[first:last]:
            *state, loss = step(*state, batch)
            losses.append(float(np.asarray(loss)))
        return state, losses

    def validation(self, state: Tree) -> float:
        """Returns the loss of the weights in F32."""
        params = jax.tree.map(np.asarray, state[0])
        return float(np.mean([float(self._loss(params, batch)) for batch in self._validation]))


@dataclasses.dataclass(frozen=True)
class Run:
    """Losses of the last step before the change and of the first after it, and of validation."""

    before: float
    behind: float
    validation: float


def runs_of(
    cfg: ModelConfig, plan: TrainConfig, recipes: Sequence[str], change: int
) -> dict[str, Run]:
    """Returns the outcome of each way of training, from the plan's seed."""
    trainer, found = Trainer(cfg, plan), {}
    for recipe in (BASE, LAST):
        state, losses = trainer.run(trainer.step(recipe), trainer.start(), 0, plan.steps)
        validation = trainer.validation(state)
        found[f"`{recipe}`"] = Run(losses[change - 1], losses[change], validation)
    for recipe in recipes:
        step = trainer.step(recipe)
        state, losses = trainer.run(step, trainer.start(), 0, change)
        # The run without a change continues with true values, which the step packs to the same
        # bits.
        copied = jax.tree.map(np.array, state)
        changed, rest = trainer.run(trainer.step(LAST), state, change, plan.steps)
        straight, same = trainer.run(step, copied, change, plan.steps)
        found[f"`{recipe}`"] = Run(losses[-1], same[0], trainer.validation(straight))
        name = f"`{recipe}`, last {len(rest)} steps `{LAST}`"
        found[name] = Run(losses[-1], rest[0], trainer.validation(changed))
    return found


def cells_of(name: str, seeds: Sequence[dict[str, Run]]) -> list[str]:
    """Returns one line of the table."""
    runs = [seed[name] for seed in seeds]
    gaps = [100 * (seed[name].validation / seed[f"`{BASE}`"].validation - 1) for seed in seeds]
    figures = [
        statistics.fmean(getattr(run, field.name) for run in runs)
        for field in dataclasses.fields(Run)
    ]
    each = " ".join(f"{gap:+.2f}" for gap in gaps)
    return [
        name,
        *(f"{figure:.4f}" for figure in figures),
        f"{statistics.fmean(gaps):+.2f} %",
        each,
    ]


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", nargs="*", default=RECIPES)
    parser.add_argument("--share", type=float, default=0.05, help="of the steps in BF16 (0.05)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--write", action="store_true", help="to docs/research/numerics-switching.md"
    )
    cli.add_fields(parser, ModelConfig, TrainConfig)
    parser.set_defaults(steps=100, warmup=20, batch=8)
    options = parser.parse_args()
    cfg, plan = cli.made(options, ModelConfig), cli.made(options, TrainConfig)
    change = round(plan.steps * (1 - options.share))
    seeds = []
    for index in range(options.seeds):
        one = dataclasses.replace(plan, seed=plan.seed + index)
        seeds.append(runs_of(cfg, one, options.recipes, change))
        print(one.seed, seeds[-1], flush=True)
    header = ["run", f"loss of step {change}", f"of step {change + 1}", "validation loss"]
    lines = [cells_of(name, seeds) for name in seeds[0]]
    text = common.table([*header, "gap to F32", "each seed"], lines)
    print(text)
    if options.write:
        about = (
            f"{cfg.layers} layers, {plan.steps} steps of {plan.batch} x {cfg.seq} bytes, seeds "
            f"{plan.seed} to {plan.seed + options.seeds - 1}."
        )
        page = f"{' '.join((__doc__ or '').split())} {about}\n\n{text}"
        title = "The last steps by another recipe"
        common.write("docs/research/numerics-switching.md", title, page, "make switching")
    return 0


if __name__ == "__main__":
    sys.exit(main())
