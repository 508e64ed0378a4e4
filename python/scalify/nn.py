"""Layers that a GPU's library runs as one operation.

Each is a `stablehlo.composite` whose decomposition is the layer in plain JAX, which any other
compiler runs.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["attention"]

_FORMATS = (jnp.float32, jnp.bfloat16, jnp.float16)


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    causal: bool,
    scale: float | None = None,
) -> jax.Array:
    """Returns softmax(q k^T * scale) v [B, T, N, H] in the format of `q`.

    Scores and softmax are F32; weights are rounded to the operands' format before the product with
    `v`. Works under `jit`, `grad`, `vmap`, `checkpoint` and `scan`; only the first derivative, in
    reverse mode.

    Args:
        q: queries [B, T, N, H], F32, BF16 or F16.
        k: keys [B, S, K, H] in the same format. N is a multiple of K: heads n * N / K and on, N / K
            of them, share key head n.
        v: values, of the type of `k`.
        causal: whether position i attends only to positions 0 to i; requires T = S.
        scale: of the scores; H^-0.5 if None.

    Raises:
        ValueError: shapes or formats do not match.
    """
    _check(q, k, v, causal)
    if scale is None:
        scale = q.shape[-1] ** -0.5
    return _attention(q, k, v, bool(causal), float(scale))


def _check(q: jax.Array, k: jax.Array, v: jax.Array, causal: bool) -> None:
    shapes = f"q {q.shape}, k {k.shape}, v {v.shape}"
    if q.ndim != 4 or k.ndim != 4 or k.shape != v.shape:
        raise ValueError(f"{shapes}: expected [B, T, N, H] and twice [B, S, K, H]")
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(f"{shapes}: batch and head size must agree")
    if q.shape[2] % k.shape[2]:
        raise ValueError(
            f"{shapes}: {q.shape[2]} query heads are not a multiple of {k.shape[2]} key heads"
        )
    if causal and q.shape[1] != k.shape[1]:
        raise ValueError(f"{shapes}: causal attention needs as many queries as keys")
    if q.dtype not in _FORMATS or not q.dtype == k.dtype == v.dtype:
        raise ValueError(
            f"formats {q.dtype}, {k.dtype}, {v.dtype}: expected one of float32, bfloat16, float16"
        )


def _grouped(q: jax.Array, kv_heads: int) -> jax.Array:
    """Returns `q` [B, T, N, H] as [B, T, K, G, H]."""
    batch, length, heads, size = q.shape
    return q.reshape(batch, length, kv_heads, heads // kv_heads, size)


def _weights(q: jax.Array, k: jax.Array, causal: bool, scale: float) -> jax.Array:
    """Returns the F32 softmax [B, K, G, T, S] of the scores of grouped `q`."""
    scores = jnp.einsum("btkgh,bskh->bkgts", q, k, preferred_element_type=jnp.float32) * scale
    if causal:
        position = jnp.arange(q.shape[1])
        scores = jnp.where(position[:, None] >= position[None, :], scores, -jnp.inf)
    raised = jnp.exp(scores - jnp.max(scores, axis=-1, keepdims=True))
    return raised / jnp.sum(raised, axis=-1, keepdims=True)


def _forward(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool, scale: float) -> jax.Array:
    weights = _weights(_grouped(q, k.shape[2]), k, causal, scale).astype(q.dtype)
    mixed = jnp.einsum("bkgts,bskh->btkgh", weights, v, preferred_element_type=jnp.float32)
    return mixed.astype(q.dtype).reshape(q.shape)


def _backward(
    q: jax.Array, k: jax.Array, v: jax.Array, grad: jax.Array, *, causal: bool, scale: float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the gradients of q, k and v."""
    einsum = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
    grouped, grad = _grouped(q, k.shape[2]), _grouped(grad, k.shape[2])
    weights = _weights(grouped, k, causal, scale)
    grad_v = einsum("bkgts,btkgh->bskh", weights.astype(q.dtype), grad)
    grad_weights = einsum("btkgh,bskh->bkgts", grad, v)
    shared = jnp.sum(weights * grad_weights, axis=-1, keepdims=True)
    grad_scores = (weights * (grad_weights - shared) * scale).astype(q.dtype)
    grad_q = einsum("bkgts,bskh->btkgh", grad_scores, k).reshape(q.shape)
    grad_k = einsum("bkgts,btkgh->bskh", grad_scores, grouped)
    return grad_q.astype(q.dtype), grad_k.astype(q.dtype), grad_v.astype(q.dtype)


# A composite has no batching rule, so `vmap` folds its dimension into the batch dimension.
def _batched(op: Any, **attributes: Any) -> Any:
    """Returns `op` on arrays [B, ...] as a function that supports `vmap`."""
    call = jax.custom_batching.custom_vmap(functools.partial(op, **attributes))

    def rule(size: int, is_batched: list[bool], *args: jax.Array) -> Any:
        def fold(leaf: jax.Array, batched: bool) -> jax.Array:
            whole = leaf if batched else jnp.broadcast_to(leaf, (size, *leaf.shape))
            return whole.reshape(-1, *whole.shape[2:])

        results = call(*map(fold, args, is_batched))
        split = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), results)
        return split, jax.tree.map(lambda _: True, results)

    call.def_vmap(rule)
    return call


_forward_op = jax.lax.composite(_forward, name="scalify.attention", version=1)
_backward_op = jax.lax.composite(_backward, name="scalify.attention_grad", version=1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _attention(q: jax.Array, k: jax.Array, v: jax.Array, causal: bool, scale: float) -> jax.Array:
    return _batched(_forward_op, causal=causal, scale=scale)(q, k, v)


def _attention_fwd(
    q: jax.Array, k: jax.Array, v: jax.Array, causal: bool, scale: float
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return _attention(q, k, v, causal, scale), (q, k, v)


def _attention_bwd(
    causal: bool, scale: float, kept: tuple[jax.Array, ...], grad: jax.Array
) -> tuple[jax.Array, ...]:
    return tuple(_batched(_backward_op, causal=causal, scale=scale)(*kept, grad))


_attention.defvjp(_attention_fwd, _attention_bwd)
