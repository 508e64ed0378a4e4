"""The compiler: StableHLO text in, artefact or text out."""

from typing import Any

def compile(text: str, options: str) -> tuple[bytes, list[dict[str, Any]]]:
    """Returns (artefact, diagnostics).

    Args:
        text: a StableHLO module.
        options: a JSON object of CompileOptions' members (include/scalify/Pipeline/Compiler.h).

    Raises:
        scalify.CompileError: the text or the options ask for what cannot be.
        ValueError: `options` is not such an object.
    """

def transform(text: str, options: str) -> tuple[str, str, list[dict[str, Any]]]:
    """Returns (StableHLO text, report as JSON, diagnostics); raises as `compile` does."""

def report(text: str, options: str) -> str:
    """Returns the report of every value as JSON (docs/stages/explain.md); raises as `compile`."""

def opt(text: str, pipeline: str) -> str:
    """Returns the IR text after a pass pipeline in mlir-opt's syntax; raises as `compile` does."""

def recipes() -> list[str]:
    """Returns the names of the recipes that are built in."""
