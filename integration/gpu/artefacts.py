"""The folder that travels to a machine with a GPU: artefacts, arrays, and the plan of checks."""

from __future__ import annotations

import datetime
import json
import pathlib
import subprocess
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalify import _compiler, _ptxas

__all__ = ["ROOT", "Folder", "commit"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUDGET = 60  # seconds


def commit() -> str:
    """Returns the commit of the tree, with a mark where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


class Folder:
    """What is prepared so far."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._checks: list[dict[str, Any]] = []
        path.mkdir(parents=True, exist_ok=True)

    def artefact(self, name: str, text: str, **options: Any) -> str:
        """Compiles text for a GPU; returns the file's name."""
        given = {"recipe": "none", "target": "sm_90a", "ptxas": _ptxas.find() or "", **options}
        artefact, _ = _compiler.compile(text, json.dumps(given))
        file = f"{name.replace(' ', '-').replace(',', '')}.scalify"
        (self.path / file).write_bytes(artefact)
        return file

    def arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> str:
        """Writes arrays by their bits, as NumPy's files know no BF16; returns the file's name."""
        file = f"{name.replace(' ', '-').replace(',', '')}.npz"
        bits = {key: _bits(np.ascontiguousarray(array)) for key, array in arrays.items()}
        np.savez_compressed(self.path / file, **bits)  # type: ignore[arg-type]
        return file

    def add(self, name: str, kind: str, budget: float = BUDGET, **members: Any) -> None:
        """Adds a check to the plan (kinds.py has what each kind does)."""
        self._checks.append({"name": name, "kind": kind, "budget": budget, **members})

    def finish(self, small: bool) -> int:
        """Writes the plan; returns the bytes of the folder."""
        plan = {
            "commit": commit(),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "small": small,
            "checks": self._checks,
        }
        (self.path / "plan.json").write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    """Returns an array whose dtype is NumPy's own, of the same bytes."""
    if array.dtype.isbuiltin == 1:
        return array
    return array.view({1: np.uint8, 2: np.uint16}[array.itemsize])
