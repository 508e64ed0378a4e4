"""Decoding with a cache of keys and values: one token per step.

Shapes as in `model`; S is the cache's length, the maximal number of tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import model
from config import ModelConfig

__all__ = ["Cache", "decode", "init_cache"]

# Per layer the keys and the values, F32 or BF16 [B, S, K, H].
Cache = list[dict[str, jax.Array]]


def init_cache(cfg: ModelConfig, batch: int, length: int) -> Cache:
    """Returns an empty cache for `length` tokens of each of `batch` texts."""
    shape = (batch, length, cfg.kv_heads, cfg.head_dim)
    return [
        {name: jnp.zeros(shape, cfg.dtype) for name in ("key", "value")} for _ in range(cfg.layers)
    ]


def attend(
    x: jax.Array, layer: model.Params, cache: dict[str, jax.Array], at: jax.Array, cfg: ModelConfig
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Attention of one token `x` [B, 1, D] at position `at` to all positions up to it."""
    batch, groups = x.shape[0], cfg.heads // cfg.kv_heads
    length = cache["key"].shape[1]
    tables = [jax.lax.dynamic_slice_in_dim(t, at, 1) for t in model.rope_tables(cfg, length)]
    q = (x @ layer["wq"].astype(x.dtype)).reshape(batch, 1, cfg.heads, cfg.head_dim)
    k = (x @ layer["wk"].astype(x.dtype)).reshape(batch, 1, cfg.kv_heads, cfg.head_dim)
    v = (x @ layer["wv"].astype(x.dtype)).reshape(batch, 1, cfg.kv_heads, cfg.head_dim)
    q, k = model.rope(q, *tables), model.rope(k, *tables)
    keys = jax.lax.dynamic_update_slice_in_dim(cache["key"], k, at, axis=1)
    values = jax.lax.dynamic_update_slice_in_dim(cache["value"], v, at, axis=1)
    q = q.reshape(batch, 1, cfg.kv_heads, groups, cfg.head_dim)
    scores = jnp.einsum("btkgh,bskh->bkgts", q, keys).astype(jnp.float32) * cfg.head_dim**-0.5
    seen = jnp.arange(length) <= at
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1).astype(x.dtype)
    mixed = jnp.einsum("bkgts,bskh->btkgh", weights, values).reshape(batch, 1, cfg.dim)
    return {"key": keys, "value": values}, mixed @ layer["wo"].astype(x.dtype)


def decode(
    params: model.Params, cache: Cache, token: jax.Array, at: jax.Array, cfg: ModelConfig
) -> tuple[Cache, jax.Array]:
    """Reads one token and returns the updated cache and F32 logits [B, V] of the next.

    Args:
        params: the tree of `model.init`.
        cache: of the tokens before; its memory may be donated.
        token: int32 [B].
        at: int32 position of the token, from 0.
        cfg: the model's sizes.
    """
    x = jnp.take(params["embed"], token[:, None], axis=0).astype(cfg.dtype)
    caches: Cache = []
    for layer, old in zip(params["layers"], cache, strict=True):
        normal = model.rms_norm(x, layer["attention_norm"], cfg.norm_eps)
        new, mixed = attend(normal, layer, old, at, cfg)
        caches.append(new)
        x = x + mixed
        x = x + model.swiglu(model.rms_norm(x, layer["ffn_norm"], cfg.norm_eps), layer)
    x = model.rms_norm(x, params["final_norm"], cfg.norm_eps)
    return caches, (x @ params["head"].astype(x.dtype)).astype(jnp.float32)[:, 0]
