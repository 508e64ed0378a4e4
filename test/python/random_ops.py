"""The ops of random programs: how each is drawn, and what it is in JAX.

`APPLY` has every op by the name that a program prints; `grow` adds one step to a program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from random_programs import FLOATS, INTEGERS, LARGEST, Program, Value, Writer, eps_of

__all__ = ["APPLY", "SMOOTH", "grow"]

APPLY: dict[str, Callable[..., Any]] = {}
Grow = Callable[[Writer], None]
_GROWN: list[tuple[int, Grow]] = []
_SMOOTH: list[tuple[int, Grow]] = []


def _op(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        APPLY[name] = fn
        return fn

    return register


def _grown(weight: int, smooth: bool = False) -> Callable[[Grow], Grow]:
    """Registers how an op is drawn, `weight` times as often as one of weight 1.

    With `smooth` it is also one of programs that are differentiated or run by recipes.
    """

    def register(fn: Grow) -> Grow:
        _GROWN.append((weight, fn))
        if smooth:
            _SMOOTH.append((weight, fn))
        return fn

    return register


def _grow(table: list[tuple[int, Grow]], writer: Writer) -> None:
    options = [fn for weight, fn in table for _ in range(weight)]
    before = len(writer.values)
    for _ in range(4):
        writer.choice(options)(writer)
        if len(writer.values) > before:
            return


def grow(writer: Writer) -> None:
    """Adds a step of some op whose operands are there."""
    _grow(_GROWN, writer)


def SMOOTH(writer: Writer) -> None:  # noqa: N802 - the name of a table, as APPLY
    """Adds one step of an op with a derivative almost everywhere."""
    _grow(_SMOOTH, writer)


# Elementwise --------------------------------------------------------------------------------------

# Functions that are defined and flat enough on all of what programs hold, by bounded arguments.
_ROUNDED: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: jnp.exp(jnp.clip(x, -8, 4)),
    "tanh": jnp.tanh,
    "logistic": jax.nn.sigmoid,
    "sin": lambda x: jnp.sin(jnp.clip(x, -30, 30)),
    "cos": lambda x: jnp.cos(jnp.clip(x, -30, 30)),
    "log": lambda x: jnp.log(jnp.abs(x) + jnp.asarray(0.5, x.dtype)),
    "log1p": lambda x: jnp.log1p(jnp.abs(x)),
    "expm1": lambda x: jnp.expm1(jnp.clip(x, -8, 4)),
    "sqrt": lambda x: jnp.sqrt(jnp.abs(x) + jnp.asarray(0.25, x.dtype)),
    "rsqrt": lambda x: lax.rsqrt(jnp.abs(x) + jnp.asarray(0.25, x.dtype)),
    "cbrt": lambda x: jnp.cbrt(jnp.abs(x) + jnp.asarray(0.25, x.dtype)),
    "erf": lambda x: lax.erf(jnp.clip(x, -4, 4)),
    "divide": lambda x: x / (jnp.abs(x) + jnp.asarray(1.0, x.dtype)),
}
_EXACT_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": jnp.negative,
    "abs": jnp.abs,
    "relu": lambda x: jnp.maximum(x, jnp.zeros((), x.dtype)),
}
_ROUNDING: dict[str, Callable[[Any], Any]] = {
    "sign": jnp.sign,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "round": jnp.round,
}
APPLY |= _ROUNDED | _EXACT_UNARY | _ROUNDING | {"isfinite": jnp.isfinite, "not": jnp.invert}


@_grown(3, smooth=True)
def _rounded(writer: Writer) -> None:
    place = writer.pick(lambda value: value.is_float)
    if place is not None:
        name = writer.choice(list(_ROUNDED))
        size = 6.0 if name in ("exp", "expm1") else 2.0
        writer.add(name, [place], writer.joined(place, is_exact=False, is_product=False, size=size))


@_grown(1, smooth=True)
def _exact_unary(writer: Writer) -> None:
    place = writer.pick(lambda value: value.dtype != "bool" and not value.dtype.startswith("u"))
    if place is not None:
        writer.add(writer.choice(list(_EXACT_UNARY)), [place], writer.joined(place))


@_grown(1)
def _rounding(writer: Writer) -> None:
    place = writer.pick(lambda value: value.is_float and value.is_exact)
    if place is not None:
        writer.add(writer.choice(list(_ROUNDING)), [place], writer.joined(place))


@_grown(1)
def _predicate(writer: Writer) -> None:
    place = writer.pick(lambda value: value.is_float and value.is_exact)
    if place is not None:
        value = writer.joined(place, dtype="bool", eps=0.0, is_product=False)
        writer.add("isfinite", [place], value)


@_grown(1)
def _bits(writer: Writer) -> None:
    place = writer.pick(lambda value: not value.is_float)
    if place is not None:
        writer.add("not", [place], writer.joined(place))


_BINARY = {"add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply}
_SELECTING = {"max": jnp.maximum, "min": jnp.minimum}
_INTEGER = {
    "and": jnp.bitwise_and,
    "or": jnp.bitwise_or,
    "xor": jnp.bitwise_xor,
    "shift_left": lax.shift_left,
    "shift_right_logical": lax.shift_right_logical,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "div": lax.div,
    "rem": lax.rem,
}
APPLY |= _BINARY | _SELECTING | _INTEGER


def _partner(writer: Writer, place: int) -> int:
    """Returns the place of another value of the same type, or of one that is made so."""
    value = writer.values[place]
    other = writer.pick(lambda one: (one.shape, one.dtype) == (value.shape, value.dtype))
    assert other is not None
    if other != place or writer.flag():
        return other
    # Another one of any shape, brought into this one's: reads other elements of what it is.
    source = writer.pick(lambda one: one.dtype == value.dtype and one.elements > 0)
    assert source is not None
    return fit(writer, source, value.shape)


def fit(writer: Writer, place: int, shape: tuple[int, ...]) -> int:
    """Returns a value's elements, in order and as often as it takes, in another shape."""
    if writer.values[place].shape == shape:
        return place
    return writer.add("resize", [place], writer.joined(place, shape=shape), shape=shape)


