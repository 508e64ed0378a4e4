"""Elementwise ops of random programs: how each is drawn, and its implementation in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from random_programs import Writer, eps_of
from random_table import APPLY, fit, grown, op, partner

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


@grown(3, smooth=True)
def _rounded(writer: Writer) -> None:
    place = writer.pick(lambda value: value.is_float)
    if place is not None:
        name = writer.choice(list(_ROUNDED))
        size = 6.0 if name in ("exp", "expm1") else 2.0
        writer.add(name, [place], writer.joined(place, is_exact=False, is_product=False, size=size))


@grown(1, smooth=True)
def _exact_unary(writer: Writer) -> None:
    place = writer.pick(lambda value: value.dtype != "bool" and not value.dtype.startswith("u"))
    if place is not None:
        writer.add(writer.choice(list(_EXACT_UNARY)), [place], writer.joined(place))


@grown(1)
def _rounding(writer: Writer) -> None:
    place = writer.pick(lambda value: value.is_float and value.is_exact)
    if place is not None:
        writer.add(writer.choice(list(_ROUNDING)), [place], writer.joined(place))


@grown(1)
def _predicate(writer: Writer) -> None:
    place = writer.pick(lambda value: value.is_float and value.is_exact)
    if place is not None:
        value = writer.joined(place, dtype="bool", eps=0.0, is_product=False)
        writer.add("isfinite", [place], value)


@grown(1)
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


@grown(4, smooth=True)
def _binary(writer: Writer) -> None:
    place = writer.pick(lambda value: value.dtype != "bool" and value.size < 12)
    if place is None:
        return
    other = partner(writer, place)
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


@grown(2, smooth=True)
def _selecting(writer: Writer) -> None:
    place = writer.pick(lambda value: value.dtype != "bool" and value.is_exact)
    if place is None:
        return
    other = partner(writer, place)
    if writer.values[other].is_exact:
        writer.add(writer.choice(list(_SELECTING)), [place, other], writer.joined(place, other))


@grown(2)
def _integer(writer: Writer) -> None:
    place = writer.pick(lambda value: value.is_integer)
    if place is not None:
        other = partner(writer, place)
        writer.add(writer.choice(list(_INTEGER)), [place, other], writer.joined(place, other))


_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
APPLY |= {name: getattr(lax, name) for name in _COMPARED}


@grown(2)
def _compare(writer: Writer) -> None:
    place = writer.pick(lambda value: value.is_exact)
    if place is None:
        return
    other = partner(writer, place)
    if writer.values[other].is_exact:
        value = writer.joined(place, other, dtype="bool", eps=0.0, is_product=False)
        writer.add(writer.choice(_COMPARED), [place, other], value)


@op("where")
def _where(which: Any, x: Any, y: Any) -> Any:
    return jnp.where(which, x, y)


@grown(2, smooth=True)
def _select(writer: Writer) -> None:
    which = writer.pick(lambda value: value.dtype == "bool")
    place = writer.pick()
    if which is None or place is None:
        return
    which = fit(writer, which, writer.values[place].shape)
    other = partner(writer, place)
    writer.add("where", [which, place, other], writer.joined(place, other))


@op("convert")
def _convert(x: Any, dtype: str) -> Any:
    if jnp.issubdtype(x.dtype, jnp.floating) and not jnp.issubdtype(jnp.dtype(dtype), jnp.floating):
        # Beyond the type's range a conversion is the implementation's own.
        x = jnp.clip(jnp.where(jnp.isnan(x), jnp.zeros((), x.dtype), x), 0, 100)
    return x.astype(dtype)


@grown(2)
def _converted(writer: Writer) -> None:
    place = writer.pick()
    dtype = writer.choice(["float32", *writer.floats, *writer.integers, "bool"])
    if place is None:
        return
    value = writer.values[place]
    is_float = dtype in writer.floats
    if not is_float and value.is_float and not value.is_exact:
        return
    eps = max(value.eps, eps_of(dtype)) if is_float else 0.0
    # Integers beyond a format's range become infinities; large ones are not multiplied on.
    size = value.size if value.is_float or not is_float else 12.0
    changed = writer.joined(place, dtype=dtype, eps=eps, size=size, is_product=False)
    writer.add("convert", [place], changed, dtype=dtype)
