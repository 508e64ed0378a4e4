"""Compiles StableHLO text to an artefact, with the compiler's own options."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from scalify import _compiler, _ptxas
from scalify._diagnostics import issue_warnings
from scalify.ranges import RangesLike
from scalify.scales import argument_options, measure, range_option

__all__ = ["Explain", "Remake", "build", "decide_formats", "explain", "make_recompiler"]

# `Explain` makes the full report. `Remake` compiles for main's arguments and returns the artefact,
# the diagnostics and an `Explain`.
Explain = Callable[[], dict[str, Any]]
Remake = Callable[[Sequence[Any]], tuple[bytes, list[dict[str, Any]], Explain]]


def build(
    text: str, options: dict[str, Any], quiet: bool = False
) -> tuple[bytes, list[dict[str, Any]]]:
    """Returns an artefact and the compiler's diagnostics; the rest as for `compile_text`.

    With `quiet`, warnings are not issued: for programs that the user did not ask for.
    """
    if options.get("target") == "stablehlo":
        raise ValueError("target 'stablehlo' makes no executable: use scalify.transform")
    artefact, diagnostics = _compiler.compile(text, _to_json(options))
    if not quiet:
        issue_warnings(diagnostics)
    return artefact, diagnostics


def make_recompiler(text: str, options: dict[str, Any], ranges: RangesLike) -> Remake:
    """Returns a function that compiles a text with scales measured from the first call's arrays."""

    def remake(arrays: Sequence[Any]) -> tuple[bytes, list[dict[str, Any]], Explain]:
        found = measure(list(arrays))
        given = {**options, **argument_options(found)}
        if (assumed := range_option(found, ranges)) is not None:
            given["ranges"] = assumed
        return *build(text, given), explain(text, given)

    return remake


def explain(text: str, options: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Returns a function that makes a text's full report by compiling it again up to Precision."""

    def make() -> dict[str, Any]:
        report: dict[str, Any] = json.loads(_compiler.report(text, _to_json(options)))
        return report

    return make


def decide_formats(
    text: str, options: dict[str, Any], corrections: Sequence[int]
) -> list[list[str]]:
    """Returns the formats of a text's dots by each of some values of `noiseExponent`."""
    return _compiler.decide_formats(text, _to_json(options), list(corrections))


def _to_json(options: dict[str, Any]) -> str:
    """Returns the options that are set, with this machine's ptxas if the target is a GPU."""
    given = {key: value for key, value in options.items() if value is not None}
    if _is_gpu(given.get("target", "cpu")) and (ptxas := _ptxas.find()):
        given.setdefault("ptxas", ptxas)
    return json.dumps(given)


def _is_gpu(name: str) -> bool:
    """Returns whether a target of this name or alias is a GPU."""
    rows = _compiler.targets().items()
    return any(row["is_gpu"] for target, row in rows if name in (target, *row["aliases"]))
