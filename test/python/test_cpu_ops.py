"""The CPU target, one family of ops after the other, against jax.jit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cpu_run import check, compile_text, compiled
from jax import lax

import scalify
from scalify import errors

RNG = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def ints(low: int, high: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
    return RNG.integers(low, high, size=shape).astype(dtype)


# Elementwise -----------------------------------------------------------------------------------

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.5, 1e-30, -1e-30, 1e30]
EDGES += [np.inf, -np.inf, np.nan, 0.49999997, 88.0, -87.0, 100.0, -104.0]
POINTS = np.concatenate([EDGES, normal(1000) * 3, np.exp(normal(300) * 5)]).astype(np.float32)

UNARY: dict[str, tuple[Callable[..., Any], float]] = {
    "abs": (jnp.abs, 0),
    "ceil": (jnp.ceil, 0),
    "exp": (jnp.exp, 3e-7),
    "expm1": (jnp.expm1, 1e-6),
    "floor": (jnp.floor, 0),
    "isfinite": (jnp.isfinite, 0),
    "log": (jnp.log, 3e-7),
    "log1p": (jnp.log1p, 1e-6),
    "logistic": (jax.nn.sigmoid, 1e-6),
    "neg": (jnp.negative, 0),
    "round": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), 0),
    "round_even": (jnp.round, 0),
    "rsqrt": (lax.rsqrt, 3e-7),
    "sign": (jnp.sign, 0),
    "sqrt": (jnp.sqrt, 2e-7),
    "tanh": (jnp.tanh, 1e-6),
    "erf": (lax.erf, 1e-6),
    "cbrt": (jnp.cbrt, 1e-6),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 7), 0),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    fn, rtol = UNARY[name]
    points = POINTS
    if name in ("reduce_precision", "rsqrt", "log", "expm1", "log1p", "exp", "sqrt"):
        points = np.where(np.abs(POINTS) < 1e-37, 0, POINTS)  # XLA flushes subnormals here
    check(fn, points, rtol=max(rtol, 1e-30), atol=1e-37 if rtol else 0)


def test_exponentials_are_within_a_unit_in_the_last_place() -> None:
    """Where results are subnormal too, which XLA flushes; and where they end in 0 or infinity."""
    x = np.concatenate(
        [
            np.linspace(-105, -86, 400_001),
            np.linspace(-86, 88.8, 400_001),
            [-np.inf, -3e38, 88.72283, 88.72284, 89.0, 3e38, np.inf, np.nan, 0.0, 1e-45],
        ],
        axis=None,
    ).astype(np.float32)
    (got,) = compiled(jnp.exp, [x]).run([x])
    with np.errstate(over="ignore"):
        want = np.exp(x.astype(np.float64)).astype(np.float32)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    # As integers, neighbours differ by one; infinity follows the largest number.
    apart = np.abs(got.view(np.int32).astype(np.int64) - want.view(np.int32).astype(np.int64))
    assert apart[~np.isnan(want)].max() <= 1


@pytest.mark.parametrize("fn", [np.sin, np.cos])
def test_trigonometry_keeps_large_angles(fn: Any) -> None:
    x = np.concatenate([np.linspace(-1e5, 1e5, 4001), normal(1000) * 10, [0.0]])
    x = x.astype(np.float32)
    exe = compiled(getattr(jnp, fn.__name__), [x])
    (got,) = exe.run([x])
    np.testing.assert_allclose(got, fn(x.astype(np.float64)), atol=1.2e-7)
    (huge,) = exe.run([np.full_like(x, 1e30)])
    assert np.all(np.abs(huge) <= 1)


def test_power() -> None:
    x = np.array([0, 1, -1, 2, -2, 0.5, np.inf, -np.inf, np.nan, 0.9, 0.999, 10000], np.float32)
    y = np.array([0, 1, -1, 2, 3, -3, 0.5, 1000, np.inf, np.nan, 1234], np.float32)
    x, y = (a.ravel() for a in np.meshgrid(x, y))
    keep = ~(np.isinf(y) & (np.abs(x) <= 1))
    (got,) = compiled(jnp.power, [x[keep], y[keep]]).run([x[keep], y[keep]])
    with np.errstate(all="ignore"):
        want = np.power(x[keep].astype(np.float64), y[keep].astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=2e-7)


BINARY = [jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum, jnp.minimum, lax.rem]


@pytest.mark.parametrize("fn", BINARY)
def test_binary_f32(fn: Any) -> None:
    x, y = (a.ravel() for a in np.meshgrid(POINTS[:40], POINTS[:40]))
    x, y = (np.where(np.abs(a) < 1e-37, 0, a).astype(np.float32) for a in (x, y))
    if fn is lax.rem:
        with np.errstate(all="ignore"):
            big = np.abs(x / y) > 1e8  # remainders of huge quotients
        x, y = x[~(big & np.isfinite(x))], y[~(big & np.isfinite(x))]
    check(fn, x, y, rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint32])
@pytest.mark.parametrize(
    "fn",
    [
        lax.add,
        lax.sub,
        lax.mul,
        lax.div,
        lax.rem,
        lax.max,
        lax.bitwise_xor,
        lax.shift_left,
        lax.shift_right_logical,
        lax.shift_right_arithmetic,
    ],
)
def test_binary_int(fn: Any, dtype: Any) -> None:
    with jax.enable_x64(dtype == np.int64):
        low = 0 if dtype == np.uint32 else -100
        x, y = ints(low, 100, 333, dtype=dtype), ints(low, 40, 333, dtype=dtype)
        y[:3] = 0
        check(fn, x, y)


@pytest.mark.parametrize("op", ["equal", "not_equal", "less", "less_equal", "greater"])
def test_compare_select(op: str) -> None:
    def fn(x: Any, y: Any, i: Any, j: Any) -> Any:
        compare = getattr(jnp, op)
        return compare(x, y), jnp.where(compare(i, j), x, y), jnp.where(compare(x, y), i, j)

    x = normal(300).round(1)
    x[:2] = np.nan
    check(fn, x, normal(300).round(1), ints(-5, 5, 300), ints(-5, 5, 300), exact=True)


def test_clamp_and_scalars() -> None:
    check(lambda x: (jnp.clip(x, -0.5, 0.5), lax.clamp(-1.0, x, 2.0)), normal(4, 33), exact=True)


NARROW = [jnp.bfloat16, jnp.float16, jnp.float8_e4m3fn, jnp.float8_e5m2]


@pytest.mark.parametrize("dtype", NARROW)
def test_convert_from_f32(dtype: Any) -> None:
    x = np.concatenate([RNG.integers(0, 2**32, 100000, dtype=np.uint32).view(np.float32), POINTS])
    (got,) = compiled(lambda v: v.astype(dtype), [x]).run([x])
    with np.errstate(all="ignore"):
        want = x.astype(dtype)
    nan = np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), nan)
    bits = np.uint8 if want.itemsize == 1 else np.uint16
    np.testing.assert_array_equal(got.view(bits)[~nan], want.view(bits)[~nan])


@pytest.mark.parametrize("dtype", NARROW)
def test_convert_to_f32(dtype: Any) -> None:
    bits = np.uint8 if np.dtype(dtype).itemsize == 1 else np.uint16
    x = np.arange(2 ** (8 * np.dtype(dtype).itemsize), dtype=np.uint32).astype(bits).view(dtype)
    (got,) = compiled(lambda v: v.astype(jnp.float32), [x]).run([x])
    np.testing.assert_array_equal(got, x.astype(np.float32))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_narrow_arithmetic(dtype: Any) -> None:
    def fn(x: Any, y: Any) -> Any:
        return x + y, x * y - x, jnp.exp(x), jnp.tanh(y).astype(jnp.float32), x > y

    check(fn, normal(257).astype(dtype), normal(257).astype(dtype), rtol=1e-2, atol=1e-2)


def test_convert_integers() -> None:
    def fn(x: Any, i: Any, b: Any) -> Any:
        return (
            x.astype(jnp.int32),
            x.astype(jnp.uint8),
            i.astype(jnp.float32),
            b.astype(jnp.float32),
            i.astype(jnp.int8),
            (i > 0).astype(jnp.int32),
            i != 0,
        )

    x = normal(200) * 100
    x = np.abs(x)
    check(fn, x, ints(-1000, 1000, 200), ints(0, 2, 200).astype(bool))


def test_bitcast() -> None:
    def fn(x: Any, i: Any) -> Any:
        return (
            lax.bitcast_convert_type(x, jnp.int32),
            lax.bitcast_convert_type(i, jnp.float32),
            lax.population_count(i),
            lax.clz(i),
        )

    check(fn, normal(77), ints(0, 2**31 - 1, 77), exact=True)


# Shapes ----------------------------------------------------------------------------------------

SHAPES: dict[str, Callable[..., Any]] = {
    "broadcast": lambda x: x[:, None, :] + x[None, :, :] * 2,
    "reshape": lambda x: (x * 2).reshape(10, 6) + 1,
    "reshape_uneven": lambda x: x.reshape(4, 15)[:, :, None] + x.reshape(4, 15, 1),
    "transpose": lambda x: x.T * 3,
    "transpose3": lambda x: x.reshape(3, 4, 5).transpose(1, 2, 0) + 1,
    "slice": lambda x: x[1:4, 2:9:3] * 2,
    "reverse": lambda x: x[::-1, ::-1] + x,
    "pad": lambda x: jnp.pad(x, ((1, 2), (3, 0)), constant_values=7),
    "pad_interior": lambda x: lax.pad(x, jnp.float32(-1), ((1, 0, 2), (0, 1, 1))),
    "pad_negative": lambda x: lax.pad(x, jnp.float32(0), ((-1, 1, 0), (2, -3, 0))),
    "concat0": lambda x: jnp.concatenate([x, x * 2, -x[:2]], 0),
    "concat1": lambda x: jnp.concatenate([x[:, 5:], -x[:, :5]], 1) * x,
    "concat_flat": lambda x: jnp.concatenate([x.ravel(), x.ravel()[:7]]),
    "iota": lambda x: x + lax.broadcasted_iota(jnp.float32, x.shape, 1) * jnp.arange(6.0)[:, None],
    "tril": lambda x: jnp.where(jnp.tril(jnp.ones((6, 10), bool)), x, -jnp.inf),
    "stack": lambda x: jnp.stack([x, x + 1], -1),
    "pads_added": lambda x: (
        jnp.pad(x[:, :5], ((0, 0), (0, 5))) + jnp.pad(x[:, 5:], ((0, 0), (5, 0)))
    ),
    "empty_rank": lambda x: x[0, 0] * 2 + x[1, 1],
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    check(SHAPES[name], normal(6, 10), rtol=1e-7)


def test_empty_tensors() -> None:
    check(
        lambda x: (x[:0], x[:0].sum(), jnp.zeros((0, 3)), jnp.concatenate([x[:0], x])),
        normal(4, 6),
    )


def test_constants() -> None:
    def fn(x: Any) -> Any:
        table = np.arange(12, dtype=np.float32).reshape(6, 2)
        return jnp.ones((4, 4)), jnp.arange(5), x, x @ table, np.float32([1.5, 2.5]) * 2

    check(fn, normal(4, 6), rtol=1e-5, atol=1e-5)


def test_large_concat_and_rope() -> None:
    def rope(q: Any, cos: Any, sin: Any) -> Any:
        a, b = jnp.split(q, 2, -1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    check(rope, normal(2, 16, 4, 64), normal(16, 1, 32), normal(16, 1, 32), rtol=1e-5)
    check(
        jax.grad(lambda *a: rope(*a).sum()),
        normal(2, 16, 4, 64),
        normal(16, 1, 32),
        normal(16, 1, 32),
        rtol=1e-5,
    )


def test_results_that_are_arguments_or_shared() -> None:
    check(lambda x, y: (y, x, x + y, x + y, x.reshape(-1)), normal(4, 5), normal(4, 5))


# Reductions ------------------------------------------------------------------------------------

REDUCE: dict[str, Callable[..., Any]] = {
    "sum_rows": lambda x: x.sum(1),
    "sum_cols": lambda x: x.sum(0),
    "sum_all": lambda x: x.sum(),
    "max_rows": lambda x: x.max(1),
    "min_cols": lambda x: x.min(0),
    "prod": lambda x: (x * 0.01 + 1).prod(1),
    "any": lambda x: (x > 2.5).any(1),
    "all": lambda x: (x > -2.0).all(0),
    "argmax": lambda x: x.argmax(1),
    "argmin0": lambda x: x.argmin(0),
    "mean_var": lambda x: (x.mean(1), x.var(1)),
    "softmax": lambda x: jax.nn.softmax(x, -1),
    "softmax0": lambda x: jax.nn.softmax(x, 0),
    "logsumexp": lambda x: jax.nn.logsumexp(x, -1),
    "rmsnorm": lambda x: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6),
    "layernorm": lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True)),
    "sum_and_rows": lambda x: (x * 2, (x * 2).sum(1)),
    "mixed": lambda x: x.reshape(x.shape[0], 4, -1).sum((0, 2)),
    "middle": lambda x: x.reshape(x.shape[0], 4, -1).sum(1),
    "norm": lambda x: jnp.sqrt((x * x).sum()) + x.max(),
    "cumulative": lambda x: x[:, :-1].sum(1) / x[:, 1:].max(1),
}


@pytest.mark.parametrize("shape", [(37, 52), (256, 512), (3, 20)])
@pytest.mark.parametrize("name", REDUCE)
def test_reduce(name: str, shape: tuple[int, int]) -> None:
    check(REDUCE[name], normal(*shape), rtol=2e-5, atol=2e-5)


def test_large_sum_is_accurate() -> None:
    x = np.abs(normal(1024, 1024))
    (got,) = compiled(lambda v: v.sum(), [x]).run([x])
    np.testing.assert_allclose(got, x.astype(np.float64).sum(), rtol=2e-7)


# Dots ------------------------------------------------------------------------------------------

DOTS = [
    ("ij,jk->ik", (33, 20), (20, 17)),
    ("ji,jk->ik", (20, 33), (20, 17)),
    ("ij,kj->ik", (33, 20), (17, 20)),
    ("ij,jk->ki", (33, 20), (20, 17)),
    ("bij,bjk->bik", (3, 8, 9), (3, 9, 5)),
    ("bthd,bshd->bhts", (2, 7, 3, 8), (2, 6, 3, 8)),
    ("bhts,bshd->bthd", (2, 3, 7, 6), (2, 6, 3, 8)),
    ("btd,df->btf", (2, 7, 8), (8, 5)),
    ("btf,df->btd", (2, 7, 5), (8, 5)),
    ("btd,btf->df", (2, 7, 8), (2, 7, 5)),
    ("i,i->", (50,), (50,)),
    ("ij,j->i", (9, 50), (50,)),
    ("i,j->ij", (9,), (50,)),
    ("abc,dcb->ad", (3, 4, 5), (6, 5, 4)),
    ("bkgd,bskd->bkgs", (2, 3, 4, 8), (2, 6, 3, 8)),
]


@pytest.mark.parametrize("spec, a, b", DOTS)
def test_dot(spec: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check(functools.partial(jnp.einsum, spec), normal(*a), normal(*b), rtol=1e-5, atol=1e-5)


def test_dot_between_elementwise() -> None:
    def fn(x: Any, w: Any, v: Any) -> Any:
        h = jax.nn.silu((x * 2) @ w.T) * 0.25
        return (h @ v.T / 8.0).T + 1, h

    check(fn, normal(16, 24), normal(40, 24), normal(12, 40), rtol=1e-5, atol=1e-5)


def test_dot_of_slices() -> None:
    def fn(x: Any, w: Any) -> Any:
        q, k, v = jnp.split(x @ w, 3, -1)
        return q @ k.T, jnp.tril(q @ k.T) @ v

    # Weights of a gain of one. With those of unit size what cancels, |q| |k|^T |v|, adds up to
    # 29,000, and one rounding of that, ours or XLA's, is more than the tolerance.
    check(fn, normal(16, 24), 24**-0.5 * normal(24, 48), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.int32])
def test_dot_narrow(dtype: Any) -> None:
    x, y = normal(8, 32) * 4, normal(32, 8) * 4
    check(lambda a, b: (a @ b, (a + a) @ b), x.astype(dtype), y.astype(dtype), rtol=2e-2, atol=0.1)


# Indexing --------------------------------------------------------------------------------------


def test_gather() -> None:
    def fn(table: Any, i: Any) -> Any:
        return table[i], table[i, 2], table[:, i % 8], jnp.take(table, i, axis=0)

    check(fn, normal(20, 8), ints(0, 20, 5, 3), exact=True)


def test_take_along_axis() -> None:
    def fn(x: Any, i: Any) -> Any:
        return jnp.take_along_axis(x, i[:, None], 1), jnp.take_along_axis(x, i[:, None] % 4, 0)

    check(fn, normal(9, 40), ints(0, 40, 9), exact=True)


def test_scatter() -> None:
    def fn(x: Any, i: Any, u: Any) -> Any:
        return (
            x.at[i].add(u),
            x.at[i].set(0),
            x.at[i, 1].max(3.0),
            x.at[i].multiply(2.0),
            jnp.zeros_like(x).at[i].add(u * 2),
        )

    check(fn, normal(20, 8), np.unique(ints(0, 20, 9)), normal(1, 8), rtol=1e-6)


def test_scatter_add_duplicates_and_out_of_range() -> None:
    i = ints(-30, 30, 200)
    check(
        lambda x, i, u: x.at[i].add(u, mode="drop"),
        normal(20, 16),
        i,
        normal(200, 16),
        rtol=1e-5,
        atol=1e-5,
    )


def test_gradient_of_labels() -> None:
    """One element per row, by selects; labels outside the row have no gradient."""

    def loss(x: Any, label: Any, g: Any) -> Any:
        taken = jnp.take_along_axis(x, label[..., None], -1, mode="fill", fill_value=0.0)
        return (taken[..., 0] * g).sum() + jnp.square(x).sum()

    label = np.array([[0, 39, 5], [40, -1, -41], [7, 7, 100]], np.int32)
    check(jax.grad(loss), normal(3, 3, 40), label, normal(3, 3), exact=True)


def test_reversed_reads_of_reshaped_rows() -> None:
    """Indices that run backwards through rows whose length differs from the result's."""
    for shape in ((4, 14), (2, 28), (14, 4), (56,)):
        check(
            lambda m, g: jnp.flip(m.reshape(8, 7) + g.T),
            normal(*shape),
            normal(7, 8),
            exact=True,
        )


