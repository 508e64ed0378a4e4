"""Reductions, sorts, products and bodies of random programs: how each is drawn."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from random_programs import LARGEST, Program, Value, Writer
from random_table import APPLY, fit, grow, grow_smooth, grown, op, pick_index

__all__ = ["body_of", "bounded", "coarsest"]

# Reductions, sorts, products ----------------------------------------------------------------------

_REDUCED = {"sum": jnp.sum, "max_over": jnp.max, "min_over": jnp.min, "mean": jnp.mean}
APPLY |= {
    name: functools.partial(lambda fn, x, axis: fn(x, axis=axis).astype(x.dtype), fn)
    for name, fn in _REDUCED.items()
}


@grown(3, smooth=True)
def _reduced(writer: Writer) -> None:
    place = writer.pick(
        lambda value: value.elements > 0 and value.shape != () and value.dtype != "bool"
    )
    if place is None:
        return
    value = writer.values[place]
    axis = writer.integer(0, len(value.shape) - 1)
    names = ["sum"] + (["max_over", "min_over"] if value.is_exact else [])
    name = writer.choice(names + (["mean"] if value.is_float else []))
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    changes: dict[str, Any] = {"shape": shape}
    if name == "sum" or name == "mean":
        grown = value.size + float(np.log2(value.shape[axis]))
        if name == "sum" and grown > 13:
            return
        changes |= {"is_exact": value.is_exact and not value.is_float, "is_product": False}
        changes["size"] = grown if name == "sum" else value.size
    writer.add(name, [place], writer.joined(place, **changes), axis=axis)


@op("argmax")
def _argmax(x: Any, axis: int) -> Any:
    return jnp.argmax(x, axis=axis).astype(jnp.int32)


@op("sort")
def _sort(x: Any, axis: int) -> Any:
    return jnp.sort(x, axis=axis)


@op("argsort")
def _argsort(x: Any, axis: int) -> Any:
    return jnp.argsort(x, axis=axis).astype(jnp.int32)


@op("cumsum")
def _cumsum(x: Any, axis: int) -> Any:
    return jnp.cumsum(x, axis=axis, dtype=x.dtype)


@grown(2)
def _ordered(writer: Writer) -> None:
    place = writer.pick(
        lambda value: (
            value.is_exact and value.shape != () and value.elements > 0 and value.dtype != "bool"
        )
    )
    if place is None:
        return
    value = writer.values[place]
    axis = writer.integer(0, len(value.shape) - 1)
    name = writer.choice(["sort", "argsort", "argmax", "cumsum"])
    changes: dict[str, Any] = {"is_product": False}
    if name in ("argmax", "argsort"):
        changes |= {"dtype": "int32", "eps": 0.0}
    if name == "argmax":
        changes["shape"] = (*value.shape[:axis], *value.shape[axis + 1 :])
    if name == "cumsum":
        grown = value.size + float(np.log2(value.shape[axis]))
        if grown > 13:
            return
        changes |= {"is_exact": not value.is_float, "size": grown}
    writer.add(name, [place], writer.joined(place, **changes), axis=axis)


@op("dot")
def _dot(x: Any, y: Any, batches: int) -> Any:
    dims = (((x.ndim - 1,), (batches,)), (tuple(range(batches)), tuple(range(batches))))
    wide = jnp.promote_types(x.dtype, jnp.float32)
    kind = wide if jnp.issubdtype(x.dtype, jnp.floating) else jnp.int32
    return lax.dot_general(x, y, dims, preferred_element_type=kind)


@grown(3, smooth=True)
def _multiplied(writer: Writer) -> None:
    place = writer.pick(
        lambda value: len(value.shape) in (2, 3) and value.is_float and value.size < 6
    )
    if place is None:
        return
    value = writer.values[place]
    batches = len(value.shape) - 2
    wide = writer.choice([1, 3, 8, 16])
    source = writer.pick(lambda one: one.dtype == value.dtype and one.elements > 0 and one.size < 6)
    if source is None:
        return
    right = fit(writer, source, (*value.shape[:batches], value.shape[-1], wide))
    size = value.size + writer.values[right].size + float(np.log2(value.shape[-1])) / 2
    joined = writer.joined(
        place,
        right,
        shape=(*value.shape[:-1], wide),
        dtype="float64" if value.dtype == "float64" else "float32",
        is_exact=False,
        is_product=False,
        size=size,
    )
    writer.add("dot", [place, right], joined, batches=batches)


# Bodies -------------------------------------------------------------------------------------------


@op("loop")
def _loop(body: Any, *carries: Any, trips: int) -> Any:
    """The first of the carries after some trips; tanh keeps what grows."""

    def step(i: Any, values: Any) -> Any:
        out = body(*values[:-1], values[-1] + jnp.asarray(i).astype(values[-1].dtype))[0]
        return (bounded(jnp.resize(out, values[0].shape), values[0].dtype), *values[1:])

    return lax.fori_loop(0, trips, step, carries)[0]


@op("scan")
def _scan(body: Any, *carries: Any, trips: int) -> Any:
    """What a scan stacks: the body's result, which is its carry as well."""

    def step(values: Any, i: Any) -> Any:
        out = body(*values[:-1], values[-1] + jnp.asarray(i).astype(values[-1].dtype))[0]
        out = bounded(jnp.resize(out, values[0].shape), values[0].dtype)
        return (out, *values[1:]), out

    return lax.scan(step, carries, jnp.arange(trips))[1]


