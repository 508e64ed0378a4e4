"""Logits and loss, as functions of the tree of parameters.

Shapes use B batch, T tokens, S keys, D hidden_size, V vocab_size, F intermediate_size, K key heads,
G query heads per key head, H channels per head.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from scalify.models.llama import rope
from scalify.models.llama.cache import Cache
from scalify.models.llama.config import LlamaConfig
from scalify.models.llama.parameters import Params

__all__ = ["apply", "loss", "loss_sums"]

_POLICIES = {
    "full": jax.checkpoint_policies.nothing_saveable,
    "dots": jax.checkpoint_policies.dots_saveable,
    "dots_no_batch": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}


def _norm(x: jax.Array, gain: jax.Array, eps: float) -> jax.Array:
    """Divides the last axis by its root mean square, in F32 (Zhang and Sennrich, 1910.07467)."""
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + eps)
    return (wide * scale * gain.astype(jnp.float32)).astype(x.dtype)


def _product(x: jax.Array, layer: Params, matrix: str, bias: str = "") -> jax.Array:
    result = x @ layer[matrix].astype(x.dtype)
    return result + layer[bias].astype(x.dtype) if bias in layer else result


def _heads(
    x: jax.Array, layer: Params, config: LlamaConfig, table: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns rotated queries [B, T, K G, H] and keys, and values [B, T, K, H] of `x` [B, T, D]."""

    def split(matrix: str, bias: str, heads: int) -> jax.Array:
        return _product(x, layer, matrix, bias).reshape(*x.shape[:2], heads, config.head_size)

    q = split("wq", "bq", config.num_attention_heads)
    k = split("wk", "bk", config.kv_heads)
    v = split("wv", "bv", config.kv_heads)
    if config.qk_norm:
        q = _norm(q, layer["q_norm"], config.rms_norm_eps)
        k = _norm(k, layer["k_norm"], config.rms_norm_eps)
    return rope.rotate(q, table), rope.rotate(k, table), v


def _mix(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Returns softmax(q k^T / sqrt(H)) v [B, T, K G H]; the softmax is F32.

    Query heads share key heads (Ainslie et al., arXiv 2305.13245).

    Args:
        q: [B, T, K G, H].
        k: [B, S, K, H].
        v: [B, S, K, H].
        mask: what a query attends to, bool [B or 1, T, S].
    """
    batch, length, _, size = q.shape
    q = q.reshape(batch, length, k.shape[2], -1, size)
    scores = jnp.einsum("btkgh,bskh->bkgts", q, k).astype(jnp.float32) * size**-0.5
    scores = jnp.where(mask[:, None, None], scores, -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1).astype(q.dtype)
    return jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(batch, length, -1)


def _swiglu(x: jax.Array, layer: Params) -> jax.Array:
    """Returns down(silu(gate(x)) * up(x)) (Shazeer, arXiv 2002.05202)."""
    inner = jax.nn.silu(_product(x, layer, "w_gate")) * _product(x, layer, "w_up")
    return _product(inner, layer, "w_down")


def _layer(
    x: jax.Array,
    layer: Params,
    kept: tuple[jax.Array, jax.Array] | None,
    mask: jax.Array,
    table: tuple[jax.Array, jax.Array],
    start: jax.Array,
    config: LlamaConfig,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array] | None]:
    """Returns a layer's output and its keys and values, with the new ones from `start` on."""
    with jax.named_scope("attention"):
        q, k, v = _heads(
            _norm(x, layer["attention_norm"], config.rms_norm_eps), layer, config, table
        )
        if kept is not None:
            k, v = (
                jax.lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), start, axis=1)
                for old, new in zip(kept, (k, v), strict=True)
            )
            kept = (k, v)
        x = x + _product(_mix(q, k, v, mask), layer, "wo", "bo")
    with jax.named_scope("ffn"):
        return x + _swiglu(_norm(x, layer["ffn_norm"], config.rms_norm_eps), layer), kept


def _mask(
    window: int | None, queries: jax.Array, keys: jax.Array, segments: tuple[jax.Array, ...] | None
) -> jax.Array:
    """Returns which of `keys` [S] each of `queries` [T] attends to, by their places in the row."""
    distance = queries[:, None] - keys[None, :]
    seen = distance >= 0
    if window is not None:
        seen &= distance < window
    if segments is None:
        return seen[None]
    return seen[None] & (segments[0][:, :, None] == segments[1][:, None, :])


def _rematerialised(config: LlamaConfig) -> Callable[..., Any]:
    layer = functools.partial(_layer, config=config)
    if config.remat == "none":
        return layer
    # Within a scan nothing can be merged with the forward's ops, so no barrier is needed.
    return jax.checkpoint(layer, policy=_POLICIES[config.remat], prevent_cse=not config.scan_layers)


