"""Shampoo: preconditioners by an eigendecomposition, which XLA calls LAPACK for."""

from __future__ import annotations

from typing import Any

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, program
from zeros import DIM, HEADS, LENGTH, attend, cross_entropy, draw, rms_norm

__all__ = ["shampoo"]


def root(a: jax.Array) -> jax.Array:
    """Returns a^(-1/4) of a symmetric matrix."""
    values, vectors = jnp.linalg.eigh(a + 1e-6 * jnp.eye(a.shape[0]))
    return (vectors * jnp.maximum(values, 1e-8) ** -0.25) @ vectors.T


def precondition(g: jax.Array, state: Any) -> tuple[jax.Array, Any]:
    """Returns a matrix's update of the gradient's size, and the statistics of both sides."""
    left, right = 0.95 * state[0] + g @ g.T, 0.95 * state[1] + g.T @ g
    update = root(left) @ g @ root(right)
    update = update * jnp.linalg.norm(g) / (jnp.linalg.norm(update) + 1e-8)
    return update, (left, right)


def optimizer(rate: float) -> optax.GradientTransformation:
    """Returns Shampoo of 256 elements a side at most."""

    def init(params: Any) -> Any:
        return jax.tree.map(lambda p: tuple(jnp.zeros((n, n)) for n in p.shape), params)

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        leaves, tree = jax.tree.flatten(grads)
        each = [precondition(g, s) for g, s in zip(leaves, tree.flatten_up_to(state), strict=True)]
        updates = tree.unflatten([-rate * found for found, _ in each])
        return updates, tree.unflatten([after for _, after in each])

    return optax.GradientTransformation(init, update)


@program("shampoo_eigh", "second order", depth=2)
def shampoo(depth: int) -> Program:
    """A decoder without gains, so that every parameter is a matrix."""
    blocks, outer = draw(jax.random.key(15), depth, DIM)

    def loss(params: Any, tokens: jax.Array) -> jax.Array:
        x = params["embed"][tokens[:, :-1]] + params["position"]
        for p in params["blocks"]:
            h = rms_norm(x)
            mixed = attend(h @ p["q"], h @ p["k"], h @ p["v"], (DIM // HEADS) ** -0.5, causal=True)
            x = x + mixed @ p["o"]
            x = x + jax.nn.gelu(rms_norm(x) @ p["up"]) @ p["down"]
        return cross_entropy(rms_norm(x) @ params["head"], tokens[:, 1:])

    params = {**outer, "blocks": blocks}
    return Program.of_loss(params, batches.text(8, LENGTH), loss, optimizer(0.05))
