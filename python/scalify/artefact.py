"""Artefacts as bytes: compiles them and reads their manifests without loading them.

`scalify.compile` and `scalify.load` make an `Executable`, which allocates the memory of its step.
Reading the plan does not: `manifest_of(content)["memory"]`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scalify import _compiler
from scalify._manifest import manifest_of

__all__ = ["build", "manifest_of", "targets"]


def targets() -> dict[str, dict[str, Any]]:
    """Returns the targets of the compiler, by their names.

    `description` is for people, `aliases` are other names, `is_gpu` tells the kind of device.

    `launch` is the minimum time of a kernel and `call` that of a library call, in ns; `bandwidth`
    is what copies reach, in bytes/ns; `f32`, `bits16` and `bits8` are what products of such
    operands reach, in FLOP/ns; `processors` and `tile` are the multiprocessors and the rows of the
    tile that each multiplies. `peaks` has the rates of the data sheet, `tf32` too; 0 if unknown.
    """
    return _compiler.targets()


def build(text: str, options: Mapping[str, Any]) -> tuple[bytes, list[dict[str, Any]]]:
    """Returns the artefact of StableHLO text, and the compiler's diagnostics, without warnings.

    Args:
        text: StableHLO with a public @main of static shapes.
        options: of the compiler, by their names in `lib/Pipeline/Options.cpp`, such as `recipe` and
            `target`.

    Raises:
        scalify.CompileError: the text or the options are invalid.
    """
    artefact, diagnostics = _compiler.compile(text, json.dumps(dict(options)))
    return bytes(artefact), diagnostics