def test_embedding_gradient() -> None:
    def loss(table: Any, i: Any, w: Any) -> Any:
        return (jnp.tanh(table[i]) * w).sum()

    check(
        jax.grad(loss), normal(50, 32), ints(0, 50, 4, 16), normal(4, 16, 32), rtol=1e-5, atol=1e-5
    )


def test_dynamic_slice() -> None:
    def fn(x: Any, u: Any, i: Any) -> Any:
        return (
            lax.dynamic_slice(x, (i, 3), (4, 5)),
            lax.dynamic_update_slice(x, u, (i, i)),
            lax.dynamic_update_slice(x, x[:2], (i, 0)),
        )

    for i in (0, 5, 100, -3):
        check(fn, normal(12, 20), normal(3, 4), np.int32(i), exact=True)


# Programs --------------------------------------------------------------------------------------


def test_cross_entropy_step() -> None:
    def loss(w: Any, x: Any, y: Any) -> Any:
        logits = jnp.tanh(x @ w[0]) @ w[1]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    def step(w: Any, x: Any, y: Any) -> Any:
        value, grad = jax.value_and_grad(loss)(w, x, y)
        return jax.tree.map(lambda a, g: a - 0.1 * g, w, grad), value

    w = (normal(24, 48) * 0.2, normal(48, 10) * 0.2)
    check(step, w, normal(64, 24), ints(0, 10, 64), rtol=1e-5, atol=1e-6)


