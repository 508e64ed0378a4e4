"""GPT-2s with dropout: threefry keys and tanh GELU, or rbg keys and erf GELU; a tied head."""

from __future__ import annotations

import functools
from typing import Any

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, program

__all__ = ["gpt2"]

VOCAB, DIM, HEADS, LENGTH = 256, 64, 4, 32


def draw(key: jax.Array, layers: int) -> Any:
    """Returns F32 parameters as GPT-2 draws them."""
    keys = iter(jax.random.split(key, 4 * layers + 2))

    def normal(*shape: int, deviation: float = 0.02) -> jax.Array:
        return deviation * jax.random.normal(next(keys), shape)

    def norm() -> Any:
        return {"gain": jnp.ones(DIM), "bias": jnp.zeros(DIM)}

    residual = 0.02 / (2 * layers) ** 0.5
    blocks = [
        {
            "norm1": norm(),
            "qkv": {"w": normal(DIM, 3 * DIM), "b": jnp.zeros(3 * DIM)},
            "out": {"w": normal(DIM, DIM, deviation=residual), "b": jnp.zeros(DIM)},
            "norm2": norm(),
            "up": {"w": normal(DIM, 4 * DIM), "b": jnp.zeros(4 * DIM)},
            "down": {"w": normal(4 * DIM, DIM, deviation=residual), "b": jnp.zeros(DIM)},
        }
        for _ in range(layers)
    ]
    position = normal(LENGTH, DIM, deviation=0.01)
    return {"tokens": normal(VOCAB, DIM), "position": position, "blocks": blocks, "norm": norm()}


def layer_norm(x: jax.Array, p: Any) -> jax.Array:
    """LayerNorm of the last axis."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * p["gain"] + p["bias"]


def dense(x: jax.Array, p: Any) -> jax.Array:
    """x @ w + b."""
    return x @ p["w"] + p["b"]


def dropout(x: jax.Array, key: jax.Array, rate: float = 0.1) -> jax.Array:
    """Drops a share of the elements and scales up the rest."""
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0.0)


def loss(params: Any, batch: Any, exact: bool) -> jax.Array:
    """Returns the mean cross entropy of the next byte under dropout."""
    tokens, key = batch
    keys = iter(jax.random.split(key, 3 * len(params["blocks"]) + 1))
    size, length = tokens.shape[0], tokens.shape[1] - 1
    x = jnp.take(params["tokens"], tokens[:, :-1], axis=0) + params["position"]
    x = dropout(x, next(keys))
    causal = jnp.tril(jnp.ones((length, length), bool))
    for p in params["blocks"]:
        q, k, v = jnp.split(dense(layer_norm(x, p["norm1"]), p["qkv"]), 3, axis=-1)
        q, k, v = (part.reshape(size, length, HEADS, -1) for part in (q, k, v))
        scores = jnp.einsum("bqhc,bkhc->bhqk", q, k) * (DIM // HEADS) ** -0.5
        scores = jnp.where(causal, scores, jnp.finfo(scores.dtype).min)
        weights = dropout(jax.nn.softmax(scores), next(keys))
        mixed = jnp.einsum("bhqk,bkhc->bqhc", weights, v).reshape(size, length, DIM)
        x = x + dropout(dense(mixed, p["out"]), next(keys))
        hidden = jax.nn.gelu(dense(layer_norm(x, p["norm2"]), p["up"]), approximate=not exact)
        x = x + dropout(dense(hidden, p["down"]), next(keys))
    logits = layer_norm(x, params["norm"]) @ params["tokens"].T
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)
    return -picked.mean()


def _decays(params: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)


@program("gpt2_threefry", "gpt2", impl="threefry2x32", exact=False, typed=True)
@program("gpt2_rbg_erf", "gpt2", impl="rbg", exact=True, typed=True)
@program("gpt2_raw_key", "gpt2", impl="threefry2x32", exact=False, typed=False)
def gpt2(depth: int, impl: str, exact: bool, typed: bool) -> Program:
    """A GPT-2 with AdamW whose decay is masked."""
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(2e-3, weight_decay=0.1, mask=_decays)
    )
    return Program.of_loss(
        draw(jax.random.key(4), depth),
        batches.keyed(batches.text(8, LENGTH), typed, impl),
        functools.partial(loss, exact=exact),
        optimizer,
    )
