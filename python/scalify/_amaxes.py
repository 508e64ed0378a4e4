"""Amaxes of weights that a step computes for the next one (docs/stages/state.md)."""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from typing import Any

from scalify import _runtime
from scalify._views import host_view

__all__ = ["ARGUMENT_AMAX", "ArgumentAmaxes"]

# The argument of amaxes, main's last, which the pass scalify-keep-amaxes adds.
ARGUMENT_AMAX = "scalify.argument_amax"
# The artefact's function that computes these amaxes from the arguments.
_MEASURE = "measure"


class ArgumentAmaxes:
    """Amaxes of a step's arguments: the last step's if they are still valid, else measured.

    They are valid if each argument is the array that the last step returned and its memory was not
    lent to another library. A run has the same bits either way.
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

    @property
    def measures(self) -> bool:
        """Whether the step takes amaxes of its arguments."""
        return bool(self._arguments)

    def of(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the amaxes, if the step takes any after its other arguments."""
        if not self._arguments:
            return []
        given = [arrays[i] for i in self._arguments]
        if not self._are_last(given):
            # These amaxes are not those of the last results, even if the next step fails.
            self._last = []
            (self._amaxes,) = self._runtime.run([host_view(one) for one in given], _MEASURE)
        return [self._amaxes]

    def _are_last(self, given: Sequence[Any]) -> bool:
        return (
            len(self._last) == len(given)
            and all(last() is array for last, array in zip(self._last, given, strict=True))
            # JAX arrays are immutable; another library can write to a lent `Array`.
            and not any(isinstance(one, _runtime.Array) and one.is_lent() for one in given)
        )

    def remember(self, own: Sequence[Any], added: Sequence[Any]) -> None:
        """Records a step's results: `own`, the caller's, and `added`, the state kept for it."""
        if self._arguments:
            # A call interrupted after its step has no results: the amaxes match no arguments then.
            self._last = [weakref.ref(own[i]) for i in self._results] if own else []
            self._amaxes = added[-1]
