"""Amaxes of weights that a step leaves for the next one (docs/stages/precision.md)."""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from typing import Any

from scalify import _runtime
from scalify._views import host_view

__all__ = ["ARGUMENT_AMAX", "LeftAmaxes"]

# Of the pass scalify-keep-amaxes: the argument of amaxes, main's last one.
ARGUMENT_AMAX = "scalify.argument_amax"
# The function of the artefact that makes it.
_MEASURE = "measure"


class LeftAmaxes:
    """Amaxes of a step's arguments: those that the last step has left, if they are of these.

    They are if each argument is the very array that the last step returned, and no other library
    has had its memory. Else the arguments are measured: a run has the same bits either way.
    """

    def __init__(self, runtime: _runtime.Executable) -> None:
        self._runtime = runtime
        self._arguments: list[int] = []
        self._results: list[int] = []
        self._last: list[weakref.ref[Any]] = []
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
            (self._amaxes,) = self._runtime.run([host_view(one) for one in given], _MEASURE)
        return [self._amaxes]

    def _are_last(self, given: Sequence[Any]) -> bool:
        return (
            len(self._last) == len(given)
            and all(last() is array for last, array in zip(self._last, given, strict=True))
            # Nobody writes to an array of JAX.
            and not any(isinstance(one, _runtime.Array) and one.is_lent() for one in given)
        )

    def remember(self, own: Sequence[Any], added: Sequence[Any]) -> None:
        """Notes what a step has returned: to its caller, and what is kept for it."""
        if self._arguments:
            # Without results, of a call that was interrupted behind the step, they are nobody's.
            self._last = [weakref.ref(own[i]) for i in self._results] if own else []
            self._amaxes = added[-1]
