"""Whether a program's whole step goes through the compiler under strict, with no fallback."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import jax
from jax.extend.mlir import ir
from jax.interpreters import mlir as jax_mlir
from program import Program

import scalify
from scalify import _compiler

__all__ = ["Outcome", "lower", "propagate"]

# What the compiler remarks where it falls back; a recipe's own choices say so in brackets.
_FALLBACK = re.compile(r"has no scale rule|stays wide: (body|scale):")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a step.

    Attributes:
        text: the rewritten StableHLO; empty if there is none.
        rows: the report's rows.
        faults: errors under strict, fallbacks without it; each with its place.
    """

    text: str
    rows: list[dict[str, Any]]
    faults: list[str]


def lower(program: Program) -> str:
    """Returns the step's StableHLO text, with locations and with donated state."""
    traced = jax.jit(program.step, donate_argnums=(0, 1), keep_unused=True).trace(
        program.params, program.state, program.batch(0)
    )
    lowered = traced.lower(lowering_platforms=(program.platform,))
    return lowered.as_text(debug_info=True)


def propagate(program: Program, recipe: str, text: str | None = None) -> Outcome:
    """Rewrites the step strictly; parses the text with jaxlib.

    Every fault is found, also behind the first: the step is rewritten without strict as well.
    `text` is the lowered step, where it is at hand.
    """
    text = lower(program) if text is None else text
    arguments = (program.params, program.state, program.batch(0))
    options = {"recipe": recipe, "scales": scalify.measure(arguments).entries()}
    faults = []
    try:
        output, rows, remarks = _compiler.transform(text, json.dumps({**options, "strict": True}))
        faults += [_describe(remark) for remark in remarks if _FALLBACK.search(remark["message"])]
    except scalify.CompileError as error:
        faults += [_describe(found) for found in error.diagnostics if found["severity"] == "error"]
        try:
            output, rows, remarks = _compiler.transform(text, json.dumps(options))
        except scalify.CompileError:
            return Outcome("", [], faults)
        known = set(faults)
        found = [_describe(remark) for remark in remarks if _FALLBACK.search(remark["message"])]
        faults += [fault for fault in found if fault not in known]
    try:
        with jax_mlir.make_ir_context():
            ir.Module.parse(output)
    except Exception as error:  # whatever jaxlib raises, the text is at fault
        faults.append(f"jaxlib does not parse the text: {error}"[:400])
    return Outcome(output, json.loads(rows), faults)


def _describe(diagnostic: dict[str, Any]) -> str:
    return f"{diagnostic['message']} at {diagnostic['location']}"
