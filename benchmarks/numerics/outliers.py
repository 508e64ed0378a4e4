"""What breaks FP8 training: is it seen in the same step, and does the loss come back?

A classifier of scikit-learn's digits, of SwiGLU blocks, is trained under a recipe. Into one step
goes an adversary: weights of SwiGLU that are aligned and large, an input of zeros, one outlier of
1e4, gradients of 1e-8, ranks whose gradients differ by 2^20. Printed is what `health()` says of
that very step and not of the one before, whether all stays finite, and after how many steps the
validation loss is at most that of F32 under the same adversary, within 25 % and 0.05. Propagated
scales move by the health policy "rescale". Where a step measures its scales, nothing need be lost
of what is small or large as a whole, and then nothing is seen.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import warnings
from typing import Any

import digits
import gradients as common
import jax
import jax.numpy as jnp
import numpy as np
import optax

import scalify

__all__ = ["ADVERSARIES", "Outcome", "main", "suffer"]

WIDTH, HIDDEN, BLOCKS, RANKS, ROWS = 64, 128, 3, 4, 64
# Steps after which the loss must be back.
MOST_STEPS = 8

Tree = Any


def init(seed: int) -> Tree:
    """Returns the weights."""
    keys = iter(jax.random.split(jax.random.key(seed), 3 * BLOCKS + 2))

    def normal(*shape: int) -> jax.Array:
        return jax.random.normal(next(keys), shape) * shape[0] ** -0.5

    return {
        "in": normal(64, WIDTH),
        "blocks": [
            {"w1": normal(WIDTH, HIDDEN), "w2": normal(HIDDEN, WIDTH), "w3": normal(WIDTH, HIDDEN)}
            for _ in range(BLOCKS)
        ],
        "out": normal(WIDTH, 10),
    }


def loss_of(params: Tree, x: jax.Array, labels: jax.Array, weight: jax.Array) -> jax.Array:
    """Returns the cross entropy of x [rows, 64], times a weight."""
    h = x @ params["in"]
    for block in params["blocks"]:
        y = h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-5)
        h = h + (jax.nn.silu(y @ block["w1"]) * (y @ block["w3"])) @ block["w2"]
    logits = h @ params["out"]
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels)) * weight


ADAM = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(2e-3))


def step(params: Tree, state: Tree, x: jax.Array, labels: jax.Array, weights: jax.Array) -> Any:
    """Takes a step of RANKS ranks with a batch [RANKS, rows, 64] and a weight each."""
    found = [
        jax.value_and_grad(loss_of)(params, *batch)
        for batch in zip(x, labels, weights, strict=True)
    ]
    mean = jax.tree.map(lambda *g: jnp.sum(jnp.stack(g), 0) / RANKS, *(grads for _, grads in found))
    updates, state = ADAM.update(mean, state, params)
    return optax.apply_updates(params, updates), state, sum(loss for loss, _ in found) / RANKS


@dataclasses.dataclass
class Given:
    """What one step is given."""

    params: Tree
    x: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


def aligned(given: Given) -> None:
    block = given.params["blocks"][1]
    # As weight decay and long training leave them (arXiv 2409.12517): a product of squares.
    block["w1"] = block["w3"] = 4 * block["w1"]


def zeros(given: Given) -> None:
    given.x[:] = 0


def outlier(given: Given) -> None:
    given.x[0, 0, 0] = 1e4


def tiny(given: Given) -> None:
    given.weights[:] = 1e-8


def mismatched(given: Given) -> None:
    given.weights[:] = 2.0 ** np.linspace(-20, 0, RANKS)


ADVERSARIES = {
    "aligned SwiGLU": aligned,
    "zero tensors": zeros,
    "an outlier of 1e4": outlier,
    "gradients of 1e-8": tiny,
    "ranks 2^20 apart": mismatched,
}


def compiled(recipe: str) -> Any:
    """Returns the step under a recipe, whose scales a health policy moves."""
    if recipe == "none":
        return scalify.jit(step, recipe="none")
    # Every dot is cast: what stays wide could not suffer.
    text = f'#scalify.recipe<"{recipe}", head = true, sensitive = true'
    text += f", stored_gradient = f8E4M3FN, simulated_ranks = {RANKS}>"
    policy = scalify.HealthPolicy("rescale")
    adaptive = scalify.Recipe.preset(recipe).scales == "propagated"
    return scalify.jit(step, recipe=text, health=policy if adaptive else "report")


def findings(now: list[dict[str, Any]], before: list[dict[str, Any]]) -> dict[str, int]:
    """Returns how many casts show what they did not show in the step before."""
    found = {"NaN": 0, "saturated": 0, "flushed": 0, "all zero": 0}
    for row, old in zip(now, before, strict=True):
        half, whole = row["elements"] / 2, row["elements"]
        found["NaN"] += row["nans"] > 0
        found["saturated"] += row["saturated"] > old["saturated"]
        found["flushed"] += row["flushed"] > half >= old["flushed"]
        found["all zero"] += row["zeros"] == whole > old["zeros"]
    return {name: count for name, count in found.items() if count}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one run.

    Attributes:
        findings: of the step with the adversary, casts that showed something new, by what.
        finite: whether weights and losses stayed finite.
        losses: of the evaluation batch, after the step with the adversary and each later one.
    """

    findings: dict[str, int]
    finite: bool
    losses: tuple[float, ...]