def test_donated_arguments_are_updated_in_place() -> None:
    def step(w: Any, m: Any, x: Any) -> Any:
        g = x.T @ (x @ w)
        m = 0.9 * m + g
        return w - 0.1 * m, m, (w * w).sum()

    w, m, x = normal(32, 16), normal(32, 16), normal(8, 32)
    text = jax.jit(step, donate_argnums=(0, 1)).lower(w, m, x).as_text(debug_info=True)
    got = compile_text(text).run([w, m, x])
    for g, e in zip(got, jax.jit(step)(w, m, x), strict=True):
        np.testing.assert_allclose(np.asarray(g), e, rtol=1e-5, atol=1e-5)


def test_swapped_donations() -> None:
    text = (
        jax.jit(lambda a, b: (b, a + 0, a * b), donate_argnums=(0, 1))
        .lower(*(np.zeros(4, np.float32),) * 2)
        .as_text()
    )
    a, b = normal(4), normal(4)
    got = compile_text(text).run([a, b])
    for g, e in zip(got, (b, a, a * b), strict=True):
        np.testing.assert_array_equal(np.asarray(g), e)


def test_unsupported_op_is_named() -> None:
    with pytest.raises(
        errors.CompileError, match=r"test_cpu_ops.*'stablehlo.rng' op not in the CPU"
    ):
        compiled(lambda x: lax.rng_uniform(x, 1 + x, (3,)), [np.float32(1)])