@_op("resize")
def _resize(x: Any, shape: tuple[int, ...]) -> Any:
    return jnp.resize(x, shape)


@_grown(4, smooth=True)
def _binary(writer: Writer) -> None:
    place = writer.pick(lambda value: value.dtype != "bool" and value.size < 12)
    if place is None:
        return
    other = _partner(writer, place)
    name = writer.choice(list(_BINARY))
    value = writer.joined(place, other)
    size = value.size + 1
    if name == "mul":
        size = writer.values[place].size + writer.values[other].size
        if size > 14:
            return
    is_exact = value.is_exact and not (value.is_float and value.is_product)
    product = value.is_float and name == "mul"
    changes = {"size": size, "is_exact": is_exact, "is_product": product}
    writer.add(name, [place, other], writer.joined(place, other, **changes))


@_grown(2, smooth=True)
def _selecting(writer: Writer) -> None:
    place = writer.pick(lambda value: value.dtype != "bool" and value.is_exact)
    if place is None:
        return
    other = _partner(writer, place)
    if writer.values[other].is_exact:
        writer.add(writer.choice(list(_SELECTING)), [place, other], writer.joined(place, other))


@_grown(2)
def _integer(writer: Writer) -> None:
    place = writer.pick(lambda value: value.dtype in INTEGERS)
    if place is not None:
        other = _partner(writer, place)
        writer.add(writer.choice(list(_INTEGER)), [place, other], writer.joined(place, other))


_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
APPLY |= {name: getattr(lax, name) for name in _COMPARED}


@_grown(2)
def _compare(writer: Writer) -> None:
    place = writer.pick(lambda value: value.is_exact)
    if place is None:
        return
    other = _partner(writer, place)
    if writer.values[other].is_exact:
        value = writer.joined(place, other, dtype="bool", eps=0.0, is_product=False)
        writer.add(writer.choice(_COMPARED), [place, other], value)


