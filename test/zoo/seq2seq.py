"""T5: encoder and decoder, buckets of relative positions, unscaled attention, label smoothing."""

from __future__ import annotations

import math
from typing import Any

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, program
from zeros import rms_norm, split_heads

__all__ = ["t5"]

VOCAB, DIM, HEADS, HIDDEN, LENGTH, BUCKETS = 256, 64, 4, 128, 24, 16


def draw(key: jax.Array, depth: int) -> Any:
    """Returns F32 parameters, drawn as T5 draws them."""
    keys = iter(jax.random.split(key, 32 * depth + 8))

    def normal(*shape: int, deviation: float | None = None) -> jax.Array:
        size = shape[0] ** -0.5 if deviation is None else deviation
        return size * jax.random.normal(next(keys), shape)

    def attention() -> Any:
        query = normal(DIM, DIM, deviation=(DIM * DIM // HEADS) ** -0.5)
        return {"q": query, **{name: normal(DIM, DIM) for name in "kvo"}, "gain": jnp.ones(DIM)}

    def block(cross: bool) -> Any:
        found = {"self": attention(), "gain": jnp.ones(DIM), "down": normal(HIDDEN, DIM)}
        found |= {name: normal(DIM, HIDDEN) for name in ("gate", "up")}
        return {**found, "cross": attention()} if cross else found

    def stack(cross: bool) -> Any:
        return {
            "blocks": [block(cross) for _ in range(depth)],
            "bias": normal(BUCKETS, HEADS, deviation=DIM**-0.5),
            "gain": jnp.ones(DIM),
        }

    return {
        "embed": normal(VOCAB, DIM, deviation=1.0),
        "encoder": stack(cross=False),
        "decoder": stack(cross=True),
        "head": normal(DIM, VOCAB),
    }


def buckets(both_sides: bool) -> jax.Array:
    """Returns the bucket of each pair of positions, int32 [T, T]: exact near, logarithmic far."""
    distance = jnp.arange(LENGTH)[None] - jnp.arange(LENGTH)[:, None]
    count, offset = BUCKETS, jnp.zeros_like(distance)
    if both_sides:
        count //= 2
        offset = (distance > 0) * count
        distance = jnp.abs(distance)
    else:
        distance = jnp.maximum(-distance, 0)
    exact = count // 2
    far = jnp.log(jnp.maximum(distance, 1) / exact) / math.log(64 / exact) * (count - exact)
    far = jnp.minimum(exact + far.astype(jnp.int32), count - 1)
    return offset + jnp.where(distance < exact, distance, far)


def attend(p: Any, x: jax.Array, source: jax.Array, bias: Any) -> jax.Array:
    """Returns attention of x over a source, both [B, T, D]; its scores are not scaled."""
    q, k, v = (split_heads(y @ p[n]) for y, n in ((x, "q"), (source, "k"), (source, "v")))
    weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) + bias)
    return (weights @ v).swapaxes(1, 2).reshape(x.shape) @ p["o"]


def run(p: Any, x: jax.Array, bias: Any, memory: jax.Array | None) -> jax.Array:
    """Returns the output [B, T, D] of a stack."""
    for block in p["blocks"]:
        h = rms_norm(x, block["self"]["gain"])
        x = x + attend(block["self"], h, h, bias)
        if memory is not None:
            x = x + attend(block["cross"], rms_norm(x, block["cross"]["gain"]), memory, 0.0)
        h = rms_norm(x, block["gain"])
        x = x + (jax.nn.gelu(h @ block["gate"]) * (h @ block["up"])) @ block["down"]
    return rms_norm(x, p["gain"])


def loss(params: Any, tokens: jax.Array) -> jax.Array:
    """Returns the smoothed cross entropy of the second half given the first, and a z-loss."""
    source, target = tokens[:, :LENGTH], tokens[:, LENGTH : 2 * LENGTH]
    encoder, decoder = params["encoder"], params["decoder"]
    bias = encoder["bias"][buckets(both_sides=True)].transpose(2, 0, 1)
    memory = run(encoder, params["embed"][source], bias, None)
    causal = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH))), 0.0, -1e9)
    bias = decoder["bias"][buckets(both_sides=False)].transpose(2, 0, 1) + causal
    shifted = jnp.pad(target[:, :-1], ((0, 0), (1, 0)))
    logits = run(decoder, params["embed"][shifted], bias, memory) @ params["head"]
    labels = optax.smooth_labels(jax.nn.one_hot(target, VOCAB), 0.1)
    z = jnp.mean(jax.nn.logsumexp(logits, -1) ** 2)
    return optax.softmax_cross_entropy(logits, labels).mean() + 1e-4 * z


@program("t5", "seq2seq", depth=4)
def t5(depth: int) -> Program:
    """An encoder and a decoder under Adafactor."""
    optimizer = optax.adafactor(1e-2, min_dim_size_to_factor=32)
    return Program.of_loss(
        draw(jax.random.key(7), depth), batches.text(8, 2 * LENGTH), loss, optimizer
    )
