"""Amaxes of weights that a step leaves for the next one (docs/stages/precision.md)."""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from typing import Any

from scalify import _runtime

__all__ = ["ARGUMENT_AMAX", "LeftAmaxes"]

# Of the pass scalify-keep-amaxes: the argument of amaxes, main's last one.
ARGUMENT_AMAX = "scalify.argument_amax"
# The function of the artefact that makes it.
_MEASURE = "measure"


class LeftAmaxes:
    """Amaxes of a step's arguments: those that the last step has left, if they are of these.

    They are if each argument is the very Array that the last step returned, and no other library
    has had its memory. Else the arguments are measured: a run has the same bits either way.
    """

    def __init__(self, runtime: _runtime.Executable) -> None:
        self._runtime = runtime
        self._arguments: list[int] = []
        self._results: list[int] = []
        self._last: list[weakref.ref[_runtime.Array]] = []
        self._amaxes: Any = None
        if _MEASURE in runtime.functions:
            places = {argument["name"]: i for i, argument in enumerate(runtime.args)}
            taken = json.loads(runtime.manifest)["functions"][_MEASURE]["args"]
            self._arguments = [places[argument["name"]] for argument in taken]
            self._results = [runtime.args[i]["alias_result"] for i in self._arguments]

    def of(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns what the step takes behind its other arguments."""
        if not self._arguments:
            return []
        given = [arrays[i] for i in self._arguments]
        if not self._are_last(given):
            # Not of what was returned, even if the step that follows fails.
            self._last = []
            (self._amaxes,) = self._runtime.run(given, _MEASURE)
        return [self._amaxes]

    def _are_last(self, given: Sequence[Any]) -> bool:
        return (
            len(self._last) == len(given)
            and all(last() is array for last, array in zip(self._last, given, strict=True))
            and not any(array.is_lent() for array in given)
        )

    def remember(self, results: Sequence[Any]) -> None:
        """Notes what a step has returned."""
        if self._arguments:
            self._last = [weakref.ref(results[i]) for i in self._results]
            self._amaxes = results[-1]
