"""Updates of windows, rows and points, and reads at indices of data, in random programs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from random_programs import LARGEST, Value, Writer
from random_table import addressing, fit, grown, op, pick_index


def _window(start: Any, count: Any, step: Any) -> tuple[slice, ...]:
    return tuple(
        slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(start, count, step, strict=True)
    )


@op("window")
def _set_window(x: Any, into: Any, out: Any, rev: tuple[int, ...], how: str) -> Any:
    """A window of x overwritten by, or combined with, another window of x."""
    return getattr(x.at[_window(*into)], how)(lax.rev(x[_window(*out)], rev))


@op("swap")
def _swap(x: Any, at: Any) -> Any:
    """Two rows of x, at places that data choose, each in the place of the other."""
    places = jnp.ravel(at).astype(jnp.int32) % x.shape[0]
    i, j = places[0], places[1 % at.size]
    return x.at[i].set(x[j]).at[j].set(x[i])


@op("points")
def _points(x: Any, update: Any, at: Any, how: str, mode: str) -> Any:
    """x with single elements combined, at an index for each dimension."""
    count, at = update.shape[0], addressing(at, x)
    places = tuple(jnp.roll(jnp.resize(at, (count,)), d) for d in range(x.ndim))
    if how == "set":
        # Of two updates of one element either may win: places that differ.
        shift = jnp.ravel(at)[0].astype(jnp.int32) % x.size
        flat = (jnp.arange(count, dtype=jnp.int32) + shift) % x.size
        places = jnp.unravel_index(flat, x.shape)
    return getattr(x.at[places], how)(update, mode=mode)


@op("get")
def _get(x: Any, at: Any, mode: str) -> Any:
    """Single elements of x, at an index for each dimension."""
    at = jnp.ravel(addressing(at, x))
    return x.at[tuple(jnp.roll(at, d) for d in range(x.ndim))].get(mode=mode)


@op("along")
def _along(x: Any, at: Any, axis: int) -> Any:
    return jnp.take_along_axis(x, jnp.resize(addressing(at, x), x.shape), axis, mode="clip")


@op("row_slices")
def _row_slices(x: Any, at: Any, size: int) -> Any:
    """Of each row a slice, at an index of its own."""
    starts = jnp.resize(addressing(at, x), x.shape[:1])
    return jax.vmap(lambda row, i: lax.dynamic_slice_in_dim(row, i, size))(x, starts)


@op("row_updates")
def _row_updates(x: Any, at: Any, size: int) -> Any:
    """Each row with its end written at an index of its own."""
    starts = jnp.resize(addressing(at, x), x.shape[:1])
    write = lax.dynamic_update_slice_in_dim
    return jax.vmap(lambda row, i: write(row, row[-size:], i, 0))(x, starts)


@op("put_back")
def _put_back(x: Any, at: Any, sizes: tuple[int, ...], offset: int) -> Any:
    """A slice of x at one place of data written at another one, twice."""
    where = jnp.resize(at, (x.ndim,)).astype(jnp.int32)
    for _ in range(2):
        x = lax.dynamic_update_slice(x, lax.dynamic_slice(x, where, sizes), where + offset)
    return x


def _known(value: Value) -> bool:
    return value.elements > 0 and value.shape != () and value.dtype != "bool"


def _combined(writer: Writer, places: list[int], how: str) -> tuple[str, Value]:
    """Returns how, or another way where that is not defined, and the result's value."""
    joined = writer.joined(*places)
    if (how in ("max", "min") and not joined.is_exact) or (how != "set" and joined.size > 6):
        how = "set"
    if how in ("add", "multiply"):
        is_exact = joined.is_exact and not joined.is_float
        size = joined.size + 3 if how == "add" else 2 * joined.size
        joined = writer.joined(*places, is_exact=is_exact, size=size, is_product=how == "multiply")
    return how, joined


@grown(3, smooth=True)
def _windows(writer: Writer) -> None:
    place = writer.pick(_known)
    if place is None:
        return
    into, out = ([], [], []), ([], [], [])
    shape = writer.values[place].shape
    for size in shape:
        count = writer.integer(1, size)
        for start, counts, steps in (into, out):
            step = writer.choice([1, 1, 2]) if (count - 1) * 2 < size else 1
            start.append(writer.integer(0, size - 1 - (count - 1) * step))
            counts.append(count)
            steps.append(step)
    rev = tuple(d for d in range(len(shape)) if writer.integer(0, 3) == 3)
    how, value = _combined(writer, [place], writer.choice(["set", "add", "multiply", "max", "min"]))
    windows = [tuple(tuple(part) for part in window) for window in (into, out)]
    writer.add("window", [place], value, into=windows[0], out=windows[1], rev=rev, how=how)


