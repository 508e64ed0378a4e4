"""LLaMAs: unrolled, scanned, recomputed, accumulated over micro-batches, loss-scaled in F16.

Shapes use B batch, T sequence, D dim, V vocab, F ffn, N query heads, K key/value heads,
H channels of a head.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, adamw, program

VOCAB, DIM, FFN, HEADS, KV_HEADS, LENGTH = 256, 64, 160, 4, 2, 32
HEAD = DIM // HEADS


def draw(key: jax.Array, layers: int, stacked: bool) -> Any:
    """Returns F32 parameters; the layers are a list, or one tree of stacked arrays."""
    keys = iter(jax.random.split(key, 16))

    def normal(*shape: int, deviation: float = 0.02) -> jax.Array:
        return deviation * jax.random.normal(next(keys), shape)

    residual = 0.02 / (2 * layers) ** 0.5
    whole = {
        "q": normal(layers, DIM, HEADS, HEAD),
        "k": normal(layers, DIM, KV_HEADS, HEAD),
        "v": normal(layers, DIM, KV_HEADS, HEAD),
        "o": normal(layers, HEADS, HEAD, DIM, deviation=residual),
        "gate": normal(layers, DIM, FFN),
        "up": normal(layers, DIM, FFN),
        "down": normal(layers, FFN, DIM, deviation=residual),
        "norm1": jnp.ones((layers, DIM)),
        "norm2": jnp.ones((layers, DIM)),
    }
    split = [jax.tree.map(lambda leaf, i=i: leaf[i], whole) for i in range(layers)]
    return {
        "embed": normal(VOCAB, DIM),
        "head": normal(DIM, VOCAB),
        "norm": jnp.ones(DIM),
        "layers": whole if stacked else split,
    }


def rms_norm(x: jax.Array, gain: jax.Array) -> jax.Array:
    """Normalises the last axis in F32."""
    wide = x.astype(jnp.float32)
    square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    return (wide * jax.lax.rsqrt(square + 1e-6) * gain).astype(x.dtype)


def rotate(x: jax.Array) -> jax.Array:
    """Turns neighbouring channels of [B, T, N, H] by their position's angles."""
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] * 10_000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[:, None, :], jnp.sin(angle)[:, None, :]
    even, odd = x[..., ::2].astype(jnp.float32), x[..., 1::2].astype(jnp.float32)
    turned = jnp.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1)
    return turned.reshape(x.shape).astype(x.dtype)


def block(x: jax.Array, p: Any) -> jax.Array:
    """One layer of [B, T, D]: grouped-query attention, then SwiGLU."""
    p = jax.tree.map(lambda leaf: leaf.astype(x.dtype), p)
    inner = rms_norm(x, p["norm1"])
    q = rotate(jnp.einsum("btd,dnh->btnh", inner, p["q"]))
    k = rotate(jnp.einsum("btd,dkh->btkh", inner, p["k"]))
    v = jnp.einsum("btd,dkh->btkh", inner, p["v"])
    q = q.reshape(*q.shape[:2], KV_HEADS, HEADS // KV_HEADS, HEAD)
    scores = jnp.einsum("btkgh,bskh->bkgts", q, k).astype(jnp.float32) / HEAD**0.5
    causal = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9)).astype(x.dtype)
    mixed = jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(*x.shape[:2], HEADS, HEAD)
    x = x + jnp.einsum("btnh,nhd->btd", mixed, p["o"])
    inner = rms_norm(x, p["norm2"])
    return x + (jax.nn.silu(inner @ p["gate"]) * (inner @ p["up"])) @ p["down"]


REMAT: dict[str, Callable[[Any], Any]] = {
    "none": lambda layer: layer,
    "full": jax.checkpoint,
    "dots": functools.partial(
        jax.checkpoint, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    ),
}


def loss(params: Any, tokens: jax.Array, dtype: Any = jnp.float32, remat: str = "none") -> Any:
    """Returns the mean cross entropy of the next byte."""
    x = params["embed"][tokens[:, :-1]].astype(dtype)
    layer = REMAT[remat](block)
    if isinstance(params["layers"], dict):
        x = jax.lax.scan(lambda x, p: (layer(x, p), None), x, params["layers"])[0]
    else:
        for p in params["layers"]:
            x = layer(x, p)
    x = rms_norm(x, params["norm"])
    logits = (x @ params["head"].astype(dtype)).astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


@program("llama_f32", "llama")
@program("llama_bf16", "llama", dtype=jnp.bfloat16)
@program("llama_scan", "llama", stacked=True)
@program("llama_scan_remat", "llama", stacked=True, remat="full")
@program("llama_dots_remat", "llama", remat="dots")
def llama(
    depth: int, stacked: bool = False, dtype: Any = jnp.float32, remat: str = "none"
) -> Program:
    """A LLaMA with AdamW."""
    return Program.of_loss(
        draw(jax.random.key(0), depth, stacked),
        batches.text(8, LENGTH),
        functools.partial(loss, dtype=dtype, remat=remat),
    )