@_op("where")
def _where(which: Any, x: Any, y: Any) -> Any:
    return jnp.where(which, x, y)


@_grown(2, smooth=True)
def _select(writer: Writer) -> None:
    which = writer.pick(lambda value: value.dtype == "bool")
    place = writer.pick()
    if which is None or place is None:
        return
    which = fit(writer, which, writer.values[place].shape)
    other = _partner(writer, place)
    writer.add("where", [which, place, other], writer.joined(place, other))


@_op("convert")
def _convert(x: Any, dtype: str) -> Any:
    if jnp.issubdtype(x.dtype, jnp.floating) and not jnp.issubdtype(jnp.dtype(dtype), jnp.floating):
        # Beyond the type's range a conversion is the implementation's own.
        x = jnp.clip(jnp.where(jnp.isnan(x), jnp.zeros((), x.dtype), x), 0, 100)
    return x.astype(dtype)


@_grown(2)
def _converted(writer: Writer) -> None:
    place = writer.pick()
    dtype = writer.choice(["float32", *FLOATS, *INTEGERS, "bool"])
    if place is None:
        return
    value = writer.values[place]
    if dtype not in FLOATS and value.is_float and not value.is_exact:
        return
    eps = max(value.eps, eps_of(dtype)) if dtype in FLOATS else 0.0
    # Integers beyond a format's range become infinities; large ones are not multiplied on.
    size = value.size if value.is_float or dtype not in FLOATS else 12.0
    changed = writer.joined(place, dtype=dtype, eps=eps, size=size, is_product=False)
    writer.add("convert", [place], changed, dtype=dtype)


# Moves --------------------------------------------------------------------------------------------


@_op("reshape")
def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return jnp.reshape(x, shape)


@_op("transpose")
def _transpose(x: Any, order: tuple[int, ...]) -> Any:
    return jnp.transpose(x, order)


@_op("rev")
def _rev(x: Any, dims: tuple[int, ...]) -> Any:
    return lax.rev(x, dims)


@_op("slice")
def _slice(x: Any, start: Any, stop: Any, step: Any) -> Any:
    return lax.slice(x, start, stop, step)


@_op("pad")
def _pad(x: Any, config: Any, with_: float) -> Any:
    return lax.pad(x, jnp.asarray(with_).astype(x.dtype), config)


@_op("concatenate")
def _concatenate(*xs: Any, axis: int) -> Any:
    return jnp.concatenate(xs, axis)


@_op("broadcast")
def _broadcast(x: Any, shape: Any, dims: Any) -> Any:
    return lax.broadcast_in_dim(x, shape, dims)


@_grown(2, smooth=True)
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


@_grown(3, smooth=True)
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


@_grown(1, smooth=True)
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


