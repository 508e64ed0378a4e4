"""Plain options: the words and numbers of the compiler's table (PlainOptions.def)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from scalify import _compiler

__all__ = ["check_words", "plain_options"]


@functools.cache
def _words() -> dict[str, list[str]]:
    return _compiler.options()


def _key(name: str) -> str:
    """Returns the compiler's key for a Python name: `bucketBytes` for `bucket_bytes`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def plain_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of the given arguments that the compiler's table has, by its keys."""
    return {_key(name): value for name, value in given.items() if _key(name) in _words()}


def check_words(given: Mapping[str, Any]) -> None:
    """Checks the arguments for which the table lists words.

    Raises:
        ValueError: an argument is not one of its words.
    """
    for name, value in given.items():
        words = _words().get(_key(name))
        if words and value not in words:
            listed = [repr(word) for word in words if word]
            expected = " or ".join([", ".join(listed[:-1]), listed[-1]] if listed[1:] else listed)
            raise ValueError(f"{name}={value!r}: expected {expected}")