# Bits do not say which ops share a kernel --------------------------------------------------------


def run(fn: Callable[..., Any], *args: Any) -> list[np.ndarray]:
    return [np.asarray(result) for result in compiled(fn, args).run(list(args))]


def test_products_are_rounded_before_they_are_summed() -> None:
    x, y, z = normal(33, 21), normal(33, 21), normal(33, 21)
    (total,) = run(lambda x, y, z: x * y + z, x, y, z)
    np.testing.assert_array_equal(total, x * y + z)


@pytest.mark.parametrize("columns", [3, 16, 21, 40])
def test_a_sum_over_rows_goes_from_the_first_to_the_last(columns: int) -> None:
    x = normal(70, columns)
    (total,) = run(lambda x: x.sum(0), x)
    np.testing.assert_array_equal(total, np.cumsum(x, axis=0, dtype=np.float32)[-1])


def test_a_sum_along_rows_has_one_order() -> None:
    x, y = normal(16, 45), normal(60, 16)
    (alone,) = run(lambda x: x.sum(1), x)
    (shared,) = run(lambda x, y: y * x.sum(1), x, y)
    np.testing.assert_array_equal(shared, y * alone)
    beside, _ = run(lambda x, y: (x.sum(1), jnp.exp(x).sum(1)), x, y)
    np.testing.assert_array_equal(beside, alone)