@_grown(2, smooth=True)
def _joined(writer: Writer) -> None:
    place = writer.pick(lambda value: len(value.shape) > 0 and value.elements < LARGEST // 4)
    if place is None:
        return
    other = _partner(writer, place)
    axis = writer.integer(0, len(writer.values[place].shape) - 1)
    shape = list(writer.values[place].shape)
    shape[axis] *= 2
    value = writer.joined(place, other, shape=tuple(shape))
    writer.add("concatenate", [place, other], value, axis=axis)


@_grown(1, smooth=True)
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


@_op("dynamic_slice")
def _dynamic_slice(x: Any, at: Any, sizes: tuple[int, ...]) -> Any:
    starts = [jnp.ravel(at)[i % at.size] for i in range(x.ndim)]
    return lax.dynamic_slice(x, starts, sizes)


@_op("dynamic_update_slice")
def _dynamic_update_slice(x: Any, update: Any, at: Any) -> Any:
    return lax.dynamic_update_slice(x, update, [jnp.ravel(at)[i % at.size] for i in range(x.ndim)])


@_op("take")
def _take(x: Any, at: Any, axis: int, mode: str) -> Any:
    return jnp.take(x, at, axis=axis, mode=mode)


@_op("at")
def _at(x: Any, update: Any, at: Any, how: str) -> Any:
    """x with rows overwritten, or combined with `update`'s, at places along the first dim."""
    rows = jnp.ravel(at)[: update.shape[0]]
    if how == "set":
        # Of two updates of one row either may win: places that differ.
        rows = jnp.arange(update.shape[0])[::-1]
    return getattr(x.at[rows], how)(update, mode="drop")


@_op("shift")
def _shift(x: Any, by: int, how: str) -> Any:
    """x with rows overwritten by, or added to, rows of x itself."""
    into, out = (
        (slice(by, None), slice(None, -by)) if by > 0 else (slice(None, by), slice(-by, None))
    )
    return getattr(x.at[into], how)(x[out])


@_op("set_reversed")
def _set_reversed(x: Any) -> Any:
    return x.at[:].set(x[::-1])


def _index(writer: Writer) -> int | None:
    return writer.pick(lambda value: value.dtype in INTEGERS and value.elements > 0)


@_grown(2, smooth=True)
def _dynamic(writer: Writer) -> None:
    place, at = writer.pick(lambda value: value.elements > 0 and value.shape != ()), _index(writer)
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


@_grown(2, smooth=True)
def _taken(writer: Writer) -> None:
    place, at = writer.pick(lambda value: value.elements > 0 and value.shape != ()), _index(writer)
    if place is None or at is None or len(writer.values[at].shape) > 1:
        return
    shape = list(writer.values[place].shape)
    axis = writer.integer(0, len(shape) - 1)
    shape[axis : axis + 1] = writer.values[at].shape
    if np.prod(shape) > LARGEST:
        return
    mode = writer.choice(["clip", "wrap"])
    writer.add("take", [place, at], writer.joined(place, shape=tuple(shape)), axis=axis, mode=mode)


@_grown(3, smooth=True)
def _scattered(writer: Writer) -> None:
    place, at = writer.pick(lambda value: value.elements > 0 and value.shape != ()), _index(writer)
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


@_grown(3, smooth=True)
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


@_op("iota")
def _iota(shape: tuple[int, ...], dtype: str, dim: int) -> Any:
    return lax.broadcasted_iota(jnp.dtype(dtype), shape, dim)


@_grown(1)
def _counted(writer: Writer) -> None:
    dtype = writer.choice([*INTEGERS, "float32"])
    shape = (writer.choice([2, 3, 5, 8]), writer.choice([1, 2, 4]))
    value = Value(shape, dtype, eps=eps_of(dtype))
    writer.add("iota", [], value, shape=shape, dtype=dtype, dim=writer.integer(0, 1))


# Reductions, sorts, products ----------------------------------------------------------------------

_REDUCED = {"sum": jnp.sum, "max_over": jnp.max, "min_over": jnp.min, "mean": jnp.mean}
APPLY |= {
    name: functools.partial(lambda fn, x, axis: fn(x, axis=axis).astype(x.dtype), fn)
    for name, fn in _REDUCED.items()
}


@_grown(3, smooth=True)
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


@_op("argmax")
def _argmax(x: Any, axis: int) -> Any:
    return jnp.argmax(x, axis=axis)


@_op("sort")
def _sort(x: Any, axis: int) -> Any:
    return jnp.sort(x, axis=axis)


@_op("argsort")
def _argsort(x: Any, axis: int) -> Any:
    return jnp.argsort(x, axis=axis)


@_op("cumsum")
def _cumsum(x: Any, axis: int) -> Any:
    return jnp.cumsum(x, axis=axis, dtype=x.dtype)


@_grown(2)
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


@_op("dot")
def _dot(x: Any, y: Any, batches: int) -> Any:
    dims = (((x.ndim - 1,), (batches,)), (tuple(range(batches)), tuple(range(batches))))
    wide = jnp.promote_types(x.dtype, jnp.float32)
    kind = wide if jnp.issubdtype(x.dtype, jnp.floating) else jnp.int32
    return lax.dot_general(x, y, dims, preferred_element_type=kind)


@_grown(3, smooth=True)
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
        dtype="float32",
        is_exact=False,
        is_product=False,
        size=size,
    )
    writer.add("dot", [place, right], joined, batches=batches)


