"""An artefact's manifest, read without loading the artefact."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

__all__ = ["manifest_of", "names_of", "read_section", "target_of"]


def manifest_of(artefact: bytes) -> dict[str, Any]:
    """Returns an artefact's manifest (docs/runtime.md has the format) without loading it.

    Raises:
        ValueError: the bytes are not an artefact.
    """
    if artefact[:8] != b"SCALIFY1":
        raise ValueError("not an artefact of scalify-compile")
    length = int.from_bytes(artefact[8:16], "little")
    manifest: dict[str, Any] = json.loads(artefact[32 : 32 + length])
    return manifest


def read_section(artefact: bytes, section: Mapping[str, int]) -> dict[str, Any]:
    """Returns the JSON of a section, which is compressed unless it starts with a brace."""
    content = artefact[section["offset"] : section["offset"] + section["size"]]
    report: dict[str, Any] = json.loads(
        content if content[:1] == b"{" else zlib.decompress(content)
    )
    return report


def names_of(location: str) -> str:
    """Returns JAX's names in `file:line:column (names)`, or a location without a file as it is."""
    match = re.fullmatch(r"(?:.*:\d+:\d+)(?: \((.*)\))?", location)
    return (match.group(1) or "") if match else location


def target_of(artefact: bytes) -> tuple[str, str]:
    """Returns an artefact's target and the device that runs it; the CPU if that cannot be read."""
    try:
        manifest = manifest_of(artefact)
        return str(manifest["target"]), str(manifest["device"])
    except (ValueError, KeyError, TypeError):
        return "cpu", "cpu"  # the runtime reports the damage
