"""What the compiler warns of, as Python's warnings."""

from __future__ import annotations

import pathlib
import sys
import warnings
from collections.abc import Iterable
from typing import Any

import jax

__all__ = ["warn_of"]

_INNER = tuple(str(pathlib.Path(file).parent) for file in (__file__, jax.__file__))


def warn_of(diagnostics: Iterable[dict[str, Any]]) -> None:
    """Warns of the compiler's warnings, at the line of the user's code that compiles."""
    texts = [entry["message"] for entry in diagnostics if entry["severity"] == "warning"]
    if not texts:
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        frame, level = frame.f_back, level + 1
    for text in texts:
        warnings.warn(text, stacklevel=level)
