"""Artefacts as bytes: what compiles one, and reads what it says of itself, without loading it.

`scalify.compile` and `scalify.load` make an `Executable`, which needs the memory of its step. A
plan alone does not: `manifest_of(content)["memory"]`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scalify import _compiler
from scalify._manifest import manifest_of

__all__ = ["build", "manifest_of"]


def build(text: str, options: Mapping[str, Any]) -> tuple[bytes, list[dict[str, Any]]]:
    """Returns the artefact of StableHLO text, and what the compiler had to say, without warnings.

    Args:
        text: StableHLO with a public @main of static shapes.
        options: of the compiler, by the names that `lib/Pipeline/Options.cpp` has for them, as
            `recipe` and `target`.

    Raises:
        scalify.CompileError: the text or the options cannot be.
    """
    artefact, diagnostics = _compiler.compile(text, json.dumps(dict(options)))
    return bytes(artefact), diagnostics
