"""StableHLO text to an artefact, by the compiler's own options."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from scalify import _compiler, _ptxas
from scalify._diagnostics import issue_warnings
from scalify.ranges import RangesLike
from scalify.scales import argument_options, measure, range_option

__all__ = ["Explain", "Remake", "build", "by_values", "explain"]

# Makes an artefact, what the compiler had to say, and what explains it, from main's arguments.
Explain = Callable[[], dict[str, Any]]
Remake = Callable[[Sequence[Any]], tuple[bytes, list[dict[str, Any]], Explain]]


def build(text: str, options: dict[str, Any]) -> tuple[bytes, list[dict[str, Any]]]:
    """Returns an artefact and what the compiler had to say; the rest as for `compile_text`."""
    if options.get("target") == "stablehlo":
        raise ValueError("target 'stablehlo' makes no executable: use scalify.transform")
    artefact, diagnostics = _compiler.compile(text, _to_json(options))
    issue_warnings(diagnostics)
    return artefact, diagnostics


def by_values(text: str, options: dict[str, Any], ranges: RangesLike) -> Remake:
    """Returns what compiles a text by what the arrays of the first call measure."""

    def remake(arrays: Sequence[Any]) -> tuple[bytes, list[dict[str, Any]], Explain]:
        found = measure(list(arrays))
        given = {**options, **argument_options(found)}
        if (assumed := range_option(found, ranges)) is not None:
            given["ranges"] = assumed
        return *build(text, given), explain(text, given)

    return remake


def explain(text: str, options: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Returns what makes the full report of a text, compiling it once more up to Precision."""

    def make() -> dict[str, Any]:
        report: dict[str, Any] = json.loads(_compiler.report(text, _to_json(options)))
        return report

    return make


def _to_json(options: dict[str, Any]) -> str:
    """Returns the options that are set, with the machine's ptxas where the target is a GPU."""
    given = {key: value for key, value in options.items() if value is not None}
    is_gpu = given.get("target", "cpu") not in ("cpu", "stablehlo")
    if is_gpu and (ptxas := _ptxas.find()):
        given.setdefault("ptxas", ptxas)
    return json.dumps(given)
