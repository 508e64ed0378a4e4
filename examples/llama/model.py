"""A LLaMA in plain JAX: parameters are a pytree of dicts, layers are unrolled.

Shapes use B batch, T sequence, D dim, V vocab, F ffn, K key/value heads, G query heads
per key/value head, H channels per head.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from config import ModelConfig

__all__ = ["count_parameters", "init", "logits", "loss"]

Params = dict[str, Any]


def init(key: jax.Array, cfg: ModelConfig) -> Params:
    """Returns F32 parameters with GPT-2's initialisation.

    Every matrix is normal with deviation 0.02, except for the two that write into the residual
    stream (`wo`, `w_down`): they have 0.02 / sqrt(2 * layers), so that the stream's variance does
    not grow with depth. Norm gains are one.
    """
    residual = 0.02 / (2 * cfg.layers) ** 0.5
    kv_dim = cfg.kv_heads * cfg.head_dim
    shapes = {
        "wq": ((cfg.dim, cfg.dim), 0.02),
        "wk": ((cfg.dim, kv_dim), 0.02),
        "wv": ((cfg.dim, kv_dim), 0.02),
        "wo": ((cfg.dim, cfg.dim), residual),
        "w_gate": ((cfg.dim, cfg.ffn), 0.02),
        "w_up": ((cfg.dim, cfg.ffn), 0.02),
        "w_down": ((cfg.ffn, cfg.dim), residual),
    }

    def normal(key: jax.Array, shape: tuple[int, ...], deviation: float) -> jax.Array:
        return deviation * jax.random.normal(key, shape, jnp.float32)

    embed_key, head_key, *layer_keys = jax.random.split(key, 2 + cfg.layers)
    layers = []
    for layer_key in layer_keys:
        keys = jax.random.split(layer_key, len(shapes))
        layer = {
            name: normal(k, shape, deviation)
            for k, (name, (shape, deviation)) in zip(keys, shapes.items(), strict=True)
        }
        layer["attention_norm"] = jnp.ones(cfg.dim, jnp.float32)
        layer["ffn_norm"] = jnp.ones(cfg.dim, jnp.float32)
        layers.append(layer)
    return {
        "embed": normal(embed_key, (cfg.vocab, cfg.dim), 0.02),
        "layers": layers,
        "final_norm": jnp.ones(cfg.dim, jnp.float32),
        "head": normal(head_key, (cfg.dim, cfg.vocab), 0.02),
    }


def count_parameters(params: Params) -> int:
    """Returns the number of elements of all parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def rms_norm(x: jax.Array, gain: jax.Array, eps: float) -> jax.Array:
    """Normalises the last axis of `x` [..., D] to unit mean square, in F32."""
    wide = x.astype(jnp.float32)
    mean = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean + eps) * gain).astype(x.dtype)


def rope_tables(cfg: ModelConfig, length: int) -> tuple[jax.Array, jax.Array]:
    """Returns cosine and sine [T, H/2] of every position's rotation angles."""
    half = cfg.head_dim // 2
    frequency = cfg.rope_theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(length, dtype=jnp.float32)[:, None] * frequency[None, :]
    return jnp.cos(angle), jnp.sin(angle)


def rope(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """Rotates channel pairs (i, i + H/2) of `x` [B, T, N, H] by its position's angles."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cos, sin = cos[None, :, None, :], sin[None, :, None, :]
    turned = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return turned.astype(x.dtype)


def attention(
    x: jax.Array, layer: Params, cfg: ModelConfig, tables: tuple[jax.Array, jax.Array]
) -> jax.Array:
    """Causal grouped-query attention of `x` [B, T, D]; the softmax is F32."""
    batch, length, _ = x.shape
    groups = cfg.heads // cfg.kv_heads
    q = (x @ layer["wq"].astype(x.dtype)).reshape(batch, length, cfg.heads, cfg.head_dim)
    k = (x @ layer["wk"].astype(x.dtype)).reshape(batch, length, cfg.kv_heads, cfg.head_dim)
    v = (x @ layer["wv"].astype(x.dtype)).reshape(batch, length, cfg.kv_heads, cfg.head_dim)
    q, k = rope(q, *tables), rope(k, *tables)
    q = q.reshape(batch, length, cfg.kv_heads, groups, cfg.head_dim)
    scores = jnp.einsum("btkgh,bskh->bkgts", q, k).astype(jnp.float32) * cfg.head_dim**-0.5
    position = jnp.arange(length)
    causal = position[:, None] >= position[None, :]
    weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1).astype(x.dtype)
    mixed = jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(batch, length, cfg.dim)
    return mixed @ layer["wo"].astype(x.dtype)


def swiglu(x: jax.Array, layer: Params) -> jax.Array:
    """SwiGLU of `x` [B, T, D]: down(silu(gate(x)) * up(x))."""
    gate = x @ layer["w_gate"].astype(x.dtype)
    up = x @ layer["w_up"].astype(x.dtype)
    return (jax.nn.silu(gate) * up) @ layer["w_down"].astype(x.dtype)


def logits(params: Params, tokens: jax.Array, cfg: ModelConfig) -> jax.Array:
    """Returns F32 next-token logits [B, T, V] of `tokens` [B, T]."""
    x = jnp.take(params["embed"], tokens, axis=0).astype(cfg.dtype)
    tables = rope_tables(cfg, tokens.shape[1])
    for index, layer in enumerate(params["layers"]):
        with jax.named_scope(f"layer{index}"):
            with jax.named_scope("attention"):
                normal = rms_norm(x, layer["attention_norm"], cfg.norm_eps)
                x = x + attention(normal, layer, cfg, tables)
            with jax.named_scope("ffn"):
                normal = rms_norm(x, layer["ffn_norm"], cfg.norm_eps)
                x = x + swiglu(normal, layer)
    with jax.named_scope("head"):
        x = rms_norm(x, params["final_norm"], cfg.norm_eps)
        return (x @ params["head"].astype(x.dtype)).astype(jnp.float32)


def loss(params: Params, batch: jax.Array, cfg: ModelConfig) -> jax.Array:
    """Returns the mean cross entropy in nats of predicting batch[:, 1:] from batch[:, :-1].

    Args:
        params: the tree of `init`.
        batch: int32 tokens [B, T + 1].
        cfg: the model's sizes.
    """
    predicted = logits(params, batch[:, :-1], cfg)
    with jax.named_scope("loss"):
        losses = optax.softmax_cross_entropy_with_integer_labels(predicted, batch[:, 1:])
        return jnp.mean(losses)
