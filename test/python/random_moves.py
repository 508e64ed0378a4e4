"""Moves and indices in random programs: how each is drawn, and its implementation in JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from random_programs import LARGEST, Value, Writer, eps_of
from random_table import addressing, fit, grown, op, partner, pick_index

# Moves --------------------------------------------------------------------------------------------


@op("reshape")
def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return jnp.reshape(x, shape)


@op("transpose")
def _transpose(x: Any, order: tuple[int, ...]) -> Any:
    return jnp.transpose(x, order)


@op("rev")
def _rev(x: Any, dims: tuple[int, ...]) -> Any:
    return lax.rev(x, dims)


@op("slice")
def _slice(x: Any, start: Any, stop: Any, step: Any) -> Any:
    return lax.slice(x, start, stop, step)


@op("pad")
def _pad(x: Any, config: Any, with_: float) -> Any:
    return lax.pad(x, jnp.asarray(with_).astype(x.dtype), config)


@op("concatenate")
def _concatenate(*xs: Any, axis: int) -> Any:
    return jnp.concatenate(xs, axis)


@op("broadcast")
def _broadcast(x: Any, shape: Any, dims: Any) -> Any:
    return lax.broadcast_in_dim(x, shape, dims)


@grown(2, smooth=True)
def _moved(writer: Writer) -> None:
    place = writer.pick(lambda value: len(value.shape) > 0)
    if place is None:
        return
    shape = writer.values[place].shape
    kind = writer.choice(["transpose", "rev", "reshape"])
    if kind == "transpose":
        order = tuple(writer.draw(_permutations(len(shape))))
        value = writer.joined(place, shape=tuple(shape[i] for i in order))
        writer.add(kind, [place], value, order=order)
    elif kind == "rev":
        dims = (writer.integer(0, len(shape) - 1),)
        writer.add(kind, [place], writer.joined(place), dims=dims)
    else:
        flat = (int(np.prod(shape)),)
        folded = (shape[0], flat[0] // shape[0]) if shape[0] else flat
        other = writer.choice([flat, folded, (1, *shape)])
        writer.add(kind, [place], writer.joined(place, shape=other), shape=other)


def _permutations(rank: int) -> Any:
    from hypothesis import strategies as st

    return st.permutations(range(rank))


@grown(3, smooth=True)
def _sliced(writer: Writer) -> None:
    place = writer.pick(lambda value: value.elements > 0 and len(value.shape) > 0)
    if place is None:
        return
    start, stop, step = [], [], []
    for size in writer.values[place].shape:
        first = writer.integer(0, size - 1)
        start.append(first)
        stop.append(writer.integer(first + 1, size))
        step.append(writer.choice([1, 1, 1, 2]))
    shape = tuple(-(-(b - a) // c) for a, b, c in zip(start, stop, step, strict=True))
    value = writer.joined(place, shape=shape)
    writer.add("slice", [place], value, start=tuple(start), stop=tuple(stop), step=tuple(step))


@grown(1, smooth=True)
def _padded(writer: Writer) -> None:
    place = writer.pick(lambda value: 0 < value.elements < LARGEST // 8)
    if place is None:
        return
    config = []
    shape = []
    for size in writer.values[place].shape:
        low, high = writer.integer(-1, 2), writer.integer(-1, 2)
        inside = writer.choice([0, 0, 1])
        full = size + (size - 1) * inside + low + high
        if full < 1:
            low, high, full = 0, 0, size + (size - 1) * inside
        config.append((low, high, inside))
        shape.append(full)
    value = writer.joined(place, shape=tuple(shape))
    writer.add("pad", [place], value, config=tuple(config), with_=writer.choice([0, 1]))


@grown(2, smooth=True)
def _joined(writer: Writer) -> None:
    place = writer.pick(lambda value: len(value.shape) > 0 and value.elements < LARGEST // 4)
    if place is None:
        return
    other = partner(writer, place)
    axis = writer.integer(0, len(writer.values[place].shape) - 1)
    shape = list(writer.values[place].shape)
    shape[axis] *= 2
    value = writer.joined(place, other, shape=tuple(shape))
    writer.add("concatenate", [place, other], value, axis=axis)


@grown(1, smooth=True)
def _spread(writer: Writer) -> None:
    place = writer.pick(lambda value: value.elements < LARGEST // 8 and len(value.shape) < 3)
    if place is None:
        return
    shape = list(writer.values[place].shape)
    where = writer.integer(0, len(shape))
    dims = tuple(i for i in range(len(shape) + 1) if i != where)
    shape.insert(where, writer.choice([2, 3, 5]))
    value = writer.joined(place, shape=tuple(shape))
    writer.add("broadcast", [place], value, shape=tuple(shape), dims=dims)


# Indices ------------------------------------------------------------------------------------------


@op("dynamic_slice")
def _dynamic_slice(x: Any, at: Any, sizes: tuple[int, ...]) -> Any:
    at = jnp.ravel(addressing(at, x))
    starts = [at[i % at.size] for i in range(x.ndim)]
    return lax.dynamic_slice(x, starts, sizes)


@op("dynamic_update_slice")
def _dynamic_update_slice(x: Any, update: Any, at: Any) -> Any:
    at = jnp.ravel(addressing(at, x))
    return lax.dynamic_update_slice(x, update, [at[i % at.size] for i in range(x.ndim)])


@op("take")
def _take(x: Any, at: Any, axis: int, mode: str) -> Any:
    return jnp.take(x, addressing(at, x), axis=axis, mode=mode)


@op("at")
def _at(x: Any, update: Any, at: Any, how: str) -> Any:
    """x with rows overwritten, or combined with `update`'s, at indices along the first dim."""
    rows = jnp.ravel(addressing(at, x))[: update.shape[0]]
    if how == "set":
        # Of two updates of one row either may win: places that differ.
        rows = jnp.arange(update.shape[0])[::-1]
    return getattr(x.at[rows], how)(update, mode="drop")


