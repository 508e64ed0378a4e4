"""Several optimizer steps in one function: written out, in a scan, in a fori_loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

__all__ = ["FORMS", "Program", "batches", "cosine", "init", "loss_fn"]

DIM, FFN, VOCAB, TOKENS, EXPERTS = 64, 128, 96, 64, 4
Program = Callable[..., Any]


def init(seed: int = 0) -> Any:
    """Returns parameters of a layer, a gate that chooses among experts, and a head."""
    keys = iter(jax.random.split(jax.random.key(seed), 8))

    def normal(*shape: int) -> jax.Array:
        return jax.random.normal(next(keys), shape) / np.sqrt(shape[-2])

    return {
        "embed": jax.random.normal(next(keys), (VOCAB, DIM)),
        "up": normal(DIM, FFN),
        "down": normal(FFN, DIM),
        "router": normal(DIM, EXPERTS),
        "experts": normal(EXPERTS, DIM, DIM),
        "head": normal(DIM, VOCAB),
    }


def layers(p: Any, x: jax.Array) -> jax.Array:
    h = p["embed"][x]
    h = h + jnp.tanh(h @ p["up"]) @ p["down"]
    gates, chosen = jax.lax.top_k(jax.nn.softmax(h @ p["router"]), 1)
    outs = jnp.einsum("td,edf->etf", h, p["experts"])
    mask = jax.nn.one_hot(chosen[:, 0], EXPERTS) * gates
    h = h + jnp.einsum("te,etf->tf", mask, outs)
    return h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-6)


def loss_fn(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    log_p = jax.nn.log_softmax(layers(p, x) @ p["head"])
    return -jnp.mean(jnp.take_along_axis(log_p, y[:, None], -1))


def batches(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs and targets, int32 [steps, TOKENS]."""
    x = np.random.default_rng(3).integers(0, VOCAB, (steps, TOKENS)).astype(np.int32)
    return x, (7 * x + 3) % VOCAB


def _one(opt: optax.GradientTransformation) -> Program:
    def step(p: Any, s: Any, x: jax.Array, y: jax.Array) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(p, x, y)
        updates, s = opt.update(grads, s, p)
        return optax.apply_updates(p, updates), s, loss

    return step


def _written_out(opt: optax.GradientTransformation, steps: int) -> Program:
    step = _one(opt)

    def run(p: Any, s: Any, x: jax.Array, y: jax.Array) -> Any:
        loss = None
        for i in range(steps):
            p, s, loss = step(p, s, x[i], y[i])
        return p, s, loss

    return run


def _scanned(opt: optax.GradientTransformation, steps: int) -> Program:
    step = _one(opt)

    def run(p: Any, s: Any, x: jax.Array, y: jax.Array) -> Any:
        def body(carry: Any, batch: Any) -> Any:
            p, s, loss = step(*carry, *batch)
            return (p, s), loss

        (p, s), losses = jax.lax.scan(body, (p, s), (x, y), length=steps)
        return p, s, losses

    return run


def _fori(opt: optax.GradientTransformation, steps: int) -> Program:
    step = _one(opt)

    def run(p: Any, s: Any, x: jax.Array, y: jax.Array) -> Any:
        def body(i: Any, carry: Any) -> Any:
            return step(carry[0], carry[1], x[i], y[i])

        return jax.lax.fori_loop(0, steps, body, (p, s, jnp.zeros(())))

    return run


FORMS = {"written out": _written_out, "scan": _scanned, "fori_loop": _fori}


def cosine(left: Any, right: Any, start: Any) -> float:
    """Returns the cosine between two runs' updates of the same start."""
    a, b = (
        np.concatenate(
            [
                np.ravel(np.asarray(new, np.float64) - np.asarray(old, np.float64))
                for new, old in zip(jax.tree.leaves(tree), jax.tree.leaves(start), strict=True)
            ]
        )
        for tree in (left, right)
    )
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))