def _layers(
    x: jax.Array,
    params: Params,
    config: LlamaConfig,
    masks: dict[int | None, jax.Array],
    **rest: Any,
) -> tuple[jax.Array, Any]:
    """Returns the last layer's output, and all layers' keys and values if there is a cache."""
    run, cache = _rematerialised(config), rest.pop("cache")
    kept = None if cache is None else (cache["keys"], cache["values"])
    table, start = rest["table"], rest["start"]
    if not config.scan_layers:
        new: list[Any] = []
        for index, layer in enumerate(params["layers"]):
            with jax.named_scope(f"layer{index}"):
                own = None if kept is None else (kept[0][index], kept[1][index])
                x, own = run(x, layer, own, masks[config.windows[index]], table, start)
                new.append(own)
        return x, None if kept is None else ([k for k, _ in new], [v for _, v in new])

    # Layers of two kinds choose their mask by a flag, so that one body serves all.
    kinds = list(masks)
    flags = jnp.array([window == kinds[0] for window in config.windows])

    def body(x: jax.Array, one: Any) -> tuple[jax.Array, Any]:
        layer, own, flag = one
        mask = masks[kinds[0]]
        if len(kinds) > 1:
            mask = jnp.where(flag, mask, masks[kinds[1]])
        return run(x, layer, own, mask, table, start)

    with jax.named_scope("layers"):
        return jax.lax.scan(body, x, (params["layers"], kept, flags))


def apply(
    params: Params,
    tokens: jax.Array,
    config: LlamaConfig,
    *,
    positions: jax.Array | None = None,
    segments: jax.Array | None = None,
    cache: Cache | None = None,
) -> Any:
    """Returns the logits of the next token, F32 [B, T, V]; with a cache (logits, new cache).

    Args:
        params: the tree of `init`.
        tokens: int32 [B, T].
        config: the model.
        positions: of tokens in their documents, int32 [B, T], for rotary embeddings; 0 to T - 1 if
            None, with a cache the numbers that follow it.
        segments: each token's document, int32 [B, T]; tokens attend to their own document only, and
            there to earlier tokens. One document if None.
        cache: of `init_cache`, with room for T more tokens; a full one is not detected.
    """
    start: Any = 0 if cache is None else cache["length"]
    queries = start + jnp.arange(tokens.shape[1])
    if positions is None:
        positions = queries[None]
    keys, pairs = queries, None if segments is None else (segments, segments)
    if cache is not None:
        if segments is None:
            segments = jnp.ones_like(tokens)
        known = jax.lax.dynamic_update_slice_in_dim(cache["segments"], segments, start, axis=1)
        keys, pairs = jnp.arange(known.shape[1]), (segments, known)
    masks = {window: _mask(window, queries, keys, pairs) for window in config.windows}
    table = rope.tables(config, positions)

    x = jnp.take(params["embed"], tokens, axis=0).astype(config.dtype)
    x, kept = _layers(x, params, config, masks, table=table, start=start, cache=cache)
    with jax.named_scope("head"):
        x = _norm(x, params["final_norm"], config.rms_norm_eps)
        head = params["embed"].T if config.tie_word_embeddings else params["head"]
        logits = (x @ head.astype(x.dtype)).astype(jnp.float32)
    if cache is None:
        return logits
    assert kept is not None
    length = start + tokens.shape[1]
    return logits, {"keys": kept[0], "values": kept[1], "segments": known, "length": length}


def loss_sums(
    params: Params, batch: Mapping[str, jax.Array], config: LlamaConfig
) -> tuple[jax.Array, jax.Array]:
    """Returns the weighted sum of the cross entropies in nats, and the sum of the weights.

    Args:
        params: the tree of `init`.
        batch: "tokens" and "targets", int32 [B, T]; optional: "weights" F32 [B, T], of each
            target's loss (all 1 without them), "segments" and "positions" int32 [B, T] as in
            `apply`.
        config: the model.
    """
    logits = apply(
        params,
        batch["tokens"],
        config,
        positions=batch.get("positions"),
        segments=batch.get("segments"),
    )
    with jax.named_scope("loss"):
        picked = jnp.take_along_axis(logits, batch["targets"][..., None], axis=-1)[..., 0]
        losses = jax.nn.logsumexp(logits, axis=-1) - picked
        weights = batch.get("weights")
        if weights is None:
            return jnp.sum(losses), jnp.float32(losses.size)
        return jnp.sum(losses * weights), jnp.sum(weights)


def loss(params: Params, batch: Mapping[str, jax.Array], config: LlamaConfig) -> jax.Array:
    """Returns the mean cross entropy in nats by the batch's weights; 0 if all weights are 0.

    The arguments are those of `loss_sums`, which sums of several batches need.
    """
    total, weight = loss_sums(params, batch, config)
    return total / jnp.maximum(weight, jnp.finfo(jnp.float32).tiny)
