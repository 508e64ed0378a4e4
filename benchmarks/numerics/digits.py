"""A classifier of scikit-learn's digits under every preset: accuracy compared with F32's, by seed.

1,797 images of 8 x 8 pixels, of which 300 are held out: one image is a third of a percent. Three
dense layers with ReLU and biases, AdamW with a cosine schedule. Runs of one seed share initial
weights and the order of the data.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from typing import Any

import gradients as common
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

import scalify

__all__ = ["load", "main", "trained"]

HELD_OUT, BATCH, WIDTHS = 300, 64, (64, 256, 256, 10)

Tree = Any


@functools.cache
def load() -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs f32 [1797, 64] of about unit size and labels i32 [1797], shuffled."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    x = (found.data[order] / 16 - 0.3) / 0.38
    return x.astype(np.float32), found.target[order].astype(np.int32)


def init(seed: int) -> list[Tree]:
    """Returns the layers' weights and biases."""
    keys = jax.random.split(jax.random.key(seed), len(WIDTHS))
    return [
        {"w": jax.random.normal(key, (m, n)) * (2 / m) ** 0.5, "b": jnp.zeros(n)}
        for key, m, n in zip(keys, WIDTHS, WIDTHS[1:], strict=False)
    ]


def logits(params: list[Tree], x: jax.Array) -> jax.Array:
    """Returns the scores of x [rows, 64]."""
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def trained(recipe: str, seed: int, steps: int) -> tuple[float, float]:
    """Trains in our executable; returns accuracy in % and loss on held-out data, in F32."""
    x, labels = load()
    rule = optax.adamw(optax.cosine_decay_schedule(2e-3, steps), weight_decay=0.01)

    def loss_of(params: Tree, x: jax.Array, labels: jax.Array) -> jax.Array:
        scores = logits(params, x)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(scores, labels))

    def step(params: Tree, state: Tree, x: jax.Array, labels: jax.Array) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x, labels)
        updates, state = rule.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    run = scalify.jit(step, recipe=recipe, donate_argnums=(0, 1))
    params = init(seed)
    state = rule.init(params)
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        picked = rng.integers(HELD_OUT, len(x), BATCH)
        params, state, _ = run(params, state, x[picked], labels[picked])
    params = jax.tree.map(np.asarray, params)
    right = np.argmax(logits(params, x[:HELD_OUT]), -1) == labels[:HELD_OUT]
    return 100 * float(right.mean()), float(loss_of(params, x[:HELD_OUT], labels[:HELD_OUT]))


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", nargs="*", default=list(common.PRESETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--write", action="store_true", help="to docs/research/numerics-digits.md")
    options = parser.parse_args()
    lines: list[list[str]] = []
    exact: list[tuple[float, float]] = []
    for recipe in ("none", *options.recipes):
        found = [trained(recipe, seed, options.steps) for seed in range(options.seeds)]
        exact = exact or found
        gaps = [a - b for (a, _), (b, _) in zip(found, exact, strict=True)]
        spread = statistics.stdev([accuracy for accuracy, _ in found])
        lines.append(
            [
                f"`{recipe}`",
                f"{statistics.mean(accuracy for accuracy, _ in found):.2f}",
                f"{spread:.2f}",
                f"{statistics.mean(gaps):+.2f}",
                " ".join(f"{gap:+.2f}" for gap in gaps),
                f"{statistics.mean(loss for _, loss in found):.4f}",
            ]
        )
        print(" | ".join(lines[-1]), flush=True)
    header = ["recipe", "accuracy, %", "spread of seeds", "gap to F32", "each seed", "loss"]
    if options.write:
        text = (
            f"{' '.join((__doc__ or '').split())} {options.seeds} seeds, {options.steps} steps; "
            f"the weights are evaluated in F32.\n\n{common.table(header, lines)}"
        )
        common.write(
            "docs/research/numerics-digits.md", "Digits by each recipe", text, "make digits"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
