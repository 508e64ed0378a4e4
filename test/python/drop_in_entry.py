"""One use of `jax.jit` or its results."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax

import scalify

__all__ = ["Entry", "ours", "theirs"]


@dataclasses.dataclass(frozen=True)
class Entry:
    """One use.

    Attributes:
        group: the part of the table.
        what: the use, as code or words.
        run: applies it to a `jit`, or to a step's results.
        differs: the difference under `scalify.jit` and its reason; "" for none.
        refused: the error of `scalify.jit`, if it refuses the use.
    """

    group: str
    what: str
    run: Callable[[Any], Any]
    differs: str = ""
    refused: str = ""


def theirs(fn: Any = None, **options: Any) -> Any:
    return jax.jit(fn, **options) if fn is not None else functools.partial(theirs, **options)


def ours(fn: Any = None, **options: Any) -> Any:
    return scalify.jit(fn, recipe="none", **options)
