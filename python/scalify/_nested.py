"""Inlines a compiled step that is called while JAX traces, as jax.jit within jax.jit."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

from jax.core import Tracer

from scalify._diagnostics import warn
from scalify._jax_api import trace_state_clean
from scalify.recipe import Recipe

__all__ = ["ClosureError", "inlined", "is_traced", "refuse_closed", "tracing"]

# The recipe of the outermost step that this package is tracing; None if it traces none.
_outer: contextvars.ContextVar[str | None] = contextvars.ContextVar("_outer", default=None)


class ClosureError(TypeError):
    """A function closes over values that JAX traces around it."""


def refuse_closed(name: str, staged: Any, count: int) -> None:
    """Raises an error if a trace depends on values that JAX traces around it.

    Args:
        name: of the function.
        staged: JAX's trace of it.
        count: the number of its arguments.

    Raises:
        ClosureError: the function closes over such values.
    """
    # JAX makes closed-over values arguments of a trace, which come first, if one of them is traced.
    closed = staged.jaxpr.consts
    if len(staged.jaxpr.in_avals) > count or any(isinstance(one, Tracer) for one in closed):
        raise ClosureError(
            f"'{name}' closes over values that JAX traces around it: give them to it as arguments"
        )


def is_traced() -> bool:
    """Whether JAX traces, so that a call becomes part of another function."""
    return not trace_state_clean()


@contextlib.contextmanager
def tracing(recipe: str) -> Iterator[None]:
    """Returns a context in which functions are traced for this recipe, or an enclosing step's."""
    token = _outer.set(recipe) if _outer.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _outer.reset(token)


def inlined(
    fn: Callable[..., Any], name: str, recipe: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Calls a step's function, under jax.jit, within the trace of another function.

    The recipe is that of the enclosing step; under JAX alone there is none. Warns if the function's
    own recipe would have cast.
    """
    outer = _outer.get()
    own = Recipe.of(recipe)
    if own.casts and (outer is None or Recipe.of(outer) != own):
        held = "no recipe applies" if outer is None else f"that step's recipe '{outer}' applies"
        warn(
            f"'{name}' is called while {'JAX' if outer is None else 'another step'} traces, and "
            f"is inlined: {held}, not '{recipe}'. Its .call, or scalify.transform of the function, "
            "keeps its own"
        )
    return fn(*args, **kwargs)
