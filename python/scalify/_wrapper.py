"""Helpers of functions that wrap a user's function: decorators with options, pickling."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["again", "pickle_name", "with_options"]


def pickle_name(wrapped: Any) -> str | None:
    """Returns the name under which `pickle` finds an object in its module; None if it does not.

    A decorated function is found, since the wrapper replaces it under its name.
    """
    found: Any = sys.modules.get(getattr(wrapped, "__module__", None) or "")
    name = str(getattr(wrapped, "__qualname__", ""))
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is wrapped else None


def with_options(make: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """Returns the decorator `@make(**options)`."""
    return functools.partial(make, **{key: value for key, value in options.items() if key != "fn"})


def again(make: Callable[..., Any], options: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the call by which `pickle` wraps a function again with the same options."""
    return with_options(make, options), (options["fn"],)