# Bodies -------------------------------------------------------------------------------------------


@_op("loop")
def _loop(body: Any, *carries: Any, trips: int) -> Any:
    """The first of the carries after some trips; tanh keeps what grows."""

    def step(i: Any, values: Any) -> Any:
        out = body(*values[:-1], values[-1] + i.astype(values[-1].dtype))[0]
        return (_bounded(jnp.resize(out, values[0].shape), values[0].dtype), *values[1:])

    return lax.fori_loop(0, trips, step, carries)[0]


@_op("scan")
def _scan(body: Any, *carries: Any, trips: int) -> Any:
    """What a scan stacks: the body's result, which is its carry as well."""

    def step(values: Any, i: Any) -> Any:
        out = body(*values[:-1], values[-1] + i.astype(values[-1].dtype))[0]
        out = _bounded(jnp.resize(out, values[0].shape), values[0].dtype)
        return (out, *values[1:]), out

    return lax.scan(step, carries, jnp.arange(trips))[1]


@_op("cond")
def _cond(then: Any, otherwise: Any, which: Any, *carries: Any) -> Any:
    """One of two bodies, by whether the first element is true."""
    shape, dtype = carries[0].shape, carries[0].dtype

    def branch(body: Any) -> Any:
        return lambda *values: _bounded(jnp.resize(body(*values)[0], shape), dtype)

    return lax.cond(jnp.ravel(which)[0], branch(then), branch(otherwise), *carries)


def _bounded(x: Any, dtype: Any) -> Any:
    is_float = jnp.issubdtype(x.dtype, jnp.floating)
    return jnp.tanh(x).astype(dtype) if is_float else x.astype(dtype)


def _body(writer: Writer, arguments: list[Value]) -> Program:
    inner = Writer(writer.draw, arguments, writer.depth + 1)
    for _ in range(writer.integer(1, 4)):
        grow(inner)
    return inner.finish([len(inner.values) - 1])


@_grown(2)
def _bodied(writer: Writer) -> None:
    if writer.depth > 1:
        return
    place = writer.pick(lambda value: value.is_float and 0 < value.elements < LARGEST // 8)
    if place is None:
        return
    other, at = writer.pick(lambda value: value.elements > 0), _index(writer)
    kind = writer.choice(["loop", "scan", "cond"])
    which = writer.pick(lambda value: value.dtype == "bool" and value.elements > 0)
    if other is None or (at is None if kind != "cond" else which is None):
        return
    carries = [place, other]
    # What a body gets is its own: nothing of it is known to the bit behind a trip.
    arguments = [writer.joined(i, is_exact=not writer.values[i].is_float) for i in carries]
    value = writer.joined(place, is_exact=False, is_product=False, size=1.0)
    value = writer.joined(place, other, **{**vars(value), "eps": _eps(writer, place, other)})
    if kind == "cond":
        assert which is not None
        bodies = (_body(writer, arguments), _body(writer, arguments))
        writer.add("cond", [which, *carries], value, bodies)
        return
    assert at is not None
    trips = writer.integer(1, 4)
    body = (_body(writer, [*arguments, writer.values[at]]),)
    if kind == "scan":
        value = Value(**{**vars(value), "shape": (trips, *value.shape)})
    writer.add(kind, [*carries, at], value, body, trips=trips)


def _eps(writer: Writer, *places: int) -> float:
    """Returns the coarsest rounding that a body may make of these values."""
    return max(eps_of("bfloat16"), *(writer.values[place].eps for place in places))
