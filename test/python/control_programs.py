"""Ten small training steps with control flow for which no rule was written.

Each is a function of (params, batch) that returns (loss, gradients or what it adds to parameters);
`PROGRAMS` maps a name to it and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["PROGRAMS", "normal"]

WIDTH = 32


def normal(shape: tuple[int, ...], std: float = 1.0, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).normal(0, std, shape)
    return np.asarray(values, np.float32)


def weights(*shapes: tuple[int, ...], gain: float = 1.0) -> dict[str, np.ndarray]:
    """Returns w0, w1 .. whose products keep the size of what they multiply."""
    return {
        f"w{i}": normal(shape, gain / np.sqrt(shape[-2]), seed=i + 1)
        for i, shape in enumerate(shapes)
    }


def regression(forward: Callable[..., jax.Array]) -> Callable[..., Any]:
    """Returns the step whose loss is the mean square of the target minus `forward`."""

    def step(params: Any, batch: Any) -> Any:
        x, target = batch
        return jax.value_and_grad(lambda p: jnp.mean((forward(p, x) - target) ** 2))(params)

    return step


def mixed_carry(params: Any, x: jax.Array) -> jax.Array:
    """A scan whose carry has F32 state, a BF16 average, a counter and a flag."""

    def body(carry: Any, w: jax.Array) -> Any:
        x, average, count, positive = carry
        y = jnp.tanh(x @ w)
        average = (0.9 * average + 0.1 * y.astype(jnp.bfloat16)).astype(jnp.bfloat16)
        x = jnp.where(positive, x + y, x - y)
        return (x, average, count + 1, count % 2 == 0), count

    start = (x, jnp.zeros(x.shape, jnp.bfloat16), jnp.int32(0), jnp.bool_(True))
    (x, average, _, _), counts = jax.lax.scan(body, start, params["w0"])
    weight = 1.0 + 0.0 * counts.sum()
    return (x * weight + average.astype(jnp.float32)) @ params["w1"]


def nested_scan(params: Any, x: jax.Array) -> jax.Array:
    """Layers around time: in each layer a recurrence runs over the rows."""

    def layer(x: jax.Array, ws: Any) -> Any:
        w, u = ws

        def time(state: jax.Array, row: jax.Array) -> Any:
            state = jnp.tanh(row @ w + state @ u)
            return state, state

        rows = x.reshape(4, -1, WIDTH)
        _, states = jax.lax.scan(time, jnp.zeros_like(rows[0]), rows)
        return x + states.reshape(x.shape), None

    x, _ = jax.lax.scan(layer, x, (params["w0"], params["w1"]))
    return x @ params["w2"]


def remat_policy(params: Any, x: jax.Array) -> jax.Array:
    """A gated recurrence over time whose checkpoint keeps the dots without batch."""

    def cell(state: jax.Array, row: jax.Array) -> Any:
        gate = jax.nn.sigmoid(row @ params["w0"])
        new = jnp.tanh(state @ params["w1"] + row)
        state = gate * state + (1.0 - gate) * new
        return state, jax.nn.gelu(state)

    policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    rows = x.reshape(8, -1, WIDTH)
    _, states = jax.lax.scan(
        jax.checkpoint(cell, policy=policy, prevent_cse=False), jnp.zeros_like(rows[0]), rows
    )
    return states.reshape(x.shape) @ params["w2"]


def early_exit(params: Any, batch: Any) -> Any:
    """Gradient descent until the gradient's norm is small, ten steps at most."""
    x, target = batch

    def loss(p: Any) -> jax.Array:
        return jnp.mean((jax.nn.relu(x @ p["w0"]) @ p["w1"] - target) ** 2)

    def norm(grads: Any) -> jax.Array:
        return jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))

    def body(carry: Any) -> Any:
        p, _, _, count = carry
        value, grads = jax.value_and_grad(loss)(p)
        p = jax.tree.map(lambda w, g: w - 0.1 * g, p, grads)
        return p, norm(grads), value, count + 1

    def goes_on(carry: Any) -> jax.Array:
        return (carry[1] > 0.05) & (carry[3] < 10)

    start = (params, jnp.float32(1e9), jnp.float32(0), 0)
    p, _, value, _ = jax.lax.while_loop(goes_on, body, start)
    return value, jax.tree.map(jnp.subtract, p, params)


def cond_in_scan(params: Any, x: jax.Array) -> jax.Array:
    """Every second layer is a gated one; the rest pass by a transposed weight."""

    def layer(x: jax.Array, inputs: Any) -> Any:
        w, index = inputs
        y = jax.lax.cond(
            index % 2 == 0,
            lambda x: jax.nn.silu(x @ w) * x,
            lambda x: jnp.flip(x @ w.T, 0),
            x,
        )
        return x + y, None

    x, _ = jax.lax.scan(layer, x, (params["w0"], jnp.arange(len(params["w0"]))))
    return x @ params["w1"]


