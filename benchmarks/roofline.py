"""Compares each class of commands of a training step with what this machine does at most.

Peaks of the cores (`peaks.cpp`) are measured before and after the step, in the same run; the larger
one counts. A product's roof is the time of its products at the peak of the unit that ran it, or
that of its bytes at the bandwidth of memory, whichever is longer; a kernel's roof is that of its
bytes. Bytes that a cache holds move faster, so that a share may be above 100 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import jax
import numpy as np

import scalify
from scalify import _runtime
from suite_models import SUITE

__all__ = ["main"]

HERE = pathlib.Path(__file__).parent
STEPS = 5


@dataclasses.dataclass
class Class:
    """Commands of one kind in a step: milliseconds, products and sums, bytes."""

    name: str
    unit: str = ""
    calls: float = 0
    ms: float = 0
    flops: float = 0
    bytes: float = 0

    def share_of_roof(self, peaks: dict[str, float]) -> float:
        """Returns the least possible time over the measured one."""
        seconds = self.bytes / (1e9 * peaks["memory"])
        if self.unit and peaks[self.unit]:
            seconds = max(seconds, self.flops / (1e9 * peaks[self.unit]))
        return 1e3 * seconds / self.ms if self.ms else 0.0


def build_peaks(folder: pathlib.Path) -> pathlib.Path:
    """Compiles peaks.cpp for this machine."""
    program = folder / "peaks"
    source = str(HERE / "peaks.cpp")
    subprocess.run(
        ["c++", "-O3", "-march=native", "-pthread", source, "-o", str(program)], check=True
    )
    return program


def measure_peaks(program: pathlib.Path, threads: int) -> dict[str, float]:
    """Returns GFLOP/s by unit, and GB/s of memory."""
    out = subprocess.run([program, str(threads)], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def classes_of(step: scalify.Executable, rows: list[dict[str, Any]], unit: str) -> list[Class]:
    """Groups the profile's rows of @step: GEMMs by type, kernels by name."""
    buffers = step.manifest["buffers"]
    commands = step.manifest["functions"]["step"]
    found: dict[str, Class] = {}
    for row, command in zip(
        (row for row in rows if row["function"] == "step"), commands, strict=True
    ):
        name, of = row["name"], ""
        if row["op"] == "gemm":
            narrow = buffers[command["a"]]["dtype"] == "bf16"
            of = unit if narrow else "f32"
            kind = "in tiles" if command.get("tiles") else "whole"
            name = f"products of {'BF16' if narrow else 'F32'}, {kind}"
        one = found.setdefault(name, Class(name, of))
        one.calls += row["calls"] / STEPS
        one.ms += 1e-6 * row["nanoseconds"] / STEPS
        one.flops += row["flops"] * row["calls"] / STEPS
        one.bytes += row["bytes"] * row["calls"] / STEPS
    return sorted(found.values(), key=lambda one: -one.ms)


def profile(name: str, recipe: str) -> tuple[scalify.Executable, list[dict[str, Any]]]:
    """Runs some steps of a model; returns the executable and its profile."""
    case = SUITE[name]()
    step = scalify.jit(case.step, recipe=recipe, donate_argnums=0)
    state = jax.tree.map(jax.numpy.array, case.state)
    executable = step.executable(state, case.batch)
    for _ in range(3):
        state, loss = step(state, case.batch)
        np.asarray(loss)
    executable.profiling(True)
    for _ in range(STEPS):
        state, loss = step(state, case.batch)
        np.asarray(loss)
    return executable, executable.profile()


def table(classes: list[Class], peaks: dict[str, float], least: float) -> list[str]:
    """Returns a table of the classes that take at least a share of the step."""
    total = sum(one.ms for one in classes)
    lines = [
        "| commands | calls | ms | of the step | GFLOP/s | GB/s | of the roof |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in classes:
        if one.ms < least * total:
            continue
        rate = f"{1e-6 * one.flops / one.ms:,.0f}" if one.flops else ""
        lines.append(
            f"| {one.name} | {one.calls:.0f} | {one.ms:.2f} | {one.ms / total:.1%} | {rate} | "
            f"{1e-6 * one.bytes / one.ms:.1f} | {one.share_of_roof(peaks):.0%} |"
        )
    above = sum(one.ms for one in classes if one.share_of_roof(peaks) >= 0.6)
    lines += [
        "",
        f"{above / total:.0%} of the step's time is in commands above 60 % of their roof.",
    ]
    return lines


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", nargs="*", choices=SUITE, default=["llama-256", "llama-768"])
    parser.add_argument("--recipes", nargs="*", default=["none", "bf16", "fp8"])
    parser.add_argument(
        "--least", type=float, default=0.01, help="share of the step to show (0.01)"
    )
    options = parser.parse_args()
    unit = _runtime.product_unit()
    threads = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        program = build_peaks(pathlib.Path(folder))
        for name in options.models:
            for recipe in options.recipes:
                before = measure_peaks(program, threads)
                executable, rows = profile(name, recipe)
                after = measure_peaks(program, threads)
                peaks = {key: max(before[key], after[key]) for key in before}
                classes = classes_of(executable, rows, unit)
                print(f"\n### `{name}`, `{recipe}`\n")
                print(
                    f"{threads} threads; peaks: F32 {peaks['f32']:,.0f} GFLOP/s, BF16 on {unit} "
                    f"{peaks.get(unit, 0):,.0f}, memory {peaks['memory']:.0f} GB/s.\n"
                )
                print("\n".join(table(classes, peaks, options.least)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
