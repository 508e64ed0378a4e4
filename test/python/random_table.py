"""The table of the ops of random programs, and their shared functions.

`APPLY` has every op by the name that a program prints; `grow` adds one step to a program. Each
file of ops registers its own: `random_ops` brings them in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from random_programs import Writer

__all__ = [
    "APPLY",
    "addressing",
    "fit",
    "grow",
    "grow_smooth",
    "grown",
    "op",
    "partner",
    "pick_index",
]

APPLY: dict[str, Callable[..., Any]] = {}
Grow = Callable[[Writer], None]
_GROWN: list[tuple[int, Grow]] = []
_SMOOTH: list[tuple[int, Grow]] = []


def op(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        APPLY[name] = fn
        return fn

    return register


def grown(weight: int, smooth: bool = False) -> Callable[[Grow], Grow]:
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


def grow_smooth(writer: Writer) -> None:
    """Adds one step of an op with a derivative almost everywhere."""
    _grow(_SMOOTH, writer)


def partner(writer: Writer, place: int) -> int:
    """Returns the index of another value of the same type, or of one converted to it."""
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
    """Returns a value's elements, in order and repeated as needed, in another shape."""
    if writer.values[place].shape == shape:
        return place
    return writer.add("resize", [place], writer.joined(place, shape=shape), shape=shape)


@op("resize")
def _resize(x: Any, shape: tuple[int, ...]) -> Any:
    return jnp.resize(x, shape)


def pick_index(writer: Writer) -> int | None:
    """Returns the index of a value of integers that may be indices; None if there is none."""
    return writer.pick(lambda value: value.is_integer and value.elements > 0)


def addressing(at: Any, x: Any) -> Any:
    """Returns indices of a type that has the sizes of x: JAX and XLA compute with both in it.

    XLA:CPU clamps an index of 8 bits to the last of 130 places as to -127.
    """
    return at.astype(jnp.int32) if max(x.shape) > jnp.iinfo(at.dtype).max else at