def _micro_gradients(kind: str, count: int) -> Any:
    """Returns gradients that are the mean over micro-batches, by one kind of loop."""
    one = jax.value_and_grad(loss)

    def grads(params: Any, batch: jax.Array) -> tuple[jax.Array, Any]:
        def add(total: Any, tokens: jax.Array) -> Any:
            return jax.tree.map(jnp.add, total, one(params, tokens))

        def nth(index: jax.Array, total: Any) -> Any:
            return add(total, jax.lax.dynamic_index_in_dim(batch, index, keepdims=False))

        total = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
        if kind == "scan":
            total, _ = jax.lax.scan(lambda carry, tokens: (add(carry, tokens), None), total, batch)
        elif kind == "fori":
            total = jax.lax.fori_loop(0, count, nth, total)
        else:
            _, total = jax.lax.while_loop(
                lambda carry: carry[0] < count,
                lambda carry: (carry[0] + 1, nth(carry[0], carry[1])),
                (jnp.zeros((), jnp.int32), total),
            )
        return jax.tree.map(lambda leaf: leaf / count, total)

    return grads


@program("accumulate_scan", "accumulation", kind="scan", stacked=False)
@program("accumulate_fori", "accumulation", kind="fori", stacked=False)
@program("accumulate_while", "accumulation", kind="while", stacked=True)
def accumulated(depth: int, kind: str, stacked: bool, count: int = 4) -> Program:
    """Gradients summed over micro-batches in a loop, then one AdamW update."""
    windows = batches.text(2 * count, LENGTH)
    return Program.of_grads(
        draw(jax.random.key(1), depth, stacked),
        lambda index: windows(index).reshape(count, 2, -1),
        _micro_gradients(kind, count),
    )


@program("loss_scale_cond", "loss scaling", select=False)
@program("loss_scale_select", "loss scaling", select=True)
def loss_scaled(depth: int, select: bool) -> Program:
    """F16 activations under a loss scale that backs off when a gradient overflows."""
    optimizer = adamw()
    initial = jnp.float32(2.0**12)

    def scaled_grads(params: Any, tokens: jax.Array, scale: jax.Array) -> tuple[jax.Array, Any]:
        def scaled(params: Any) -> tuple[jax.Array, jax.Array]:
            plain = loss(params, tokens, dtype=jnp.float16)
            return plain * scale, plain

        (_, plain), found = jax.value_and_grad(scaled, has_aux=True)(params)
        return plain, jax.tree.map(lambda leaf: leaf / scale, found)

    def step(params: Any, state: Any, tokens: jax.Array) -> tuple[Any, Any, jax.Array]:
        inner, scale, good = state
        plain, found = scaled_grads(params, tokens, scale)
        finite = functools.reduce(
            jnp.logical_and, [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(found)]
        )

        def update(_: None) -> tuple[Any, Any]:
            updates, after = optimizer.update(found, inner, params)
            return optax.apply_updates(params, updates), after

        if select:
            taken = update(None)
            params, inner = jax.tree.map(
                lambda new, old: jnp.where(finite, new, old), taken, (params, inner)
            )
        else:
            params, inner = jax.lax.cond(finite, update, lambda _: (params, inner), None)
        grown = jnp.where(good >= 200, jnp.minimum(scale * 2, 2.0**16), scale)
        scale = jnp.where(finite, grown, jnp.maximum(scale / 2, 1.0))
        good = jnp.where(finite & (good < 200), good + 1, 0)
        return params, (inner, scale, good), plain

    params = draw(jax.random.key(2), depth, stacked=False)
    return Program(
        params,
        batches.text(8, LENGTH),
        lambda params, tokens: scaled_grads(params, tokens, initial),
        step,
        (optimizer.init(params), initial, jnp.zeros((), jnp.int32)),
    )


@program("llama_example_12", "llama sizes", depth=12)
@program("llama_example_32", "llama sizes", depth=32)
@program("llama_example_80", "llama sizes", depth=80)
# The example's rate is for a width of 96. At 1,024 it blows the residual stream up in F32 itself
# within 20 steps; 3e-4 is the peak of the 7B model (Touvron et al. 2023, table 2).
@program("llama_wide_1024", "llama sizes", depth=4, dim=1024, ffn=2048, heads=16, rate=3e-4)
def example(
    depth: int, dim: int = 64, ffn: int = 160, heads: int = 4, rate: float = 2e-3
) -> Program:
    """The LLaMA of examples/llama at other sizes."""
    import model
    from config import ModelConfig, TrainConfig
    from optimizer import make_optimizer

    cfg = ModelConfig(
        vocab=VOCAB, dim=dim, layers=depth, heads=heads, kv_heads=heads // 2, ffn=ffn, seq=LENGTH
    )
    return Program.of_loss(
        model.init(jax.random.key(3), cfg),
        batches.text(4, LENGTH),
        functools.partial(model.loss, cfg=cfg),
        make_optimizer(dataclasses.replace(TrainConfig(), learning_rate=rate)),
    )


__all__ = ["accumulated", "example", "llama", "loss_scaled"]
