"""The last 5 % of training in BF16, after FP8: the example, with no state converted by hand.

What a step by one recipe returns, FP8 moments and F16 masters included, goes into the step of
another one as it is. Beside such runs stand those that keep one recipe to the end; all have the
same initial weights, data and learning rates. The losses are of the last step before the change and
of the first behind it; validation is in F32, of the weights that are left. One seed: gaps of a
percent are noise ([many seeds](numerics-seeds.md)).
"""

from __future__ import annotations

import argparse
import sys
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


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", nargs="*", default=RECIPES)
    parser.add_argument("--share", type=float, default=0.05, help="of the steps in BF16 (0.05)")
    parser.add_argument("--write", action="store_true", help="to docs/numerics-switching.md")
    cli.add_fields(parser, ModelConfig, TrainConfig)
    parser.set_defaults(steps=100, warmup=20, batch=8)
    options = parser.parse_args()
    cfg, plan = cli.made(options, ModelConfig), cli.made(options, TrainConfig)
    trainer, change = Trainer(cfg, plan), round(plan.steps * (1 - options.share))
    lines: list[list[str]] = []

    def add(name: str, validation: float, base: float, cells: list[str]) -> None:
        lines.append([name, *cells, f"{validation:.4f}", f"{100 * (validation / base - 1):+.2f} %"])
        print(" | ".join(lines[-1]), flush=True)

    base = 0.0
    for recipe in (BASE, LAST):
        state, losses = trainer.run(trainer.step(recipe), trainer.start(), 0, plan.steps)
        found = trainer.validation(state)
        base = base or found
        add(f"`{recipe}`", found, base, [f"{losses[change - 1]:.4f}", f"{losses[change]:.4f}"])
    for recipe in options.recipes:
        step = trainer.step(recipe)
        state, losses = trainer.run(step, trainer.start(), 0, change)
        # The straight run goes on with true values, which the step packs to the same bits.
        copied = jax.tree.map(np.array, state)
        changed, rest = trainer.run(trainer.step(LAST), state, change, plan.steps)
        straight, same = trainer.run(step, copied, change, plan.steps)
        for tail, end, last in (
            ("", straight, same),
            (f", last {len(rest)} steps `{LAST}`", changed, rest),
        ):
            cells = [f"{losses[-1]:.4f}", f"{last[0]:.4f}"]
            add(f"`{recipe}`{tail}", trainer.validation(end), base, cells)
    header = ["run", f"loss of step {change}", f"of step {change + 1}", "validation loss"]
    text = common.table([*header, "gap to F32"], lines)
    if options.write:
        about = f"{cfg.layers} layers, {plan.steps} steps of {plan.batch} x {cfg.seq} bytes."
        page = f"{' '.join((__doc__ or '').split())} {about}\n\n{text}"
        title = "The last steps by another recipe"
        common.write("docs/numerics-switching.md", title, page, "make switching")
    return 0


if __name__ == "__main__":
    sys.exit(main())