@op("shift")
def _shift(x: Any, by: int, how: str) -> Any:
    """x with rows overwritten by, or added to, rows of x itself."""
    into, out = (
        (slice(by, None), slice(None, -by)) if by > 0 else (slice(None, by), slice(-by, None))
    )
    return getattr(x.at[into], how)(x[out])


@op("set_reversed")
def _set_reversed(x: Any) -> Any:
    return x.at[:].set(x[::-1])


def _has_rows(value: Value) -> bool:
    return value.elements > 0 and value.shape != ()


@grown(2, smooth=True)
def _dynamic(writer: Writer) -> None:
    place, at = (
        writer.pick(lambda value: value.elements > 0 and value.shape != ()),
        pick_index(writer),
    )
    if place is None or at is None:
        return
    sizes = tuple(writer.integer(1, size) for size in writer.values[place].shape)
    if writer.flag():
        value = writer.joined(place, shape=sizes)
        writer.add("dynamic_slice", [place, at], value, sizes=sizes)
        return
    dtype = writer.values[place].dtype
    source = writer.pick(lambda value: value.dtype == dtype and value.elements > 0)
    assert source is not None
    update = fit(writer, source, sizes)
    writer.add("dynamic_update_slice", [place, update, at], writer.joined(place, update))


@grown(2, smooth=True)
def _taken(writer: Writer) -> None:
    place, at = (
        writer.pick(lambda value: value.elements > 0 and value.shape != ()),
        pick_index(writer),
    )
    if place is None or at is None or len(writer.values[at].shape) > 1:
        return
    shape = list(writer.values[place].shape)
    axis = writer.integer(0, len(shape) - 1)
    shape[axis : axis + 1] = writer.values[at].shape
    if np.prod(shape) > LARGEST:
        return
    mode = writer.choice(["clip", "wrap"])
    writer.add("take", [place, at], writer.joined(place, shape=tuple(shape)), axis=axis, mode=mode)


@grown(3, smooth=True)
def _scattered(writer: Writer) -> None:
    place, at = (
        writer.pick(lambda value: value.elements > 0 and value.shape != ()),
        pick_index(writer),
    )
    if place is None or at is None or writer.values[place].dtype == "bool":
        return
    value = writer.values[place]
    rows = min(value.shape[0], writer.values[at].elements)
    source = writer.pick(lambda one: one.dtype == value.dtype and one.elements > 0)
    assert source is not None
    update = fit(writer, source, (rows, *value.shape[1:]))
    how = writer.choice(["set", "add", "max", "min"])
    joined = writer.joined(place, update)
    if how in ("max", "min") and not joined.is_exact:
        how = "set"
    if how == "add":
        if joined.size > 8:
            return
        joined = writer.joined(
            place, update, size=joined.size + 3, is_exact=joined.is_exact and not value.is_float
        )
    writer.add("at", [place, update, at], joined, how=how)


@grown(3, smooth=True)
def _shifted(writer: Writer) -> None:
    place = writer.pick(lambda value: value.shape != () and value.shape[0] > 1)
    if place is None or writer.values[place].dtype == "bool":
        return
    value = writer.values[place]
    if writer.integer(0, 3) == 0:
        writer.add("set_reversed", [place], writer.joined(place))
        return
    by = writer.choice([1, -1, value.shape[0] - 1])
    how = writer.choice(["set", "add", "multiply"])
    if how != "set" and value.size > 6:
        how = "set"
    is_exact = value.is_exact and (how == "set" or not (value.is_float and value.is_product))
    size = {"set": value.size, "add": value.size + 1, "multiply": value.size * 2}[how]
    changes = {"is_exact": is_exact, "size": size, "is_product": how == "multiply"}
    writer.add("shift", [place], writer.joined(place, **changes), by=by, how=how)


@op("iota")
def _iota(shape: tuple[int, ...], dtype: str, dim: int) -> Any:
    return lax.broadcasted_iota(jnp.dtype(dtype), shape, dim)


@grown(1)
def _counted(writer: Writer) -> None:
    dtype = writer.choice([*writer.integers, "float32"])
    shape = (writer.choice([2, 3, 5, 8]), writer.choice([1, 2, 4]))
    value = Value(shape, dtype, eps=eps_of(dtype))
    writer.add("iota", [], value, shape=shape, dtype=dtype, dim=writer.integer(0, 1))
