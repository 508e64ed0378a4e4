"""A file of outcomes of long measurements, one JSON line each, so that a run can be resumed.

Lines are only appended, by short writes, so that several processes may share a file and an
interrupted run loses nothing. A line replaces an earlier one of the same key.
"""

from __future__ import annotations

import datetime
import json
import pathlib
from typing import Any

__all__ = ["RESULTS", "Store"]

# Committed, so that results of hours remain available.
RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results"


class Store:
    """Outcomes by key, a short text of all parameters that an outcome depends on."""

    def __init__(self, path: pathlib.Path) -> None:
        """Opens a file, which need not exist yet."""
        self.path = path

    def rows(self) -> dict[str, dict[str, Any]]:
        """Returns the outcomes by key, in the order of their first lines."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        return {row["run"]: row for row in map(json.loads, text.splitlines())}

    def get(self, key: str) -> dict[str, Any] | None:
        """Returns one outcome; None if it does not exist yet."""
        return self.rows().get(key)

    def add(self, key: str, outcome: dict[str, Any]) -> None:
        """Adds one outcome, with today's date."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = {"run": key, "date": f"{datetime.date.today()}", **outcome}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")
