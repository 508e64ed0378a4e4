"""Loops of random programs: over rows, over places, nested, of a length that data choose."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from random_bodies import body_of, bounded, coarsest
from random_programs import LARGEST, Value, Writer
from random_table import addressing, fit, grown, op, pick_index


def _like(out: Any, x: Any) -> Any:
    return bounded(jnp.resize(out, x.shape), x.dtype)


@op("scan_rows")
def _scan_rows(body: Any, x: Any, other: Any, reverse: bool, last: bool) -> Any:
    """A scan over rows with two carries, each of which becomes the other one."""

    def step(carry: Any, row: Any) -> Any:
        old, new = carry
        out = _like(body(row, other, old)[0], row)
        return (new, out), out if last else old

    start = (jnp.zeros_like(x[0]), x[-1])
    (old, new), rows = lax.scan(step, start, x, reverse=reverse)
    return jnp.concatenate([rows, old[None], new[None]])


@op("in_place")
def _in_place(body: Any, x: Any, other: Any, trips: int, ahead: int) -> Any:
    """Row by row, each written from what earlier trips wrote or later ones still will."""
    rows = x.shape[0]

    def step(i: Any, state: Any) -> Any:
        row = lax.dynamic_index_in_dim(state, (i + ahead) % rows, 0, keepdims=False)
        here = lax.dynamic_index_in_dim(state, i % rows, 0, keepdims=False)
        out = _like(body(row, other, here)[0], row)
        return lax.dynamic_update_index_in_dim(state, out, i % rows, 0)

    return lax.fori_loop(0, trips, step, x)


@op("counter")
def _counter(
    body: Any, x: Any, other: Any, trips: int, start: int, step: int, dtype: str, reads: bool
) -> Any:
    """Rows of x, or of what is computed, at a counter that wraps around in its own type."""
    first, by = (jnp.asarray(np.array(number).astype(dtype)) for number in (start, step))

    def trip(i: Any, state: Any) -> Any:
        count, rows = state
        at, own = addressing(count, x), i % x.shape[0]
        row = lax.dynamic_index_in_dim(x, at if reads else own, 0, keepdims=False)
        out = _like(body(row, other, row)[0], row)
        return count + by, lax.dynamic_update_index_in_dim(rows, out, own if reads else at, 0)

    return lax.fori_loop(0, trips, trip, (first, jnp.zeros_like(x)))[1]


@op("grid")
def _grid(body: Any, x: Any, other: Any) -> Any:
    """A loop in a loop over the elements of a table of rows, each from its neighbours."""
    high, wide = min(x.shape[0], 4), min(x.shape[1], 4)

    def inner(i: Any, j: Any, state: Any) -> Any:
        above = state[(i - 1) % high, j]
        out = _like(body(above, other, state[i, (j - 1) % wide])[0], above)
        return state.at[i, j].set(out)

    def outer(i: Any, state: Any) -> Any:
        return lax.fori_loop(0, wide, lambda j, s: inner(i, j, s), state)

    return lax.fori_loop(0, high, outer, x)


@op("until")
def _until(body: Any, x: Any, other: Any, at: Any, limit: int) -> Any:
    """A loop of a length that the data choose, whose carries are read after it."""
    jumps = jnp.ravel(at)

    def step(state: Any) -> Any:
        i, total, old, new = state
        jump = 1 + (jumps[i % jumps.size] & 3).astype(jnp.int32)
        return i + 1, total + jump, new, _like(body(new, other, old)[0], new)

    start = (jnp.int32(0), jnp.int32(0), x, x)
    i, total, old, new = lax.while_loop(lambda state: state[1] < limit, step, start)
    return jnp.stack([old, new, jnp.full_like(x, 0) + (i + total).astype(x.dtype)])


@op("switch")
def _switch(first: Any, second: Any, third: Any, at: Any, x: Any, other: Any) -> Any:
    """One of three bodies, by an index that may be out of range."""
    index = lax.convert_element_type(jnp.ravel(at)[0], jnp.int32)
    branches = [lambda x, y, body=body: _like(body(x, y, x)[0], x) for body in (first, second)]
    branches.append(lambda x, y: x.at[...].add(jnp.flip(_like(third(x, y, x)[0], x))))
    return lax.switch(index, branches, x, other)


@op("mapped")
def _mapped(body: Any, x: Any, other: Any, how: str) -> Any:
    """A body over rows: at once, or one after the other."""

    def one(row: Any) -> Any:
        return _like(body(row, other, row)[0], row)

    return jax.vmap(one)(x) if how == "vmap" else lax.map(one, x)


@op("remat")
def _remat(body: Any, x: Any, other: Any) -> Any:
    def one(x: Any, other: Any) -> Any:
        return _like(body(x, other, x)[0], x)

    return jax.checkpoint(one)(x, other)


@grown(3, smooth=True)
def _looped(writer: Writer) -> None:
    if writer.depth > 1:
        return
    place = writer.pick(lambda value: value.is_float and 0 < value.elements < LARGEST // 8)
    other, at = writer.pick(lambda value: value.elements > 0), pick_index(writer)
    kinds = ["scan_rows", "in_place", "grid", "mapped", "remat"]
    kind = writer.choice(kinds if writer.smooth else [*kinds, "until", "switch", "counter"])
    if place is None or other is None or (at is None and kind in ("until", "switch")):
        return
    if kind == "counter":
        # Rows that memory aligns, and rows that it does not.
        place = fit(writer, place, (writer.choice([5, 20, 130]), writer.choice([32, 16, 3])))
    value = writer.values[place]
    dropped = {"scan_rows": 1, "in_place": 1, "grid": 2, "mapped": 1, "counter": 1}.get(kind, 0)
    if len(value.shape) < dropped:
        return
    row = writer.joined(place, shape=value.shape[dropped:], is_exact=False, is_product=False)
    second = writer.joined(other, is_exact=not writer.values[other].is_float)
    bodies = [body_of(writer, [row, second, row]) for _ in range(3 if kind == "switch" else 1)]
    changes: dict[str, Any] = {"is_exact": False, "is_product": False}
    changes |= {"size": max(value.size, 2.0), "eps": coarsest(writer, [place, other], bodies)}
    params: dict[str, Any] = {}
    operands = [place, other]
    if kind == "scan_rows":
        changes["shape"] = (value.shape[0] + 2, *value.shape[1:])
        params = {"reverse": writer.flag(), "last": writer.flag()}
    elif kind == "in_place":
        params = {"trips": writer.integer(1, 6), "ahead": writer.choice([-1, 1, 2])}
    elif kind == "counter":
        params = {"trips": writer.choice([3, 40, 300]), "start": writer.integer(0, 9)}
        params["step"] = writer.choice([1, 2, -1, 100])
        params["dtype"] = writer.choice(["uint8", "int8", *writer.integers])
        params["reads"] = writer.flag()
    elif kind == "until":
        assert at is not None
        operands.append(at)
        changes["shape"] = (3, *value.shape)
        params = {"limit": writer.integer(0, 9)}
        changes["size"] = max(value.size, 5.0)
    elif kind == "switch":
        assert at is not None
        operands.insert(0, at)
    elif kind == "mapped":
        params = {"how": writer.choice(["vmap", "map"])}
    result: Value = writer.joined(place, **changes)
    writer.add(kind, operands, result, bodies, **params)
