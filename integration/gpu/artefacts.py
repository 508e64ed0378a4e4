"""The folder that travels to a machine with a GPU: artefacts, arrays, and the plan of checks."""

from __future__ import annotations

import datetime
import json
import lzma
import pathlib
import struct
import subprocess
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalify import _compiler, _ptxas

__all__ = ["ROOT", "Folder", "commit", "manifest_of"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Estimated seconds of a small check, and the least budget of a check.
EXPECT, BUDGET = 2.0, 60.0


def commit() -> str:
    """Returns the commit of the tree, with a mark if files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def manifest_of(artefact: bytes) -> dict[str, Any]:
    """Returns an artefact's table of contents (docs/runtime.md has the format)."""
    (length,) = struct.unpack_from("<Q", artefact, 8)
    manifest: dict[str, Any] = json.loads(artefact[32 : 32 + length])
    return manifest


class Folder:
    """The content prepared so far."""

    def __init__(self, path: pathlib.Path, small: bool = False) -> None:
        self.path = path
        self._small = small
        self._checks: list[dict[str, Any]] = []
        path.mkdir(parents=True, exist_ok=True)

    def artefact(self, name: str, text: str, **options: Any) -> str:
        """Compiles text for a GPU; returns the name of the file, compressed to a tenth.

        For a test of the script, steps are not assembled: on a recording their kernels do not run.
        """
        is_step = options.get("recipe", "none") != "none"
        ptxas = "none" if self._small and is_step else _ptxas.find() or ""
        given = {"recipe": "none", "target": "sm_90a", "ptxas": ptxas, **options}
        artefact, _ = _compiler.compile(text, json.dumps(given))
        file = f"{name.replace(' ', '-').replace(',', '')}.scalify.xz"
        (self.path / file).write_bytes(lzma.compress(artefact))
        return file

    def peak(self, file: str) -> int:
        """Returns the bytes that an artefact's plan needs."""
        return int(manifest_of(lzma.decompress((self.path / file).read_bytes()))["memory"]["peak"])

    def arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> str:
        """Writes arrays as raw bits, since NumPy's files lack BF16; returns the file's name."""
        file = f"{name.replace(' ', '-').replace(',', '')}.npz"
        bits: dict[str, NDArray[Any]] = {}
        # Arrays with equal contents are stored once.
        first: dict[tuple[Any, ...], str] = {}
        same: dict[str, str] = {}
        for key, array in arrays.items():
            found = _bits(np.ascontiguousarray(array))
            equal = first.setdefault((found.dtype, found.shape, found.tobytes()), key)
            if equal == key:
                bits[key] = found
            else:
                same[key] = equal
        bits["same"] = np.array(json.dumps(same))
        np.savez_compressed(self.path / file, **bits)  # type: ignore[arg-type]
        return file

    def add(
        self, name: str, kind: str, rank: int = 99, expect: float = EXPECT, **members: Any
    ) -> None:
        """Adds a check to the plan (kinds.py implements each kind).

        Args:
            name: unique among the checks.
            kind: the function that runs it.
            rank: its place: lower ranks run first, so that the most important figures exist if the
                time on a GPU ends early.
            expect: its estimated seconds; it does not start if fewer are left.
            members: the kind's parameters.
        """
        budget = max(BUDGET, 3 * expect)
        check = {"name": name, "kind": kind, "rank": rank, "expect": expect, "budget": budget}
        self._checks.append({**check, **members})

    @property
    def seconds(self) -> float:
        """The estimated seconds of all checks."""
        return sum(check["expect"] for check in self._checks)

    def finish(self, small: bool) -> int:
        """Writes the plan; returns the bytes of the folder."""
        plan = {
            "commit": commit(),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "small": small,
            "checks": sorted(self._checks, key=lambda check: check["rank"]),
        }
        (self.path / "plan.json").write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    """Returns an array of the same bytes with a dtype of NumPy's own."""
    if array.dtype.isbuiltin == 1:
        return array
    return array.view({1: np.uint8, 2: np.uint16}[array.itemsize])