@op("while")
def _while(body: Any, index: Any, *carries: Any, trips: int) -> Any:
    """A loop of as many trips as an argument says, so that the compiler knows no number.

    It carries a row of a stack that it reads, and one that it writes, by iteration.
    """
    count = trips + (jnp.ravel(index)[0] != jnp.ravel(index)[0]).astype(jnp.int32)
    rows = jnp.stack([carries[0]] * 3)

    def step(state: Any) -> Any:
        i, stack, values = state
        given = (rows[2 - i], *values[1:-1], values[-1] + jnp.asarray(i).astype(values[-1].dtype))
        out = bounded(jnp.resize(body(*given)[0], values[0].shape), values[0].dtype)
        return i + 1, stack.at[i].set(out), (out, *values[1:])

    state = (jnp.int32(0), rows, (*carries, index))
    _, stack, last = lax.while_loop(lambda state: state[0] < count, step, state)
    return stack + last[0]


@op("cond")
def _cond(then: Any, otherwise: Any, which: Any, *carries: Any) -> Any:
    """One of two bodies, by whether the first element is true."""
    shape, dtype = carries[0].shape, carries[0].dtype

    def branch(body: Any) -> Any:
        return lambda *values: bounded(jnp.resize(body(*values)[0], shape), dtype)

    return lax.cond(jnp.ravel(which)[0] != 0, branch(then), branch(otherwise), *carries)


def bounded(x: Any, dtype: Any) -> Any:
    is_float = jnp.issubdtype(x.dtype, jnp.floating)
    return jnp.tanh(x).astype(dtype) if is_float else x.astype(dtype)


def body_of(writer: Writer, arguments: list[Value]) -> Program:
    """Returns a body, of which the last value is read."""
    inner = Writer(writer.draw, arguments, writer.depth + 1, writer.smooth, writer.wide)
    for _ in range(writer.integer(1, 4)):
        (grow_smooth if writer.smooth else grow)(inner)
    return inner.finish([len(inner.values) - 1])


@grown(2, smooth=True)
def _bodied(writer: Writer) -> None:
    if writer.depth > 1:
        return
    place = writer.pick(lambda value: value.is_float and 0 < value.elements < LARGEST // 8)
    if place is None:
        return
    other, at = writer.pick(lambda value: value.elements > 0), pick_index(writer)
    kind = writer.choice(
        ["loop", "scan", "cond"] if writer.smooth else ["loop", "scan", "cond", "while"]
    )
    which = writer.pick(lambda value: not value.is_float and value.elements > 0)
    if other is None or (at is None if kind != "cond" else which is None):
        return
    carries = [place, other]
    # What a body gets is its own: nothing of it is known to the bit behind a trip.
    arguments = [writer.joined(i, is_exact=not writer.values[i].is_float) for i in carries]
    bodies = [
        body_of(writer, arguments if kind == "cond" else [*arguments, writer.values[at or 0]])
        for _ in range(2 if kind == "cond" else 1)
    ]
    eps = coarsest(writer, carries, bodies)
    value = writer.joined(place, is_exact=False, is_product=False, size=1.0, eps=eps)
    if kind == "cond":
        assert which is not None
        writer.add("cond", [which, *carries], value, bodies)
        return
    assert at is not None
    trips = writer.integer(1, 4)
    if kind == "scan":
        value = Value(**{**vars(value), "shape": (trips, *value.shape)})
    if kind == "while":
        value = Value(**{**vars(value), "shape": (3, *value.shape), "size": 2.0})
        writer.add(kind, [at, *carries], value, bodies, trips=trips)
        return
    writer.add(kind, [*carries, at], value, bodies, trips=trips)


def coarsest(writer: Writer, places: Sequence[int], bodies: Sequence[Program]) -> float:
    """Returns the coarsest rounding of values, and of what bodies do with them."""
    known = [writer.values[place].eps for place in places]
    return max(known + [value.eps for body in bodies for value in body.values])