@grown(3, smooth=True)
def _at_data(writer: Writer) -> None:
    place, at = writer.pick(_known), pick_index(writer)
    if place is None or at is None:
        return
    value = writer.values[place]
    kind = writer.choice(["swap", "points", "get", "along", "put_back"])
    if kind == "points":
        count = writer.integer(1, min(value.elements, 8))
        source = writer.pick(lambda one: one.dtype == value.dtype and one.elements > 0)
        assert source is not None
        update = fit(writer, source, (count,))
        how = writer.choice(["set", "add", "multiply", "max", "min"])
        how, joined = _combined(writer, [place, update], how)
        if how == "multiply" and 8 * joined.size > 14:
            return
        mode = writer.choice(["drop", "clip"])
        writer.add(kind, [place, update, at], joined, how=how, mode=mode)
    elif kind == "get":
        count = writer.values[at].elements
        mode = "clip" if writer.smooth else writer.choice(["clip", "fill"])
        writer.add(kind, [place, at], writer.joined(place, shape=(count,)), mode=mode)
    elif kind == "along":
        axis = writer.integer(0, len(value.shape) - 1)
        writer.add(kind, [place, at], writer.joined(place), axis=axis)
    elif kind == "put_back":
        sizes = tuple(writer.integer(1, size) for size in value.shape)
        offset = writer.choice([1, -1, 2])
        writer.add(kind, [place, at], writer.joined(place), sizes=sizes, offset=offset)
    else:
        writer.add(kind, [place, at], writer.joined(place))


@grown(1, smooth=True)
def _rows(writer: Writer) -> None:
    place, at = (
        writer.pick(lambda value: _known(value) and len(value.shape) > 1),
        pick_index(writer),
    )
    if place is None or at is None:
        return
    shape = writer.values[place].shape
    size = writer.integer(1, shape[1])
    if writer.flag():
        value = writer.joined(place, shape=(shape[0], size, *shape[2:]))
        writer.add("row_slices", [place, at], value, size=size)
    else:
        writer.add("row_updates", [place, at], writer.joined(place), size=size)


# Reductions over windows --------------------------------------------------------------------------


@op("over_windows")
def _over_windows(x: Any, how: str, window: Any, strides: Any, pads: Any, holes: Any) -> Any:
    start = {"add": 0, "max": -np.inf, "min": np.inf}[how]
    if jnp.issubdtype(x.dtype, jnp.integer):
        info = jnp.iinfo(x.dtype)
        start = {"add": 0, "max": info.min, "min": info.max}[how]
    body = {"add": lax.add, "max": lax.max, "min": lax.min}[how]
    first = np.asarray(start, x.dtype)
    return lax.reduce_window(x, first, body, window, strides, pads, holes[0], holes[1])


@grown(2, smooth=True)
def _windowed(writer: Writer) -> None:
    place = writer.pick(lambda value: _known(value) and value.elements < LARGEST // 8)
    if place is None:
        return
    value = writer.values[place]
    how = writer.choice(["add", "max", "min"]) if value.is_exact else "add"
    # The derivative is known of windows without holes, and of sums.
    has_holes = not writer.smooth and writer.flag()
    window, strides, pads, base, dilation, shape = [], [], [], [], [], []
    for size in value.shape:
        width, hole = writer.integer(1, 3), writer.choice([1, 2]) if has_holes else 1
        spread = writer.choice([1, 2]) if has_holes else 1
        low, high, step = writer.integer(0, 1), writer.integer(0, 1), writer.choice([1, 1, 2, 3])
        full = (size - 1) * spread + 1
        if (width - 1) * hole + 1 > full + low + high:
            width = 1
        if writer.smooth:
            # A window of nothing but padding has an infinity.
            low, high = min(low, width - 1), min(high, width - 1)
        full, reach = full + low + high, (width - 1) * hole + 1
        window.append(width)
        strides.append(step)
        pads.append((low, high))
        base.append(spread)
        dilation.append(hole)
        shape.append((full - reach) // step + 1)
    grown = value.size + float(np.log2(np.prod(window)))
    if how == "add" and grown > 13:
        return
    changes: dict[str, Any] = {"shape": tuple(shape)}
    if how == "add":
        is_exact = value.is_exact and not value.is_float
        changes |= {"is_exact": is_exact, "size": grown, "is_product": False}
    params = {"window": tuple(window), "strides": tuple(strides), "pads": tuple(pads)}
    params["holes"] = (tuple(base), tuple(dilation))
    writer.add("over_windows", [place], writer.joined(place, **changes), how=how, **params)
