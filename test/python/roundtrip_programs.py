"""JAX programs whose StableHLO text the tests read: training steps and one per family of ops.

`PROGRAMS` maps a name to a function that lowers the program. Nothing is compiled or run, so any
shape works; the shapes are small to keep the text short.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

__all__ = ["PROGRAMS", "Lowered"]

Lowered = Any  # jax.stages.Lowered
Params = dict[str, Any]

VOCAB, WIDTH, HEADS, KV_HEADS, HIDDEN, LAYERS, BATCH, LENGTH = 64, 32, 4, 2, 64, 2, 2, 8
HEAD_DIM = WIDTH // HEADS

PROGRAMS: dict[str, Callable[[], Lowered]] = {}


def _program(lower: Callable[[], Lowered]) -> Callable[[], Lowered]:
    PROGRAMS[lower.__name__] = lower
    return lower


def _spec(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


# --- LLaMA steps ----------------------------------------------------------------------------------


def _init(key: Array) -> Params:
    def normal(*shape: int) -> Array:
        return jax.random.normal(key, shape) * 0.02

    def layer() -> Params:
        return {
            "q": normal(WIDTH, HEADS, HEAD_DIM),
            "k": normal(WIDTH, KV_HEADS, HEAD_DIM),
            "v": normal(WIDTH, KV_HEADS, HEAD_DIM),
            "o": normal(HEADS, HEAD_DIM, WIDTH),
            "gate": normal(WIDTH, HIDDEN),
            "up": normal(WIDTH, HIDDEN),
            "down": normal(HIDDEN, WIDTH),
            "norm1": jnp.ones(WIDTH),
            "norm2": jnp.ones(WIDTH),
        }

    return {
        "embed": normal(VOCAB, WIDTH),
        "head": normal(WIDTH, VOCAB),
        "norm": jnp.ones(WIDTH),
        "layers": [layer() for _ in range(LAYERS)],
    }


def _rms_norm(x: Array, weight: Array) -> Array:
    return x * lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * weight


def _rope(x: Array) -> Array:
    frequency = 1.0 / (10000.0 ** (jnp.arange(0, HEAD_DIM, 2) / HEAD_DIM))
    angle = jnp.arange(LENGTH)[:, None] * frequency[None]
    cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def _layer(x: Array, p: Params) -> Array:
    h = _rms_norm(x, p["norm1"])
    q = _rope(jnp.einsum("bsd,dhk->bshk", h, p["q"]))
    q = q.reshape(BATCH, LENGTH, KV_HEADS, HEADS // KV_HEADS, HEAD_DIM)
    k = _rope(jnp.einsum("bsd,dhk->bshk", h, p["k"]))
    v = jnp.einsum("bsd,dhk->bshk", h, p["v"])
    scores = jnp.einsum("bsgrk,btgk->bgrst", q, k) / jnp.sqrt(HEAD_DIM).astype(x.dtype)
    mask = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), -1)
    mixed = jnp.einsum("bgrst,btgk->bsgrk", weights, v).reshape(BATCH, LENGTH, HEADS, HEAD_DIM)
    x = x + jnp.einsum("bshk,hkd->bsd", mixed, p["o"])
    h = _rms_norm(x, p["norm2"])
    return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]


def _loss(params: Params, tokens: Array, targets: Array, mode: str, dtype: Any) -> Array:
    p = jax.tree.map(lambda a: a.astype(dtype), params)
    layer = _layer
    if "remat" in mode:
        layer = jax.checkpoint(_layer)
    if "dots" in mode:
        layer = jax.checkpoint(_layer, policy=jax.checkpoint_policies.dots_saveable)
    x = p["embed"][tokens]
    if "scan" in mode:
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *p["layers"])
        x, _ = lax.scan(lambda carry, weights: (layer(carry, weights), None), x, stacked)
    else:
        for weights in p["layers"]:
            x = layer(x, weights)
    logits = (_rms_norm(x, p["norm"]) @ p["head"]).astype(jnp.float32)
    log_probs = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(log_probs, targets[..., None], -1))


def _llama_step(mode: str, dtype: Any) -> Lowered:
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))

    def step(params: Params, state: Any, tokens: Array, targets: Array) -> Any:
        loss, grads = jax.value_and_grad(_loss)(params, tokens, targets, mode, dtype)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    params = jax.eval_shape(_init, jax.random.key(0))
    state = jax.eval_shape(optimizer.init, params)
    tokens = _spec(BATCH, LENGTH, dtype=jnp.int32)
    return jax.jit(step, donate_argnums=(0, 1)).lower(params, state, tokens, tokens)


for _name, _mode, _dtype in [
    ("llama_f32", "", jnp.float32),
    ("llama_bf16", "", jnp.bfloat16),
    ("llama_scan", "scan", jnp.float32),
    ("llama_scan_remat", "scan remat", jnp.float32),
    ("llama_dots_saveable", "dots", jnp.float32),
]:
    PROGRAMS[_name] = functools.partial(_llama_step, _mode, _dtype)


# --- Families of ops ------------------------------------------------------------------------------


@_program
def unary() -> Lowered:
    """Every unary op that JAX can lower, on floats, integers and complex numbers."""

    def f(x: Array, i: Array, z: Array) -> list[Array]:
        floats = [
            lax.abs, lax.cbrt, lax.ceil, lax.cos, lax.exp, lax.expm1, lax.floor, lax.is_finite,
            lax.log, lax.log1p, lax.logistic, lax.neg, lax.round, lax.rsqrt, lax.sign, lax.sin,
            lax.sqrt, lax.tan, lax.tanh, lax.erf, lax.erfc, lax.erf_inv, lax.lgamma, lax.digamma,
            lax.asin, lax.acos, lax.atan, lax.sinh, lax.cosh, lax.asinh, lax.acosh, lax.atanh,
            lax.bessel_i1e, lax.square,
        ]  # fmt: skip
        even = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
        ints = [lax.clz, lax.population_count, lax.bitwise_not, lax.abs, lax.neg, lax.sign]
        complexes = [lax.real, lax.imag, lax.abs, lax.conj, lax.exp]
        return (
            [even, lax.reduce_precision(x, 5, 10), lax.bitcast_convert_type(x, jnp.int32)]
            + [op(x) for op in floats]
            + [op(i) for op in ints]
            + [op(z) for op in complexes]
            + [x.astype(jnp.bfloat16), i.astype(bool), lax.bitcast_convert_type(i, jnp.uint8)]
        )

    return jax.jit(f).lower(_spec(4), _spec(4, dtype=jnp.int32), _spec(4, dtype=jnp.complex64))


@_program
def binary() -> Lowered:
    """Binary and ternary ops, on floats, integers, predicates and complex numbers."""

    def f(x: Array, y: Array, i: Array, u: Array, p: Array) -> list[Array]:
        return [
            *[op(x, y) for op in (lax.add, lax.sub, lax.mul, lax.div, lax.max, lax.min, lax.pow,
                                  lax.rem, lax.atan2, lax.complex, lax.nextafter)],
            *[op(i, i) for op in (lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor,
                                  lax.shift_left, lax.shift_right_arithmetic,
                                  lax.shift_right_logical)],
            *[op(x, y) for op in (lax.eq, lax.ne, lax.ge, lax.gt, lax.le, lax.lt)],
            lax.lt(i, i), lax.lt(u, u), lax.eq(p, p), lax.eq(x + 1j, y + 2j),
            lax.clamp(0.0, x, 1.0), lax.clamp(x, y, x), lax.select(p, x, y),
            lax.select(p[0], x, y), jnp.where(p, x, -jnp.inf), lax.integer_pow(x, 3),
        ]  # fmt: skip

    return jax.jit(f).lower(
        _spec(4),
        _spec(4),
        _spec(4, dtype=jnp.int32),
        _spec(4, dtype=jnp.uint32),
        _spec(4, dtype=jnp.bool_),
    )


@_program
def constants() -> Lowered:
    """Splats, lists, large constants, infinities, predicates and complex numbers."""

    def f() -> list[Array]:
        large = np.arange(256, dtype=np.float32).reshape(16, 16)
        return [
            jnp.asarray(large), jnp.float32(jnp.inf), jnp.float32(jnp.nan), jnp.arange(3),
            jnp.asarray(1j), jnp.asarray([True, False]), jnp.asarray([1.5, 2], jnp.bfloat16),
            jnp.zeros((2, 3)), jnp.asarray([1, 2], jnp.uint8),
            jnp.asarray([1, 2], jnp.float8_e4m3fn), jnp.zeros((0, 2)), jnp.eye(3),
            jnp.asarray(np.tri(8, 8, dtype=bool)),
        ]  # fmt: skip

    return jax.jit(f).lower()


@_program
def shapes() -> Lowered:
    """Ops that move elements: slices with strides, negative padding, 0-d and empty lists."""

    def f(x: Array, s: Array) -> list[Array]:
        return [
            x[1:3, ::2], lax.pad(x, s, [(1, -1, 0), (0, 2, 3)]), lax.rev(x, (0,)), x.T,
            lax.broadcast_in_dim(s, (2, 2), ()), x.reshape(-1), jnp.concatenate([x, x, x], 1),
            lax.broadcast(x, (2,)), lax.slice(s, (), ()), jnp.tile(x, (2, 2)),
            lax.iota(jnp.int32, 5), lax.broadcasted_iota(jnp.float32, (3, 4), 1),
            lax.rev(x, ()), jnp.roll(x, 3, 0), lax.split(x, [1, 3], 0)[1],
        ]  # fmt: skip

    return jax.jit(f).lower(_spec(4, 6), _spec())


@_program
def dots() -> Lowered:
    """dot_general with every optional part: batch, precision, algorithm, f8 operands."""

    def f(a: Array, b: Array, q: Array, k: Array) -> list[Array]:
        algorithm = lax.DotAlgorithmPreset.BF16_BF16_F32_X3
        return [
            a @ b, jnp.matmul(a, b, precision="highest"), lax.dot(a, b, precision=algorithm),
            jnp.einsum("bij,bkj->bik", q, q), jnp.outer(a[0], b[:, 0]), jnp.vdot(a[0], b[:, 0]),
            lax.dot_general(k, k, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32),
        ]  # fmt: skip

    return jax.jit(f).lower(
        _spec(3, 4), _spec(4, 5), _spec(2, 3, 4), _spec(3, 4, dtype=jnp.float8_e4m3fn)
    )


@_program
def reductions() -> Lowered:
    """reduce in its compact and region forms, windows, cumulative ops and pooling gradients."""

    def pool(x: Array) -> Array:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID").sum()

    def f(x: Array, i: Array, p: Array) -> list[Array]:
        return [
            x.sum(), x.max(-1), x.prod(0), jnp.any(p), jnp.all(p, 0), jnp.argmax(x, -1),
            jnp.argmin(i), jnp.cumsum(x, 0), lax.cummax(x, 1), jax.grad(pool)(x[None])[0],
            lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "SAME"), jnp.std(x),
            lax.reduce((x, x), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,))[1],
            jax.nn.logsumexp(x, -1), lax.reduce_xor(i, (0,)), jnp.median(x),
        ]  # fmt: skip

    return jax.jit(f).lower(_spec(4, 6), _spec(4, dtype=jnp.int32), _spec(4, 6, dtype=jnp.bool_))


@_program
def indexing() -> Lowered:
    """gather, scatter in its variants, dynamic slices, sort, top_k and one-hot."""

    def f(x: Array, i: Array, s: Array) -> list[Any]:
        return [
            x[i], x[i, i], jnp.take_along_axis(x, i[:, None], 1), x.at[i].add(1.0),
            x.at[i].set(2.0), x.at[i].max(x[0]), x.at[1:3, i].mul(3.0),
            lax.dynamic_slice(x, (s, 0), (2, 3)), lax.dynamic_update_slice(x, x[:2], (s, s)),
            lax.dynamic_index_in_dim(x, s), jnp.sort(x, 0), jnp.argsort(x[0]), jnp.argsort(i),
            jnp.sort(x, 1, stable=False), lax.top_k(x, 2), jax.nn.one_hot(i, 6), jnp.take(x, i, 1),
            lax.sort((i, i, i), num_keys=2), jnp.searchsorted(x[0], x[1]),
            jnp.bincount(i, length=4),
            jax.grad(lambda y: jnp.take_along_axis(y, i[:, None], 1).sum())(x),
            lax.sort_key_val(i, i),
        ]  # fmt: skip

    return jax.jit(f).lower(_spec(4, 6), _spec(4, dtype=jnp.int32), _spec(dtype=jnp.int32))


@_program
def control() -> Lowered:
    """cond, switch, while, fori, map, remat barriers and nested loops."""

    def f(x: Array, i: Array) -> list[Any]:
        return [
            lax.cond(i > 0, jnp.sin, jnp.cos, x), lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x),
            lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (i, x)),
            lax.fori_loop(0, 3, lambda k, c: lax.fori_loop(0, k, lambda _, d: d + 1, c), x),
            lax.map(jnp.exp, x), lax.optimization_barrier((x, i)),
            lax.associative_scan(jnp.add, x),
            lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
        ]  # fmt: skip

    return jax.jit(f).lower(_spec(4), _spec(dtype=jnp.int32))


@_program
def convolutions() -> Lowered:
    """Convolutions with strides, groups, dilation, and their gradients."""

    def conv(x: Array, w: Array, **kwargs: Any) -> Array:
        return lax.conv_general_dilated(
            x, w, dimension_numbers=("NHWC", "HWIO", "NHWC"), **kwargs
        ).sum()

    def f(x: Array, w: Array, g: Array) -> list[Any]:
        return [
            conv(x, w, window_strides=(1, 1), padding="SAME"),
            conv(x, w, window_strides=(2, 1), padding="VALID", rhs_dilation=(2, 1)),
            conv(x, g, window_strides=(1, 1), padding="SAME", feature_group_count=2),
            conv(x, w, window_strides=(1, 1), padding="VALID", precision="highest"),
            jax.grad(conv, (0, 1))(x, w, window_strides=(2, 2), padding="SAME"),
            jnp.convolve(x[0, 0, :, 0], w[0, 0, :, 0], precision="high"),
        ]

    return jax.jit(f).lower(_spec(2, 8, 8, 4), _spec(3, 3, 4, 8), _spec(3, 3, 2, 8))


@_program
def random() -> Lowered:
    """threefry, rbg, and the distributions over them."""

    def f(key: Array, rbg: Array) -> list[Array]:
        other = jax.random.wrap_key_data(rbg, impl="rbg")
        return [
            jax.random.normal(key, (3,)), jax.random.bernoulli(key, 0.5, (3,)),
            jax.random.bits(other, (3,)), jax.random.randint(key, (3,), 0, 5),
            jax.random.categorical(key, jnp.zeros((2, 3))), jax.random.permutation(key, 4),
            jax.random.truncated_normal(key, -2.0, 2.0, (3,)),
        ]  # fmt: skip

    key = jax.eval_shape(lambda: jax.random.key(0))
    return jax.jit(f).lower(key, _spec(4, dtype=jnp.uint32))


@_program
def linear_algebra() -> Lowered:
    """fft, and decompositions, which are custom calls on the CPU."""

    def f(x: Array) -> list[Any]:
        return [
            jnp.fft.rfft(x), jnp.fft.irfft(jnp.fft.rfft(x)), jnp.fft.fft2(x + 0j),
            jnp.linalg.cholesky(x), jnp.linalg.solve(x, x), jnp.linalg.qr(x), jnp.linalg.eigh(x),
        ]  # fmt: skip

    return jax.jit(f).lower(_spec(4, 4))


@_program
def linear_algebra_portable() -> Lowered:
    """cholesky and triangular_solve as ops of the dialect."""

    def f(x: Array) -> list[Array]:
        lower = lax.linalg.cholesky(x)
        return [lower, lax.linalg.triangular_solve(lower, x, left_side=True, lower=True)]

    return jax.jit(f).trace(_spec(4, 4)).lower(lowering_platforms=("tpu",))


@_program
def composites() -> Lowered:
    """lax.composite, which calls a function by name."""

    @functools.partial(lax.composite, name="my.square_plus", version=1)
    def square_plus(x: Array, *, k: Any) -> Array:
        return x * x + k

    return jax.jit(lambda x: square_plus(x, k=3)).lower(_spec(4))


@_program
def ragged_dot() -> Lowered:
    """chlo.ragged_dot, which the CPU lowering expands and others keep."""
    traced = jax.jit(lax.ragged_dot).trace(_spec(8, 4), _spec(3, 4, 5), _spec(3, dtype=jnp.int32))
    return traced.lower(lowering_platforms=("cuda",))


@_program
def batch_norm() -> Lowered:
    """Statistics over three dimensions, as a network's batch normalisation writes them."""

    def f(x: Array, scale: Array) -> Array:
        mean = x.mean((0, 1, 2))
        var = jnp.var(x, (0, 1, 2))
        return jnp.sum((x - mean) * lax.rsqrt(var + 1e-5) * scale)

    return jax.jit(jax.grad(f, (0, 1))).lower(_spec(2, 4, 4, 3), _spec(3))


