"""Gradients of a 12-layer transformer on the unit that SCALIFY_CPU_ISA allows, as one vector.

Run as a process, since the unit is chosen once: product_units_step.py RECIPE ARTEFACT GRADIENTS.
The first process compiles and saves the artefact, later ones load it.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import scalify
from scalify import _runtime

WIDTH, LAYERS, TOKENS, BATCH = 64, 12, 48, 4


def init() -> list[dict[str, np.ndarray]]:
    """Returns the weights, [in, out] each, at 1 / sqrt(in)."""
    keys = np.random.default_rng(0)

    def weight(rows: int, cols: int) -> np.ndarray:
        return keys.normal(0, rows**-0.5, (rows, cols)).astype(np.float32)

    shapes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH)}
    layer = shapes | {"down": (4 * WIDTH, WIDTH)}
    return [{name: weight(*shape) for name, shape in layer.items()} for _ in range(LAYERS)]


def loss(params: Any, x: jax.Array) -> jax.Array:
    """Predicts each token from those before it."""

    def norm(h: jax.Array) -> jax.Array:
        return h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-6)

    h = x
    mask = jnp.tril(jnp.ones((TOKENS, TOKENS), bool))
    for layer in params:
        q, k, v = jnp.split(norm(h) @ layer["qkv"], 3, -1)
        scores = jnp.where(mask, q @ k.swapaxes(-1, -2) * WIDTH**-0.5, -1e30)
        h = h + jax.nn.softmax(scores) @ v @ layer["out"]
        h = h + jax.nn.gelu(norm(h) @ layer["up"]) @ layer["down"]
    return jnp.mean((norm(h)[:, :-1] - x[:, 1:]) ** 2)


def main(recipe: str, artefact: str, gradients: str) -> None:
    """Writes the gradients and prints the unit."""
    x = np.random.default_rng(1).normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
    params = init()
    leaves = [leaf for layer in params for _, leaf in sorted(layer.items())]
    path = pathlib.Path(artefact)
    if not path.exists():
        text = jax.jit(jax.grad(loss)).lower(params, x).as_text()
        scalify.compile(text, recipe, numerics=scalify.Numerics(scales=[0] * 49)).save(path)
    found = scalify.load(path)(*leaves, x)
    np.save(gradients, np.concatenate([np.asarray(part).ravel() for part in found]))
    print(_runtime.product_unit())


if __name__ == "__main__":
    main(*sys.argv[1:])
