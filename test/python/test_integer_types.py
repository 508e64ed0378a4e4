"""Signed and unsigned integers of every width, wherever their bits are read as a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cpu_run import check, compiled
from jax import lax

import scalify

SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
TYPES = SIGNED + UNSIGNED
COLUMNS = 3


def edges(dtype: Any) -> np.ndarray:
    """Numbers about zero, the middle and both ends of the type, and where bytes end."""
    info = np.iinfo(dtype)
    near = [0, 1, 2, 3, 7, 100, 127, 128, 129, 200, 255, 256, 299, 300, 32767, 32768, 65535]
    near += [-1, -2, -3, -128, -129, info.max, info.max - 1, info.max // 2 + 1, info.min]
    return np.array([n for n in near if info.min <= n <= info.max], dtype)


def rows(dtype: Any) -> int:
    """A table's: beyond a byte without a sign, where the type holds that many."""
    return min(300, int(np.iinfo(dtype).max))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def gathers(table: Any, at: Any) -> Any:
    return (
        table[at],
        jnp.take(table, at, axis=0),
        jnp.take(table, at, axis=0, mode="clip"),
        jnp.take_along_axis(table[: at.size].T, at[None, :], 1, mode="fill"),
        lax.dynamic_slice(table, (at[3], at[0]), (4, 2)),
        jax.vmap(lambda i: lax.dynamic_slice(table, (i, i), (2, 2)))(at),
    )


def scatters(table: Any, at: Any) -> Any:
    rows = jnp.arange(1, 1 + at.size, dtype=table.dtype)[:, None] * jnp.ones((1, 3), table.dtype)
    return (
        table.at[at].add(rows),
        table.at[at].max(rows, mode="drop"),
        jnp.zeros_like(table).at[at, 1].add(rows[:, 0]),
        lax.dynamic_update_slice(table, rows[:2], (at[-1], at[0])),
        lax.dynamic_update_slice(table, rows[:2], (at[3], at[-1])),
        # Labels of a cross entropy: one element a row.
        jax.grad(lambda t: jnp.take_along_axis(t.T, at[:COLUMNS, None], 1, mode="clip").sum())(
            table
        ),
    )


def gradients(table: Any, at: Any) -> Any:
    return (
        jax.grad(lambda t: (jnp.take(t, at, axis=0, mode="clip") ** 2).sum())(table),
        jax.grad(lambda t: (jnp.take(t, at, axis=0, mode="fill", fill_value=0) ** 2).sum())(table),
    )


@pytest.mark.parametrize("fn", [gathers, scatters, gradients])
@pytest.mark.parametrize("dtype", TYPES)
def test_indices(fn: Callable[..., Any], dtype: Any) -> None:
    with jax.enable_x64(True):
        # Powers of two and small sums of them: exact in any order.
        check(fn, np.round(4 * normal(rows(dtype), COLUMNS)), edges(dtype), exact=True)


def test_every_row_of_an_embedding_has_its_gradient() -> None:
    """Tokens of a byte: read as signed, the upper half of the rows would be lost."""
    tokens = np.arange(256, dtype=np.uint8)

    def grad(table: Any, tokens: Any) -> Any:
        return jax.grad(lambda t: (jnp.take(t, tokens, axis=0) ** 2).sum())(table)

    table = normal(256, 8)
    for recipe in ("none", "fp8"):
        got = scalify.jit(grad, recipe=recipe)(table, tokens)
        np.testing.assert_array_equal(np.asarray(got), 2 * table)


def orders(x: Any) -> Any:
    y = x[::-1]
    return (
        jnp.sort(x),
        jnp.argsort(x, descending=True),
        lax.sort((x, y, jnp.arange(x.size)), num_keys=2),
        lax.top_k(x, 5),
        jnp.argmax(x),
        jnp.argmin(x),
        jnp.max(x),
        jnp.min(x),
        lax.cummax(x),
        lax.cummin(x),
        lax.reduce_window(x, np.array(np.iinfo(x.dtype).min, x.dtype), lax.max, (3,), (1,), "SAME"),
        lax.clamp(x[5], x, x[-2]),
        jnp.unique(x, size=4),
        jnp.searchsorted(jnp.sort(x), x),
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_orders(dtype: Any) -> None:
    x = edges(dtype)
    with jax.enable_x64(True):
        check(orders, x)
        check(lambda x: (jnp.sort(x), jnp.argsort(x), jnp.max(x)), np.tile(x, 7))


def sums(x: Any, y: Any) -> Any:
    return (
        jnp.sum(x),
        jnp.sum(x, dtype=x.dtype),
        jnp.prod(x[2:6], dtype=x.dtype),
        jnp.cumsum(x, dtype=x.dtype),
        jnp.bitwise_or.reduce(x),
        lax.reduce(x, np.array(-1).astype(x.dtype), lax.bitwise_and, (0,)),
        lax.reduce(x, np.array(0, x.dtype), lax.bitwise_xor, (0,)),
        (x > 3).any(),
        x @ y,
        lax.dot(x[None], y[:, None], preferred_element_type=np.int64),
        jnp.mean(x.astype(np.float64)),
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_sums(dtype: Any) -> None:
    x = edges(dtype)
    with jax.enable_x64(True):
        # F64: the mean of at most 25 numbers below 2^64 in another order.
        check(sums, x, x[::-1].copy(), rtol=1e-14)


@pytest.mark.parametrize("dtype", TYPES)
def test_ranges(dtype: Any) -> None:
    def fn(x: Any) -> Any:
        return (
            lax.iota(dtype, 400) + x,
            jnp.arange(5, dtype=dtype) * x,
            lax.iota(dtype, 400).astype(np.float32) * x.astype(np.float32),
        )

    with jax.enable_x64(True):
        check(fn, np.array(3, dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_loops_count_in_their_type(dtype: Any) -> None:
    """Up, and down from the type's last number, which XLA:CPU reads as signed."""
    # What a plan unrolls has bounds of at most 62 bits.
    last = min(int(np.iinfo(dtype).max), 2**40)

    def fn(x: Any) -> Any:
        def up(carry: Any) -> Any:
            i, total = carry
            return i + dtype(3), total + i.astype(np.float32)

        def down(carry: Any) -> Any:
            i, total = carry
            return i - dtype(1), total + 1

        return (
            *lax.while_loop(lambda c: c[0] < dtype(100), up, (dtype(0), x)),
            *lax.while_loop(lambda c: c[0] > dtype(last - 9), down, (dtype(last), x)),
        )

    with jax.enable_x64(True):
        got = compiled(fn, [np.float32(0.5)]).run([np.float32(0.5)])
    want = (102, 0.5 + sum(range(0, 100, 3)), last - 9, 9.5)
    assert [np.asarray(x).item() for x in got] == list(want)


def test_booleans_are_zero_and_one() -> None:
    def fn(table: Any, at: Any) -> Any:
        order = jnp.argsort(at)
        return (
            jnp.sort(at),
            order,
            jnp.argmax(at),
            at.astype(np.float32),
            at.astype(np.int8),
            at.astype(np.uint64),
            at < at[::-1],
            jnp.maximum(at, at[::-1]),
            jnp.cumsum(at),
            at.sum(),
            table.at[at.astype(np.uint8)].add(1.0),
            table.astype(bool),
        )

    with jax.enable_x64(True):
        check(fn, np.round(normal(2, 3)), np.array([True, False, True, True, False]))
