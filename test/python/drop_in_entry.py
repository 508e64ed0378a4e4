"""One thing that one does with `jax.jit`."""

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
    """One thing that one does.

    Attributes:
        group: the part of the table.
        what: as it is written.
        run: does it with a `jit`, or with a step's results.
        differs: what is other with ours and why; "" for nothing.
        refused: what our error says, where ours refuses it.
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
