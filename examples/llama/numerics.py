"""Quality of the scales: prints the drift bar and the gradient bar of the example.

At initial weights and after some steps of F32 training:

- drift: log2(true rms / scale) of every quantised operand, and its SQNR beside that of an amax
  scale (a power of two) for the same values;
- gradients: the cosine of each recipe's gradients to F32's, over all parameters and for the worst
  single tensor.

Scales of weights are measured once, at the start, as in training.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import cli
import data
import model
import optimizer
from config import ModelConfig, TrainConfig
from scalify.numerics import Operand, amax_scale, cosine, operand, sqnr

__all__ = ["Operand", "amax_scale", "cosine", "main", "operand", "sqnr"]

FORWARD_BAR = (-4.0, 5.0)
BACKWARD_BAR = (-8.0, 8.0)
WITHIN_DB, SHARE_BAR = 1.0, 0.95
GLOBAL_BAR, WORST_BAR, AMAX_BAR = 0.98, 0.95, 0.003
RECIPES = ("fp8", "fp8-current", "fp8-lm-o2", "fp8-plain", "fp8-plain-scaled")
# fp8-lm-o1 and -o3 give the same gradients: they differ in state only.
BARRED = ("fp8", "fp8-lm-o2")
AMAX_RECIPE = "fp8-current"

Grads = Callable[[Any, Any], tuple[Any, Any]]


def drift_bar(operands: list[Operand], verbose: bool) -> bool:
    """Prints the operands' drift and SQNR; returns True if they hold the bar."""
    if verbose:
        print("  log2(rms/scale)   SQNR  by amax   operand")
        for item in operands:
            print(
                f"  {item.drift:>15.2f} {item.sqnr:>6.1f} {item.amax_sqnr:>8.1f}   "
                f"{item.phase:<9}{item.format:<15}{item.name}"
            )
    good = True
    for phase, (low, high) in (("forward", FORWARD_BAR), ("backward", BACKWARD_BAR)):
        drifts = [item.drift for item in operands if item.phase == phase]
        if not drifts:
            print(f"  {phase}: no quantised operand  FAILS")
            good = False
            continue
        holds = low <= min(drifts) and max(drifts) <= high
        good &= holds
        print(
            f"  {phase}: {len(drifts)} operands, log2(rms/scale) {min(drifts):+.2f} .. "
            f"{max(drifts):+.2f}, bar {low:+.0f} .. {high:+.0f}  {verdict(holds)}"
        )
    near = sum(item.loss <= WITHIN_DB for item in operands) / max(len(operands), 1)
    worst = max(operands, key=lambda item: item.loss, default=None)
    good &= near >= SHARE_BAR
    print(
        f"  SQNR within {WITHIN_DB:g} dB of amax: {100 * near:.1f} % of operands, bar "
        f"{100 * SHARE_BAR:.0f} %  {verdict(near >= SHARE_BAR)}"
    )
    if worst:
        print(f"  worst: {worst.loss:.1f} dB below amax, {worst.sqnr:.1f} dB, {worst.name}")
    return good


def gradient_bar(grads: dict[str, Any], names: list[str]) -> bool:
    """Prints each recipe's cosines to F32; returns True if those of `BARRED` hold the bars."""
    reference = grads["none"]
    whole, worst = {}, {}
    print("  recipe              global   worst tensor")
    for recipe in RECIPES:
        whole[recipe] = cosine(grads[recipe], reference)
        each = [cosine([a], [b]) for a, b in zip(grads[recipe], reference, strict=True)]
        worst[recipe] = min(each)
        where = names[each.index(worst[recipe])]
        print(f"  {recipe:<18}{whole[recipe]:>8.4f} {worst[recipe]:>8.4f}  {where}")
    checks = [
        check
        for recipe in BARRED
        for check in (
            (f"{recipe}: global at least {GLOBAL_BAR}", whole[recipe] >= GLOBAL_BAR),
            (f"{recipe}: worst tensor at least {WORST_BAR}", worst[recipe] >= WORST_BAR),
        )
    ]
    near = whole["fp8"] >= whole[AMAX_RECIPE] - AMAX_BAR
    checks.append((f"fp8: global within {AMAX_BAR} of {AMAX_RECIPE}", near))
    for text, holds in checks:
        print(f"  {text}  {verdict(holds)}")
    return all(holds for _, holds in checks)


def verdict(holds: bool) -> str:
    """Returns the word for a bar's outcome."""
    return "holds" if holds else "FAILS"


def judge(where: str, grads: Grads, args: tuple[Any, Any], scales: Any, verbose: bool) -> bool:
    """Prints both bars at one set of weights; returns True if both hold."""
    import scalify

    print(f"\nDrift {where}, recipe fp8")
    rows = scalify.probe(grads, recipe="fp8", scales=scales)(*args)
    judged = [found for row in rows if (found := operand(row)) is not None]
    if len(judged) < len(rows):
        print(f"  {len(rows) - len(judged)} operands are all zero")
    good = drift_bar(judged, verbose)

    print(f"\nGradients {where}, cosine to F32")
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(args[0])]
    gradients: dict[str, list[np.ndarray]] = {}
    numerics = scalify.Numerics(scales=scales)
    for recipe in ("none", *RECIPES):
        by_recipe = scalify.transform(grads, recipe=recipe, numerics=numerics)
        step = grads if recipe == "none" else by_recipe
        leaves = jax.tree.leaves(jax.jit(step)(*args)[1])
        gradients[recipe] = [np.asarray(leaf) for leaf in leaves]
    return gradient_bar(gradients, names) and good


def main() -> int:
    """Runs the command; returns 0 if every bar holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--look", type=int, default=100, help="F32 steps between the looks (100)")
    parser.add_argument("--verbose", action="store_true", help="one line an operand")
    cli.add_fields(parser, ModelConfig, TrainConfig)
    options = parser.parse_args()
    # The schedule is that of the whole training run, of which only the first steps run.
    cfg, plan = cli.made(options, ModelConfig), cli.made(options, TrainConfig)

    import scalify

    def grads(params: Any, batch: Any) -> tuple[Any, Any]:
        loss, found = jax.value_and_grad(model.loss)(params, batch, cfg)
        return loss, found

    text = data.load()
    params = model.init(jax.random.key(plan.seed), cfg)
    batches = data.train_batches(text, options.look + 1, plan.batch, cfg.seq, plan.seed)
    scales = scalify.measure((params, batches[0]))
    good = judge("at init", grads, (params, batches[0]), scales, options.verbose)

    adamw = optimizer.make_optimizer(plan)
    step = jax.jit(optimizer.make_step(cfg, adamw))
    state = adamw.init(params)
    for batch in batches[:-1]:
        params, state, loss = step(params, state, batch)
    where = f"after {options.look} steps (loss {float(loss):.3f})"
    good &= judge(where, grads, (params, batches[-1]), scales, options.verbose)
    print(f"\nnumerics: {'every bar holds' if good else 'a bar FAILS'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
