"""Shared by all kinds of checks: settings, outcomes of a check, the check of a recording."""

from __future__ import annotations

import dataclasses
import json
import lzma
import pathlib
import re
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime import Executable, Library

__all__ = ["Check", "Figures", "Settings", "Skip", "Wrong", "recorded", "times"]

Check = dict[str, Any]
Figures = dict[str, Any]


class Skip(Exception):  # noqa: N818
    """Raised by a check that cannot run; the text says why."""


class Wrong(Exception):  # noqa: N818
    """Raised for a wrong result, with the figures that show it."""

    def __init__(self, text: str, figures: Figures) -> None:
        super().__init__(text, figures)
        self.text, self.figures = text, figures


@dataclasses.dataclass(frozen=True)
class Settings:
    """Paths, and the device: "cuda" or "null"."""

    folder: pathlib.Path
    library: pathlib.Path
    bench: pathlib.Path | None
    device: str

    @property
    def simulated(self) -> bool:
        """True if calls are only recorded."""
        return self.device == "null"

    def load(self, artefact: str) -> Executable:
        """Loads an artefact of the folder."""
        content = lzma.decompress((self.folder / artefact).read_bytes())
        return Executable(Library(self.library), content, self.device)

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Reads arrays of the folder."""
        with np.load(self.folder / name) as file:
            found = dict(file)
        same: dict[str, str] = json.loads(str(found.pop("same")))
        return found | {key: found[equal] for key, equal in same.items()}


def recorded(exe: Executable) -> Figures:
    """Checks the record of a step against the plan: every kernel and product must be issued.

    Raises:
        Wrong: one was not.
    """
    commands = [*exe.manifest["functions"]["step"]]
    for command in commands:  # also of loops, which are found on the way
        if command["op"] == "loop":
            commands += exe.manifest["functions"][command["function"]]["commands"]
    launched = re.findall(r"^cuLaunchKernel (\w+)", "\n".join(exe.trace), re.MULTILINE)
    products = sum(line.startswith("cublasLtMatmul ") for line in exe.trace)
    symbols = {command["symbol"] for command in commands if command["op"] == "kernel"}
    gemms = sum(command["op"] == "gemm" for command in commands)
    behind = sum(
        bool(re.match(r"cublasLtMatmul .* \| .*( d?relu| d?gelu| bias=)", line))
        for line in exe.trace
    )
    epilogues = sum("epilogue" in command for command in commands)
    stored = sum(bool(re.match(r"cublasLtMatmul .* d=f8", line)) for line in exe.trace)
    narrow = sum(command.get("dtype", "").startswith("f8") for command in commands)
    attentions = sum(line.startswith("cudnnExecute ") for line in exe.trace)
    planned = sum(command["op"] == "attention" for command in commands)
    calls = r"^nccl(AllGather|AllReduce|Broadcast|ReduceScatter|Send) "
    exchanged = len(re.findall(calls, "\n".join(exe.trace), re.MULTILINE))
    collectives = sum(command["op"] == "collective" for command in commands)
    figures = {
        "recorded_launches": len(launched),
        "recorded_products": products,
        "recorded_epilogues": behind,
        "recorded_casts": stored,
        "recorded_attentions": attentions,
        "recorded_collectives": exchanged,
    }
    if missing := sorted(symbols - set(launched)):
        raise Wrong(f"kernels that were not launched: {', '.join(missing[:5])}", figures)
    if products < gemms:
        raise Wrong(f"{products} products were issued, but the plan has {gemms}", figures)
    if behind < epilogues:
        raise Wrong(f"{behind} products have epilogues, but {epilogues} of the plan", figures)
    if stored < narrow:
        raise Wrong(f"{stored} products are stored as FP8, but {narrow} of the plan", figures)
    if attentions < planned:
        raise Wrong(f"{attentions} attentions were issued, but the plan has {planned}", figures)
    if exchanged < collectives:
        raise Wrong(f"{exchanged} exchanges, but the plan has {collectives}", figures)
    return figures


def times(exe: Executable, steps: int) -> list[float]:
    """Returns milliseconds of steps: the first three warm up, and the second captures a graph."""
    found = []
    for _ in range(steps + 3):
        started = time.perf_counter()
        exe.run()
        found.append(1e3 * (time.perf_counter() - started))
    return found[3:]
