"""A residual CNN with batch norm and pooling, and ViTs under LAMB and under AdamW in BF16."""

from __future__ import annotations

import functools
from typing import Any

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, cast, program

__all__ = ["cnn", "vit"]

CLASSES, CHANNELS, DIM, HEADS, PATCH = 10, 16, 64, 4, 4


def conv(x: jax.Array, w: jax.Array, stride: int = 1) -> jax.Array:
    """Convolves [B, H, W, C] by [h, w, C, D], padded to the same size."""
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def batch_norm(x: jax.Array, p: Any) -> tuple[jax.Array, Any]:
    """Normalises over batch and places; returns the batch's statistics too."""
    mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
    y = (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["gain"] + p["bias"]
    return y, {"mean": mean, "variance": variance}


def pool(x: jax.Array, maximum: bool) -> jax.Array:
    """Pools windows of 2 by 2 of [B, H, W, C] by their maximum or mean."""
    window = (1, 2, 2, 1)
    if maximum:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, window, window, "VALID") / 4


def cnn_loss(params: Any, batch: Any) -> tuple[jax.Array, Any]:
    """Returns the mean cross entropy and the statistics of every batch norm."""
    images, labels = batch
    statistics = []
    x, found = batch_norm(conv(images, params["stem"]), params["norm"])
    statistics.append(found)
    x = pool(jax.nn.relu(x), maximum=True)
    for p in params["blocks"]:
        y, found = batch_norm(conv(x, p["w1"]), p["norm1"])
        statistics.append(found)
        y, found = batch_norm(conv(jax.nn.relu(y), p["w2"]), p["norm2"])
        statistics.append(found)
        x = jax.nn.relu(x + y)
    x = pool(conv(x, params["down"], stride=2), maximum=False)
    x = x.reshape(x.shape[0], -1)
    x = jax.nn.relu(x @ params["dense"]["w"] + params["dense"]["b"])
    logits = x @ params["head"]["w"] + params["head"]["b"]
    losses = optax.softmax_cross_entropy(logits, jax.nn.one_hot(labels, CLASSES))
    return losses.mean(), statistics


def draw_cnn(key: jax.Array, blocks: int) -> Any:
    """Returns F32 parameters, drawn as He et al. 2015 draw them."""
    keys = iter(jax.random.split(key, 2 * blocks + 4))

    def normal(*shape: int) -> jax.Array:
        fan = 1
        for size in shape[:-1]:
            fan *= size
        return (2 / fan) ** 0.5 * jax.random.normal(next(keys), shape)

    def norm() -> Any:
        return {"gain": jnp.ones(CHANNELS), "bias": jnp.zeros(CHANNELS)}

    return {
        "stem": normal(3, 3, 3, CHANNELS),
        "norm": norm(),
        "blocks": [
            {
                "w1": normal(3, 3, CHANNELS, CHANNELS),
                "norm1": norm(),
                "w2": normal(3, 3, CHANNELS, CHANNELS),
                "norm2": norm(),
            }
            for _ in range(blocks)
        ],
        "down": normal(3, 3, CHANNELS, CHANNELS),
        "dense": {"w": normal(4 * CHANNELS, 64), "b": jnp.zeros(64)},
        "head": {"w": normal(64, CLASSES), "b": jnp.zeros(CLASSES)},
    }


@program("cnn", "vision", depth=6)
def cnn(depth: int) -> Program:
    """A residual CNN; momentum SGD, and running means of the batch norms as state."""
    optimizer = optax.sgd(optax.cosine_decay_schedule(0.01, 400), momentum=0.9, nesterov=True)
    params = draw_cnn(jax.random.key(5), depth)
    found = jax.value_and_grad(cnn_loss, has_aux=True)

    def grads(params: Any, batch: Any) -> tuple[jax.Array, Any]:
        (loss, _), gradients = found(params, batch)
        return loss, gradients

    def step(params: Any, state: Any, batch: Any) -> tuple[Any, Any, jax.Array]:
        inner, running = state
        (loss, now), gradients = found(params, batch)
        running = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, running, now)
        updates, inner = optimizer.update(gradients, inner, params)
        return optax.apply_updates(params, updates), (inner, running), loss

    nth = batches.images(16)
    running = jax.tree.map(jnp.zeros_like, jax.eval_shape(cnn_loss, params, nth(0))[1])
    return Program(params, nth, grads, step, (optimizer.init(params), running))


