"""A compiled step that is called while JAX traces: inlined, as jax.jit is within jax.jit."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

from scalify._diagnostics import warn
from scalify._jax_api import trace_state_clean
from scalify.recipe import Recipe

__all__ = ["inlined", "is_traced", "tracing"]

# The recipe of the step that this package traces, outermost; None outside of one.
_outer: contextvars.ContextVar[str | None] = contextvars.ContextVar("_outer", default=None)


def is_traced() -> bool:
    """Whether JAX traces: what is called is a part of another function."""
    return not trace_state_clean()


@contextlib.contextmanager
def tracing(recipe: str) -> Iterator[None]:
    """Within, functions are traced for a step of this recipe, or for one around that."""
    token = _outer.set(recipe) if _outer.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _outer.reset(token)


def inlined(
    fn: Callable[..., Any], name: str, recipe: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Calls a step's function, under jax.jit, within another one's trace.

    The recipe is that of the step around it, and none where only JAX is. A warning says so where
    the function's own would have cast.
    """
    outer = _outer.get()
    own = Recipe.of(recipe)
    if own.casts and (outer is None or Recipe.of(outer) != own):
        held = "no recipe holds here" if outer is None else f"that step's recipe '{outer}' holds"
        warn(
            f"'{name}' is called while {'JAX' if outer is None else 'another step'} traces, and "
            f"is inlined: {held}, not '{recipe}'. scalify.transform of the function keeps its own"
        )
    return fn(*args, **kwargs)