# Lowering needs no devices, so an abstract mesh does on any machine.
_MESH = AbstractMesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))


@_program
def sharded_matmul() -> Lowered:
    """Shardings on arguments and results, and a sharding constraint."""

    def f(x: Array, w: Array) -> Array:
        y = lax.with_sharding_constraint(x @ w, NamedSharding(_MESH, P("data", None)))
        return jax.nn.relu(y)

    shardings = (NamedSharding(_MESH, P("data", None)), NamedSharding(_MESH, P(None, "model")))
    traced = jax.jit(f, in_shardings=shardings).trace(_spec(4, 8), _spec(8, 4))
    return traced.lower(lowering_platforms=("cpu",))


@_program
def shard_map() -> Lowered:
    """Every collective, inside sdy.manual_computation."""

    def f(x: Array, w: Array) -> list[Array]:
        y = x @ lax.all_gather(w, "model", axis=1, tiled=True)
        return [
            lax.psum(y, "data"), lax.pmax(y, "model"), lax.pmean(jax.nn.relu(y), ("data", "model")),
            lax.psum_scatter(y, "model", scatter_dimension=1, tiled=True),
            lax.ppermute(y, "data", [(0, 1), (1, 0)]), lax.all_to_all(y, "model", 0, 0, tiled=True),
            y + lax.axis_index("data"),
        ]  # fmt: skip

    specs = (P("data", None), P(None, "model"))
    mapped = jax.shard_map(f, mesh=_MESH, in_specs=specs, out_specs=P(), check_vma=False)
    traced = jax.jit(mapped).trace(_spec(4, 8), _spec(8, 4))
    return traced.lower(lowering_platforms=("cpu",))