@pytest.mark.parametrize("columns", [4, 7, 16, 33, 70])
def test_a_sum_along_rows_has_one_order_inside_of_another_sum(columns: int) -> None:
    """There the lanes are along the other sum, one row per lane."""
    x = normal(96, columns) * normal(96, 1)
    rows = run(lambda x: (x * x).sum(1), x)[0]
    (apart,) = run(lambda rows: rows.sum(), rows)
    (total,) = run(lambda x: (x * x).sum(1).sum(), x)
    assert total == apart


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_gradients_in_16_bits_are_rounded_after_each_op(dtype: Any) -> None:
    """`jax.jit` keeps excess precision between ops, and rounds each partial sum of a bias."""
    rng = np.random.default_rng(0)
    w, v = (rng.normal(size=(16, 16)).astype(dtype) / 4 for _ in range(2))
    x, bias = rng.normal(size=(48, 16)).astype(dtype), np.zeros(16, dtype)

    def loss(w: Any, bias: Any) -> Any:
        return jnp.mean(jnp.square((jnp.tanh(x @ w + bias) @ v).astype(jnp.float32)))

    def rounded(value: Any) -> np.ndarray:
        return np.asarray(value).astype(np.float32).astype(dtype).astype(np.float64)

    a, b, c = (np.asarray(each, np.float64) for each in (x, w, v))
    h = rounded(np.tanh(rounded(a @ b)))
    g = rounded(rounded(np.float32(2 / 768) * rounded(h @ c).astype(np.float32)) @ c.T)
    g = rounded(g * rounded(1 - h))
    g = rounded(g + rounded(g * h))
    found = scalify.jit(jax.grad(loss, argnums=(0, 1)), "none")(w, bias)
    for got, want in zip(found, (a.T @ g, g.sum(0)), strict=True):
        np.testing.assert_array_equal(np.asarray(got, np.float64), rounded(want))
