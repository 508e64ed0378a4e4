"""What an artefact says of itself, read without loading it."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["manifest_of", "target_of"]


def manifest_of(artefact: bytes) -> dict[str, Any]:
    """Returns an artefact's table of contents (docs/runtime.md has the format), without loading it.

    Raises:
        ValueError: it is none.
    """
    if artefact[:8] != b"SCALIFY1":
        raise ValueError("not an artefact of scalify-compile")
    length = int.from_bytes(artefact[8:16], "little")
    manifest: dict[str, Any] = json.loads(artefact[32 : 32 + length])
    return manifest


def target_of(artefact: bytes) -> str:
    """Returns what an artefact is for, by its manifest; "cpu" where that cannot be read."""
    try:
        return str(manifest_of(artefact)["target"])
    except (ValueError, KeyError, TypeError):
        return "cpu"  # the runtime says what is wrong
