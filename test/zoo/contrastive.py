"""CLIP: an image and a text tower, a learned temperature, a loss over the pairs of a batch."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from program import Program, program
from zeros import attend, cross_entropy, layer_norm

__all__ = ["clip"]

VOCAB, DIM, JOINT, LENGTH, PATCH, PAIRS = 128, 64, 32, 16, 4, 16


@functools.cache
def _world() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    return rng.standard_normal((8, 16 * 16 * 3)), rng.integers(1, VOCAB - 1, (8, 2))


def pairs(index: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns images F32 [B, 16, 16, 3] and captions int32 [B, T] of the same eight bits."""
    patterns, words = _world()
    rng = np.random.default_rng(index)
    bits = rng.integers(0, 2, (PAIRS, 8))
    noise = 0.3 * rng.standard_normal((PAIRS, 16, 16, 3))
    images = ((2 * bits - 1) @ patterns / 8**0.5).reshape(noise.shape) + noise
    captions = np.zeros((PAIRS, LENGTH), np.int32)
    captions[:, :8] = words[np.arange(8), bits]
    captions[:, 8] = VOCAB - 1
    return images.astype(np.float32), captions


def draw(key: jax.Array, depth: int) -> Any:
    """Returns F32 parameters of both towers."""
    keys = iter(jax.random.split(key, 16 * depth + 8))

    def normal(*shape: int, deviation: float | None = None) -> jax.Array:
        size = shape[0] ** -0.5 if deviation is None else deviation
        return size * jax.random.normal(next(keys), shape)

    def tower() -> Any:
        return {
            "blocks": [
                {
                    "norm1": jnp.ones(DIM),
                    "norm2": jnp.ones(DIM),
                    **{name: normal(DIM, DIM) for name in "qkvo"},
                    "up": normal(DIM, 4 * DIM),
                    "down": normal(4 * DIM, DIM),
                }
                for _ in range(depth)
            ],
            "norm": jnp.ones(DIM),
            "joint": normal(DIM, JOINT),
        }

    return {
        "image": {**tower(), "patch": normal(PATCH**2 * 3, DIM), "position": normal(16, DIM)},
        "text": {
            **tower(),
            "embed": normal(VOCAB, DIM, deviation=0.02),
            "position": normal(LENGTH, DIM, deviation=0.01),
        },
        "temperature": jnp.log(jnp.float32(1 / 0.07)),
    }


def encode(p: Any, x: jax.Array, causal: bool) -> jax.Array:
    """Returns tokens [B, T, D] behind a tower's blocks."""
    for q in p["blocks"]:
        h = layer_norm(x, q["norm1"])
        mixed = attend(h @ q["q"], h @ q["k"], h @ q["v"], 0.25, causal)
        x = x + mixed @ q["o"]
        hidden = layer_norm(x, q["norm2"]) @ q["up"]
        x = x + jax.nn.gelu(hidden, approximate=False) @ q["down"]
    return layer_norm(x, p["norm"])


def loss(params: Any, batch: Any) -> jax.Array:
    """Returns the mean of both directions' cross entropies."""
    images, captions = batch
    x = images.reshape(-1, 4, PATCH, 4, PATCH, 3).swapaxes(2, 3).reshape(PAIRS, 16, -1)
    x = x @ params["image"]["patch"] + params["image"]["position"]
    a = encode(params["image"], x, causal=False).mean(1) @ params["image"]["joint"]
    y = params["text"]["embed"][captions] + params["text"]["position"]
    y = encode(params["text"], y, causal=True)
    b = y[jnp.arange(PAIRS), captions.argmax(-1)] @ params["text"]["joint"]
    a, b = (z / jnp.linalg.norm(z, axis=-1, keepdims=True) for z in (a, b))
    logits = jnp.exp(params["temperature"]) * a @ b.T
    labels = jnp.arange(PAIRS)
    return (cross_entropy(logits, labels) + cross_entropy(logits.T, labels)) / 2


@program("clip", "contrastive", depth=4)
def clip(depth: int) -> Program:
    """Two towers under AdamW."""
    optimizer = optax.adamw(5e-4, b2=0.98, weight_decay=0.1)
    return Program.of_loss(draw(jax.random.key(0), depth), pairs, loss, optimizer)
