"""Gradients of every preset compared with F32's, at weights along F32 training.

The example is trained in F32, from several seeds. At some of its weights each preset computes the
gradients of one batch, in our own executable. Printed is their cosine to F32's, over all parameters
and for the worst single tensor: the lowest of the seeds, and its distance to the highest. Presets
with state between steps (histories of amaxes, mu) first take some other batches at the same
weights. Scales of weights are measured once, at initial weights.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import gradients as common
import jax
import numerics
import numpy as np

import cli
import data
import model
import optimizer
import train
from config import ModelConfig, TrainConfig

__all__ = ["main"]

AMAX = "fp8-current"
# Batches that fill the histories, whose window is 16.
BEFORE = 16

Tree = Any


def trained(
    cfg: ModelConfig, plan: TrainConfig, looks: list[int], batches: np.ndarray
) -> dict[int, Tree]:
    """Returns the weights of F32 training after each number of steps."""
    params = model.init(jax.random.key(plan.seed), cfg)
    adamw = optimizer.make_optimizer(plan)
    state = (params, adamw.init(params))
    step = train.compiled(optimizer.make_step(cfg, adamw), "scalify", "none", (0, 1))
    kept = {}
    for count in range(max(looks) + 1):
        if count in looks:
            kept[count] = jax.tree.map(np.array, state[0])
        if count < max(looks):
            *state, _ = step(*state, batches[count])
    return kept


def gradients_of(
    recipe: str, cfg: ModelConfig, kept: dict[int, Tree], batches: np.ndarray
) -> dict[int, Tree]:
    """Returns a preset's gradients at each set of weights."""

    def grads(params: Any, batch: Any) -> tuple[Any, Any]:
        loss, found = jax.value_and_grad(model.loss)(params, batch, cfg)
        return loss, found

    step = train.compiled(grads, "scalify", recipe)
    found = {}
    for count, params in sorted(kept.items()):
        for batch in batches[:BEFORE]:
            _, tree = step(params, batch)
        found[count] = jax.tree.map(np.array, tree)
    return found


def passes(found: common.Agreement, amax: common.Agreement) -> bool:
    """True if the gradient bar holds."""
    return (
        found.whole >= numerics.GLOBAL_BAR
        and found.worst >= numerics.WORST_BAR
        and found.whole >= amax.whole - numerics.AMAX_BAR
    )


def text_of(seeds: Sequence[common.Agreement]) -> str:
    """Returns the lowest cosines of some seeds, and their spread."""
    parts = []
    for figures in ([one.whole for one in seeds], [one.worst for one in seeds]):
        spread = f" (+{max(figures) - min(figures):.4f})" if len(figures) > 1 else ""
        parts.append(f"{min(figures):.4f}{spread}")
    return " / ".join(parts)


def measured(
    cfg: ModelConfig, plan: TrainConfig, looks: list[int], recipes: Sequence[str]
) -> dict[str, dict[int, common.Agreement]]:
    """Returns the agreement of each preset's gradients with F32's, for the plan's seed."""
    batches = data.train_batches(data.load(), max(looks) + BEFORE, plan.batch, cfg.seq, plan.seed)
    kept = trained(cfg, plan, looks, batches)
    print(f"trained {max(looks)} steps in F32, seed {plan.seed}", flush=True)
    later = batches[max(looks) :]
    exact = gradients_of("none", cfg, kept, later)
    found: dict[str, dict[int, common.Agreement]] = {}
    for recipe in recipes:
        trees = gradients_of(recipe, cfg, kept, later)
        found[recipe] = {n: common.compare(trees[n], exact[n]) for n in looks}
        print(recipe, {n: each.text() for n, each in found[recipe].items()}, flush=True)
    return found


def described(cfg: ModelConfig, plan: TrainConfig, seeds: int) -> str:
    """Returns the text above the table."""
    return (
        f"The example LLaMA ({cfg.layers} layers, width {cfg.dim}), {plan.batch} sequences of "
        f"{cfg.seq} bytes, seeds {plan.seed} to {plan.seed + seeds - 1}, after steps of F32 "
        f"training; the learning rate {plan.learning_rate} is warmed up over {plan.warmup} steps. "
        "Cosine of a batch's gradients to F32's at the same weights: of all parameters / of the "
        "worst tensor, the lowest of the seeds, and its distance to the highest. Bars, for "
        f"each seed: at least {numerics.GLOBAL_BAR} / {numerics.WORST_BAR}, and all within "
        f"{numerics.AMAX_BAR} of `{AMAX}`."
    )


def main() -> int:
    """Runs the command; returns 1 if a bar fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", nargs="*", default=list(common.PRESETS))
    parser.add_argument("--looks", type=int, nargs="*", default=[0, 100, 1000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="to docs/research/numerics-recipes.md")
    cli.add_fields(parser, ModelConfig, TrainConfig)
    parser.set_defaults(steps=1000)
    options = parser.parse_args()
    cfg, plan = cli.made(options, ModelConfig), cli.made(options, TrainConfig)
    looks = sorted(options.looks)
    wanted = list(dict.fromkeys([AMAX, *options.recipes]))
    plans = [dataclasses.replace(plan, seed=plan.seed + i) for i in range(options.seeds)]
    found = [measured(cfg, one, looks, wanted) for one in plans]
    rows, good = [], True
    for recipe in options.recipes:
        holds = all(passes(seed[recipe][n], seed[AMAX][n]) for seed in found for n in looks)
        good &= holds
        cells = [text_of([seed[recipe][n] for seed in found]) for n in looks]
        rows.append([f"`{recipe}`", *cells, numerics.verdict(holds)])
    text = common.table(["recipe", *(f"{n} steps" for n in looks), "bars"], rows)
    print(text)
    if options.write:
        page = f"{described(cfg, plan, options.seeds)}\n\n{text}"
        common.write(
            "docs/research/numerics-recipes.md", "Gradients of the recipes", page, "make recipes"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