def draw_vit(key: jax.Array, layers: int) -> Any:
    """Returns F32 parameters; class token, learned positions, pre-norm blocks."""
    keys = iter(jax.random.split(key, 4 * layers + 4))

    def normal(*shape: int, deviation: float = 0.02) -> jax.Array:
        return deviation * jax.random.normal(next(keys), shape)

    def norm() -> Any:
        return {"gain": jnp.ones(DIM), "bias": jnp.zeros(DIM)}

    return {
        "patch": normal(PATCH, PATCH, 3, DIM),
        "class": jnp.zeros((1, 1, DIM)),
        "position": normal(1, (16 // PATCH) ** 2 + 1, DIM),
        "blocks": [
            {
                "norm1": norm(),
                "qkv": normal(DIM, 3, HEADS, DIM // HEADS),
                "out": normal(HEADS, DIM // HEADS, DIM),
                "norm2": norm(),
                "up": {"w": normal(DIM, 2 * DIM), "b": jnp.zeros(2 * DIM)},
                "down": {"w": normal(2 * DIM, DIM), "b": jnp.zeros(DIM)},
            }
            for _ in range(layers)
        ],
        "norm": norm(),
        "head": normal(DIM, CLASSES),
    }


def layer_norm(x: jax.Array, p: Any) -> jax.Array:
    """LayerNorm of the last axis, in F32."""
    wide = x.astype(jnp.float32)
    wide = wide - wide.mean(-1, keepdims=True)
    wide = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6)
    return (wide * p["gain"] + p["bias"]).astype(x.dtype)


def vit_loss(params: Any, batch: Any, dtype: Any) -> jax.Array:
    """Returns the mean cross entropy under label smoothing."""
    images, labels = batch
    params = cast(params, dtype)
    x = conv_patches(images.astype(dtype), params["patch"])
    first = jnp.broadcast_to(params["class"], (x.shape[0], 1, DIM))
    x = jnp.concatenate([first, x], axis=1) + params["position"]
    for p in params["blocks"]:
        q, k, v = jnp.einsum("btd,dshc->sbthc", layer_norm(x, p["norm1"]), p["qkv"])
        scores = jnp.einsum("bqhc,bkhc->bhqk", q, k).astype(jnp.float32) * (DIM // HEADS) ** -0.5
        mixed = jnp.einsum("bhqk,bkhc->bqhc", jax.nn.softmax(scores).astype(dtype), v)
        x = x + jnp.einsum("bqhc,hcd->bqd", mixed, p["out"])
        hidden = jax.nn.gelu(layer_norm(x, p["norm2"]) @ p["up"]["w"] + p["up"]["b"])
        x = x + hidden @ p["down"]["w"] + p["down"]["b"]
    logits = (layer_norm(x, params["norm"])[:, 0] @ params["head"]).astype(jnp.float32)
    smooth = optax.smooth_labels(jax.nn.one_hot(labels, CLASSES), 0.1)
    return optax.softmax_cross_entropy(logits, smooth).mean()


def conv_patches(images: jax.Array, w: jax.Array) -> jax.Array:
    """Returns [B, patches, D] of images, by a convolution whose stride is the patch."""
    x = jax.lax.conv_general_dilated(
        images, w, (PATCH, PATCH), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return x.reshape(x.shape[0], -1, x.shape[-1])


@program("vit_lamb_f32", "vision", dtype=jnp.float32, lamb=True)
@program("vit_adamw_bf16", "vision", dtype=jnp.bfloat16, lamb=False)
def vit(depth: int, dtype: Any, lamb: bool) -> Program:
    """A ViT of 4 by 4 patches."""
    rate = optax.cosine_decay_schedule(5e-3 if lamb else 1e-3, 400)
    optimizer = optax.lamb(rate, weight_decay=0.01) if lamb else optax.adamw(rate)
    return Program.of_loss(
        draw_vit(jax.random.key(6), depth),
        batches.images(16),
        functools.partial(vit_loss, dtype=dtype),
        optimizer,
    )