def suffer(recipe: str, adversary: str, before: int, after: int) -> Outcome:
    """Trains some steps, one with the adversary, and some more."""
    x, labels = digits.load()
    rows = RANKS * ROWS
    run, evaluate = compiled(recipe), jax.jit(loss_of)
    params = init(0)
    state = ADAM.init(params)
    losses: list[float] = []
    found: dict[str, int] = {}
    last: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index in range(before + 1 + after):
            picked = np.random.default_rng(index).integers(0, 1500, rows)
            given = Given(
                params,
                x[picked].reshape(RANKS, ROWS, 64).copy(),
                labels[picked].reshape(RANKS, ROWS),
                np.ones(RANKS, np.float32),
            )
            if index == before:
                ADVERSARIES[adversary](given)
            params, state, _ = run(
                given.params, state, given.x, given.labels, given.weights.astype(np.float32)
            )
            health = [dict(row) for row in run.health()]
            if index == before:
                found = findings(health, last)
            last = health
            if index >= before:
                losses.append(float(evaluate(params, x[1500:], labels[1500:], np.float32(1))))
    finite = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))
    return Outcome(found, finite and all(map(math.isfinite, losses)), tuple(losses))


def steps_until_back(found: Outcome, exact: Outcome) -> int | None:
    """Returns after how many steps the loss is F32's or less, within the bounds, and stays so."""
    back = [a <= 1.25 * b + 0.05 for a, b in zip(found.losses, exact.losses, strict=True)]
    late = max((i for i, good in enumerate(back) if not good), default=-1) + 1
    return late if late < len(back) else None


def main() -> int:
    """Runs the command; returns 1 where an adversary is not seen or wins."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", nargs="*", default=["fp8", "fp8-current", "fp8-delayed"])
    parser.add_argument("--before", type=int, default=20, help="steps before the adversary")
    parser.add_argument("--write", action="store_true", help="to docs/numerics-outliers.md")
    options = parser.parse_args()
    lines, good = [], True
    for adversary in ADVERSARIES:
        exact = suffer("none", adversary, options.before, 2 * MOST_STEPS)
        for recipe in options.recipes:
            found = suffer(recipe, adversary, options.before, 2 * MOST_STEPS)
            back = steps_until_back(found, exact)
            seen = ", ".join(f"{name} ({count})" for name, count in found.findings.items())
            # What is measured follows the data: only constant or older scales must show it.
            needed = recipe != "fp8-current"
            holds = found.finite and back is not None and back <= MOST_STEPS
            holds &= bool(seen) or not needed
            good &= holds
            cells = [adversary, f"`{recipe}`", seen or "nothing", "yes" if found.finite else "NO"]
            cells += [f"{exact.losses[0]:.3f}", f"{found.losses[0]:.3f}"]
            cells += ["never" if back is None else f"{back}", "holds" if holds else "FAILS"]
            lines.append(cells)
            print(" | ".join(cells), flush=True)
    header = ["adversary", "recipe", "what health() shows (casts)", "finite"]
    header += ["F32's loss after it", "loss after it", "steps until F32's", ""]
    text = common.table(header, lines)
    if options.write:
        page = f"{' '.join((__doc__ or '').split())}\n\n{text}"
        common.write("docs/numerics-outliers.md", "Adversaries of a step", page, "make outliers")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
