"""Warnings at the line of the user's code, and the compiler's warnings as Python warnings."""

from __future__ import annotations

import os
import pathlib
import sys
import warnings
from collections.abc import Iterable
from typing import Any

import jax

__all__ = ["issue_warnings", "warn"]

_INNER = tuple(str(pathlib.Path(file).parent) + os.sep for file in (__file__, jax.__file__))


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the innermost line that is neither this package's nor JAX's."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def issue_warnings(diagnostics: Iterable[dict[str, Any]]) -> None:
    """Issues the compiler's warnings as Python warnings."""
    for entry in diagnostics:
        if entry["severity"] == "warning":
            warn(entry["message"])
