"""Parameters that start at zero or near it: tanh gates, LayerScale, muP's queries and head."""

from __future__ import annotations

from typing import Any

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, adamw, program

__all__ = ["gated", "mup", "vit_layer_scale"]

VOCAB, DIM, HEADS, LENGTH, PATCH, CLASSES = 256, 64, 4, 32, 4, 10


def rms_norm(x: jax.Array, gain: Any = 1.0) -> jax.Array:
    """RMSNorm of the last axis."""
    return gain * x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def layer_norm(x: jax.Array, gain: Any) -> jax.Array:
    """LayerNorm of the last axis, by a division."""
    x = x - x.mean(-1, keepdims=True)
    return gain * x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def split_heads(x: jax.Array) -> jax.Array:
    """Returns [B, heads, T, D / heads] of [B, T, D]."""
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


def attend(q: jax.Array, k: jax.Array, v: jax.Array, scale: float, causal: bool) -> jax.Array:
    """Returns the attention's mixture [B, T, D] of queries, keys and values [B, T, D]."""
    scores = split_heads(q) @ split_heads(k).swapaxes(-1, -2) * scale
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return (jax.nn.softmax(scores) @ split_heads(v)).swapaxes(1, 2).reshape(q.shape)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the mean cross entropy."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def draw(key: jax.Array, depth: int, dim: int) -> tuple[Any, Any]:
    """Returns parameters of decoder blocks, drawn by their fan-in, and of what is around them."""
    keys = iter(jax.random.split(key, 8 * depth + 3))

    def normal(*shape: int, deviation: float | None = None) -> jax.Array:
        size = shape[0] ** -0.5 if deviation is None else deviation
        return size * jax.random.normal(next(keys), shape)

    blocks = [
        {
            **{name: normal(dim, dim) for name in "qkvo"},
            "up": normal(dim, 4 * dim),
            "down": normal(4 * dim, dim),
        }
        for _ in range(depth)
    ]
    outer = {
        "embed": normal(VOCAB, dim, deviation=0.02),
        "position": normal(LENGTH, dim, deviation=0.02),
        "head": normal(dim, VOCAB),
    }
    return blocks, outer


@program("gate_tanh", "zeros", depth=4)
def gated(depth: int) -> Program:
    """Blocks behind gates that start closed: tanh of a zero, as Flamingo adds layers."""
    blocks, outer = draw(jax.random.key(20), depth, DIM)
    gates = {"a": jnp.zeros(1), "b": jnp.zeros(1)}
    params = {**outer, "blocks": [{**p, **gates} for p in blocks]}

    def loss(params: Any, tokens: jax.Array) -> jax.Array:
        x = params["embed"][tokens[:, :-1]] + params["position"]
        for p in params["blocks"]:
            h = rms_norm(x)
            mixed = attend(h @ p["q"], h @ p["k"], h @ p["v"], (DIM // HEADS) ** -0.5, causal=True)
            x = x + jnp.tanh(p["a"]) * (mixed @ p["o"])
            x = x + jnp.tanh(p["b"]) * (jax.nn.relu(rms_norm(x) @ p["up"]) @ p["down"])
        return cross_entropy(rms_norm(x) @ params["head"], tokens[:, 1:])

    return Program.of_loss(params, batches.text(8, LENGTH), loss, adamw())


@program("mup", "zeros", depth=4)
def mup(depth: int) -> Program:
    """Under muP: queries and head of zeros, attention by 1 / d, rates by 1 / width."""
    dim, base = 128, 32
    blocks, outer = draw(jax.random.key(4), depth, dim)
    params = {
        "blocks": [{**p, "q": jnp.zeros((dim, dim))} for p in blocks],
        "embed": 50 * outer["embed"],
        "position": 50 * outer["position"],
        "head": jnp.zeros((dim, VOCAB)),
    }

    def loss(params: Any, tokens: jax.Array) -> jax.Array:
        x = params["embed"][tokens[:, :-1]] + params["position"]
        share = len(params["blocks"]) ** -0.5
        for p in params["blocks"]:
            h = rms_norm(x)
            mixed = attend(h @ p["q"], h @ p["k"], h @ p["v"], 8**0.5 / (dim // HEADS), causal=True)
            x = x + share * (mixed @ p["o"])
            x = x + share * (jax.nn.relu(rms_norm(x) @ p["up"]) ** 2 @ p["down"])
        return cross_entropy(rms_norm(x) @ params["head"] * (base / dim), tokens[:, 1:])

    labels = dict.fromkeys(params, "other")
    optimizer = optax.multi_transform(
        {"hidden": optax.adam(4e-3 * base / dim), "other": optax.adam(4e-3)},
        {**labels, "blocks": "hidden"},
    )
    return Program.of_loss(params, batches.text(8, LENGTH), loss, optimizer)


@program("vit_layer_scale", "zeros", depth=4)
def vit_layer_scale(depth: int) -> Program:
    """A ViT with LayerScale from 1e-4, normalised queries and keys, and a head of zeros."""
    blocks, _ = draw(jax.random.key(1), depth, DIM)
    extra = {
        **{name: jnp.ones(DIM) for name in ("norm1", "norm2")},
        **{name: jnp.ones(DIM // HEADS) for name in ("query", "key")},
        **{name: 1e-4 * jnp.ones(DIM) for name in ("scale1", "scale2")},
    }
    patch = PATCH * PATCH * 3
    params = {
        "patch": jax.random.normal(jax.random.key(2), (patch, DIM)) * patch**-0.5,
        "position": 0.02 * jax.random.normal(jax.random.key(3), (16, DIM)),
        "blocks": [{**p, **extra} for p in blocks],
        "norm": jnp.ones(DIM),
        "head": jnp.zeros((DIM, CLASSES)),
        "bias": jnp.zeros(CLASSES),
    }

    def unit(x: jax.Array, gain: jax.Array) -> jax.Array:
        return rms_norm(x.reshape(*x.shape[:2], HEADS, -1), gain).reshape(x.shape)

    def loss(params: Any, batch: Any) -> jax.Array:
        images, labels = batch
        x = images.reshape(-1, 4, PATCH, 4, PATCH, 3).swapaxes(2, 3).reshape(-1, 16, patch)
        x = x @ params["patch"] + params["position"]
        for p in params["blocks"]:
            h = layer_norm(x, p["norm1"])
            q, k = unit(h @ p["q"], p["query"]), unit(h @ p["k"], p["key"])
            mixed = attend(q, k, h @ p["v"], (DIM // HEADS) ** -0.5, causal=False)
            x = x + p["scale1"] * (mixed @ p["o"])
            h = jax.nn.gelu(layer_norm(x, p["norm2"]) @ p["up"], approximate=False)
            x = x + p["scale2"] * (h @ p["down"])
        logits = layer_norm(x, params["norm"]).mean(1) @ params["head"] + params["bias"]
        one_hot = jax.nn.one_hot(labels, CLASSES)
        return optax.sigmoid_binary_cross_entropy(logits, one_hot).sum(-1).mean()

    optimizer = optax.adamw(1e-3, weight_decay=0.05)
    return Program.of_loss(params, batches.images(16), loss, optimizer)
