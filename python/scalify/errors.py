"""The errors that Scalify raises."""

from __future__ import annotations

from typing import Any

__all__ = ["CompileError"]

Diagnostic = dict[str, Any]


def format_diagnostic(diagnostic: Diagnostic) -> str:
    """Returns one diagnostic as text: location, severity, message, quoted line, notes."""
    where = f"{diagnostic['location']}: " if diagnostic["location"] else ""
    lines = [f"{where}{diagnostic['severity']}: {diagnostic['message']}"]
    if diagnostic["source"]:
        lines.append(f"  | {diagnostic['source']}")
    for note in diagnostic["notes"]:
        where = f"{note['location']}: " if note["location"] else ""
        lines.append(f"  {where}note: {note['message']}")
    return "\n".join(lines)


class CompileError(ValueError):
    """The program cannot be compiled with the given options.

    Attributes:
        diagnostics: dictionaries with `severity` ("error", "warning", "remark"), `message`
            (names the op), `location` (`file:line:column (JAX's names)`), `source` (the line
            of the text, or ""), `notes` (each with `message` and `location`).
    """

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        self.diagnostics = diagnostics
        errors = [entry for entry in diagnostics if entry["severity"] == "error"]
        super().__init__("\n".join(format_diagnostic(entry) for entry in errors or diagnostics))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.diagnostics,)
