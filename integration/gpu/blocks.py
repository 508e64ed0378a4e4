"""Replacements of the example's parts in steps of 8B shapes: attention, FP8 products, one layer.

Attention is a library's, on our side and on jax.jit's, so that both do equal work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

__all__ = [
    "SCALES",
    "block",
    "cudnn_attention",
    "fp8_dot",
    "our_attention",
    "parts",
    "plain_dot",
    "shapes",
]

Attend = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
Dot = Callable[[jax.Array, jax.Array], jax.Array]

LARGEST = {jnp.float8_e4m3fn: 448.0, jnp.float8_e5m2: 57344.0}
# Scales of activations, weights and gradients if given: these values stay within the formats in a
# step of 8B shapes with weights of deviation 0.02.
SCALES = (2.0**-4, 2.0**-12, 2.0**-26)


def our_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Returns the attention that Scalify maps to a GPU's library."""
    from scalify import nn

    return nn.attention(q, k, v, causal=True)


def cudnn_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Returns XLA's attention by cuDNN."""
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")


def plain_dot(x: jax.Array, w: jax.Array) -> jax.Array:
    """Returns `x` [..., K] times `w` [K, N] in the format of `x`, as in the example."""
    return x @ w.astype(x.dtype)


def _quantized(x: jax.Array, dtype: Any, scale: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """Returns codes of a format and their scale: the given one, or that of the largest element."""
    largest = LARGEST[dtype]
    wide = x.astype(jnp.float32)
    if scale is None:
        scale = jnp.maximum(jnp.max(jnp.abs(wide)), 1e-30) / largest
    return jnp.clip(wide / scale, -largest, largest).astype(dtype), scale


def _wide(codes: jax.Array, scale: jax.Array) -> jax.Array:
    """Returns codes times their scale in BF16, the form in which XLA recognises FP8 operands."""
    return codes.astype(jnp.bfloat16) * jnp.broadcast_to(scale.astype(jnp.bfloat16), codes.shape)


def fp8_dot(scales: jax.Array | None) -> Dot:
    """Returns a product with FP8 operands, backward too: E4M3, gradients E5M2.

    XLA turns products of dequantized FP8 data into FP8 products.

    Args:
        scales: F32 [3] of activations, weights and gradients, an argument of the step, since XLA
            would fold constants; or None for scales from the largest elements.
    """

    def scale(index: int, given: Any) -> Any:
        return None if scales is None else given[index]

    def forward(x: jax.Array, w: jax.Array, given: jax.Array) -> Any:
        codes, sx = _quantized(x, jnp.float8_e4m3fn, scale(0, given))
        weights, sw = _quantized(w, jnp.float8_e4m3fn, scale(1, given))
        y = jnp.matmul(_wide(codes, sx), _wide(weights, sw), preferred_element_type=jnp.bfloat16)
        # An empty array, since the backward only needs its dtype.
        return y, (codes, sx, weights, sw, given, jnp.zeros(0, w.dtype))

    def backward(kept: Any, grad: jax.Array) -> Any:
        codes, sx, weights, sw, given, like = kept
        narrow, sg = _quantized(grad, jnp.float8_e5m2, scale(2, given))
        wide = _wide(narrow, sg)
        dx = jnp.matmul(wide, _wide(weights, sw).T, preferred_element_type=jnp.bfloat16)
        dw = jnp.matmul(_wide(codes, sx).T, wide, preferred_element_type=jnp.bfloat16)
        return dx, dw.astype(like.dtype), jnp.zeros_like(given)

    product = jax.custom_vjp(lambda x, w, given: forward(x, w, given)[0])
    product.defvjp(forward, backward)

    def dot(x: jax.Array, w: jax.Array) -> jax.Array:
        given = jnp.zeros(3, jnp.float32) if scales is None else scales
        rows = product(x.reshape(-1, x.shape[-1]), w, given)
        return rows.reshape(*x.shape[:-1], w.shape[-1])

    return dot


@contextlib.contextmanager
def parts(model: Any, attend: Attend | None, dot: Dot = plain_dot) -> Iterator[None]:
    """Replaces parts of the example's model while a step of it is traced.

    Args:
        model: the module.
        attend: attention of queries, keys and values; None keeps the model's own.
        dot: the product with a layer's weight. The head's product stays.
    """

    def attention(x: Any, layer: Any, cfg: Any, tables: Any) -> Any:
        batch, length, _ = x.shape
        split = {"wq": cfg.heads, "wk": cfg.kv_heads, "wv": cfg.kv_heads}
        q, k, v = (
            dot(x, layer[name]).reshape(batch, length, heads, cfg.head_dim)
            for name, heads in split.items()
        )
        q, k = model.rope(q, *tables), model.rope(k, *tables)
        assert attend is not None
        return dot(attend(q, k, v).reshape(batch, length, cfg.dim), layer["wo"])

    def swiglu(x: Any, layer: Any) -> Any:
        gate, up = dot(x, layer["w_gate"]), dot(x, layer["w_up"])
        return dot(jax.nn.silu(gate) * up, layer["w_down"])

    kept = model.attention, model.swiglu
    if attend is not None:
        model.attention = attention
    model.swiglu = swiglu
    try:
        yield
    finally:
        model.attention, model.swiglu = kept


def block(model: Any, cfg: Any) -> Callable[[Any, jax.Array, jax.Array], Any]:
    """Returns (layer, x, grad) -> (y, gradients of layer and x) of one layer [B, T, D]."""

    def forward(layer: Any, x: jax.Array) -> jax.Array:
        tables = model.rope_tables(cfg, x.shape[1])
        normal = model.rms_norm(x, layer["attention_norm"], cfg.norm_eps)
        x = x + model.attention(normal, layer, cfg, tables)
        normal = model.rms_norm(x, layer["ffn_norm"], cfg.norm_eps)
        return x + model.swiglu(normal, layer)

    def run(layer: Any, x: jax.Array, grad: jax.Array) -> Any:
        y, pull = jax.vjp(forward, layer, x)
        return y, *pull(grad)

    return run


def shapes(model: Any, cfg: Any, batch: int) -> tuple[Any, Any]:
    """Returns `block`'s arguments: a layer whose matrices are BF16 (gains F32), and x [B, T, D]."""
    layer = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))["layers"][0]
    narrow = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(
            leaf.shape, jnp.bfloat16 if len(leaf.shape) > 1 else leaf.dtype
        ),
        layer,
    )
    return narrow, jax.ShapeDtypeStruct((batch, cfg.seq, cfg.dim), jnp.bfloat16)
