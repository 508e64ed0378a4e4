"""Steps that cast to FP8 themselves: F8 operands in the dots, or dequantized before them."""

from __future__ import annotations

import functools
from typing import Any

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, program

__all__ = ["fp8_inputs"]

WIDTH = 64
E4M3, E5M2 = jnp.float8_e4m3fn, jnp.float8_e5m2


def to_fp8(x: jax.Array, dtype: Any) -> tuple[jax.Array, jax.Array]:
    """Returns x in an FP8 format and its scale, such that the largest value fits."""
    top = float(jnp.finfo(dtype).max)
    scale = jnp.maximum(jnp.max(jnp.abs(x)), 1e-12) / top
    return jnp.clip(x / scale, -top, top).astype(dtype), scale


def product(a: jax.Array, b: jax.Array, formats: tuple[Any, Any], direct: bool) -> jax.Array:
    """a @ b through FP8; `direct` leaves the dot its F8 operands."""
    (qa, sa), (qb, sb) = to_fp8(a, formats[0]), to_fp8(b, formats[1])
    if direct:
        return jnp.matmul(qa, qb, preferred_element_type=jnp.float32) * (sa * sb)
    return (qa.astype(jnp.float32) * sa) @ (qb.astype(jnp.float32) * sb)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def linear(x: jax.Array, w: jax.Array, direct: bool) -> jax.Array:
    """x @ w; E4M3 forward, E5M2 gradients."""
    return product(x, w, (E4M3, E4M3), direct)


def _forward(x: jax.Array, w: jax.Array, direct: bool) -> tuple[jax.Array, Any]:
    return linear(x, w, direct), (x, w)


def _backward(direct: bool, saved: Any, grad: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, w = saved
    return (
        product(grad, w.T, (E5M2, E4M3), direct),
        product(x.T, grad, (E4M3, E5M2), direct),
    )


linear.defvjp(_forward, _backward)


def loss(params: Any, batch: Any, direct: bool) -> jax.Array:
    """Returns the mean square error of a residual MLP."""
    x, y = batch
    for p in params["layers"]:
        x = x + jnp.tanh(linear(x, p["w"], direct) + p["b"])
    return jnp.mean((x @ params["head"] - y) ** 2)


@program("fp8_direct", "fp8 inputs", depth=6, direct=True)
@program("fp8_dequantized", "fp8 inputs", depth=6, direct=False)
def fp8_inputs(depth: int, direct: bool) -> Program:
    """A residual MLP whose linear layers are FP8 in the source; SGD."""
    keys = jax.random.split(jax.random.key(9), depth + 1)
    params = {
        "layers": [
            {
                "w": jax.random.normal(key, (WIDTH, WIDTH)) / WIDTH**0.5,
                "b": jnp.zeros(WIDTH),
            }
            for key in keys[1:]
        ],
        "head": jax.random.normal(keys[0], (WIDTH, 8)) / WIDTH**0.5,
    }
    return Program.of_loss(
        params,
        batches.regression(64, WIDTH, 8),
        functools.partial(loss, direct=direct),
        optax.sgd(0.05),
    )
