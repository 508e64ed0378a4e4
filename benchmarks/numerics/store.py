"""A file of outcomes of long measurements: one JSON line each, to go on where one stopped.

Lines are only ever added, by short writes at the end, so that several processes may share a file
and a run that is cut off loses nothing. A line replaces an earlier one of the same key.
"""

from __future__ import annotations

import datetime
import json
import pathlib
from typing import Any

__all__ = ["RESULTS", "Store"]

# Committed, so that what took hours is there on another day.
RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results"


class Store:
    """Outcomes by their key: everything that an outcome depends on, as a short text."""

    def __init__(self, path: pathlib.Path) -> None:
        """Opens a file, which need not be there yet."""
        self.path = path

    def rows(self) -> dict[str, dict[str, Any]]:
        """Returns the outcomes by their keys, in the order in which these came first."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        return {row["run"]: row for row in map(json.loads, text.splitlines())}

    def get(self, key: str) -> dict[str, Any] | None:
        """Returns one outcome; None where there is none yet."""
        return self.rows().get(key)

    def add(self, key: str, outcome: dict[str, Any]) -> None:
        """Adds one outcome, with today's date."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = {"run": key, "date": f"{datetime.date.today()}", **outcome}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")