def switch(params: Any, x: jax.Array) -> jax.Array:
    """Three branches, of scales 2^10 apart, each with a dot; their result is normalised."""

    def branch(index: int) -> Callable[..., jax.Array]:
        return lambda h: (h * 1024.0 ** (index - 1)) @ params[f"w{index}"]

    def layer(h: jax.Array, index: jax.Array) -> Any:
        h = jax.lax.switch(index, [branch(0), branch(1), branch(2)], h)
        return h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-12), None

    h, _ = jax.lax.scan(layer, x, jnp.arange(6) % 3)
    return h @ params["w3"]


def buffer(params: Any, x: jax.Array) -> jax.Array:
    """A `fori_loop` that writes its results into a buffer, and reads the previous slot."""

    def body(index: Any, slots: jax.Array) -> jax.Array:
        last = jax.lax.dynamic_index_in_dim(slots, index, keepdims=False)
        w = jax.lax.dynamic_index_in_dim(params["w0"], index, keepdims=False)
        new = last + jax.nn.gelu(last @ w)
        return jax.lax.dynamic_update_slice(slots, new[None], (index + 1, 0, 0))

    slots = jnp.zeros((5, *x.shape)).at[0].set(x)
    slots = jax.lax.fori_loop(0, 4, body, slots)
    return slots.mean(0) @ params["w1"]


def state_space(params: Any, x: jax.Array) -> jax.Array:
    """A selective state space as in Mamba: decays by input, combined by `associative_scan`."""
    rows = x.reshape(8, -1, WIDTH)
    decay = jnp.exp(-jax.nn.softplus(rows @ params["w0"]))
    value = rows @ params["w1"]

    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    _, states = jax.lax.associative_scan(combine, (decay, (1.0 - decay) * value))
    return (states * jax.nn.silu(rows)).reshape(x.shape) @ params["w2"]


@jax.custom_vjp
def clipped_layers(x: jax.Array, ws: jax.Array) -> jax.Array:
    return _layers_forward(x, ws)[0]


def _layers_forward(x: jax.Array, ws: jax.Array) -> Any:
    def body(x: jax.Array, w: jax.Array) -> Any:
        y = jnp.tanh(x @ w)
        return x + y, (x, y)

    out, saved = jax.lax.scan(body, x, ws)
    return out, (saved, ws)


def _layers_backward(residuals: Any, g: jax.Array) -> Any:
    (xs, ys), ws = residuals

    def body(index: Any, carry: Any) -> Any:
        g, grads = carry
        at = len(ws) - 1 - index
        x, y, w = xs[at], ys[at], ws[at]
        h = jnp.clip(g * (1.0 - y * y), -1e-3, 1e-3)
        return g + h @ w.T, grads.at[at].set(x.T @ h)

    return jax.lax.fori_loop(0, len(ws), body, (g, jnp.zeros_like(ws)))


clipped_layers.defvjp(_layers_forward, _layers_backward)


def custom_gradient(params: Any, x: jax.Array) -> jax.Array:
    """Layers whose gradient is a `fori_loop` of its own that clips."""
    return clipped_layers(x, params["w0"]) @ params["w1"]


def unrolled_power(params: Any, x: jax.Array) -> jax.Array:
    """`scan` without inputs, unrolled by two: one weight at all depths, tied and normalised."""

    def body(x: jax.Array, _: None) -> Any:
        y = x @ params["w0"]
        y = y - y.mean(-1, keepdims=True)
        y = y / jnp.sqrt(y.var(-1, keepdims=True) + 1e-5)
        return x + y, jnp.mean(y * y)

    x, sizes = jax.lax.scan(body, x, None, length=6, unroll=2)
    return (x @ params["w1"]) * (1.0 + 0.0 * sizes.sum())


def _batch(out: int = 8) -> tuple[np.ndarray, np.ndarray]:
    return normal((64, WIDTH)), normal((64, out), seed=9)


SQUARE, STACK, HEAD = (WIDTH, WIDTH), (4, WIDTH, WIDTH), (WIDTH, 8)

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, Any]]] = {
    "mixed-carry": (regression(mixed_carry), (weights(STACK, HEAD), _batch())),
    "nested-scan": (regression(nested_scan), (weights(STACK, STACK, HEAD), _batch())),
    "remat-policy": (regression(remat_policy), (weights(SQUARE, SQUARE, HEAD), _batch())),
    "early-exit": (early_exit, (weights(SQUARE, HEAD), _batch())),
    "cond-in-scan": (regression(cond_in_scan), (weights(STACK, HEAD), _batch())),
    "switch": (regression(switch), (weights(SQUARE, SQUARE, SQUARE, HEAD), _batch())),
    "buffer": (regression(buffer), (weights(STACK, HEAD), _batch())),
    "state-space": (regression(state_space), (weights(SQUARE, SQUARE, HEAD), _batch())),
    "custom-vjp": (regression(custom_gradient), (weights(STACK, HEAD), _batch())),
    "tied-unroll": (regression(unrolled_power), (weights(SQUARE, HEAD), _batch())),
}
