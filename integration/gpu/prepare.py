"""Writes what a machine with a GPU needs for the checks of run.sh: no compiler is there.

Artefacts for sm_90a, their inputs, what they must give (by NumPy, ml_dtypes, or the same
programs' CPU executables), and plan.json, which lists the checks in the order in which they run.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples" / "llama")]

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import cases
import exchanges
import judge
import steps
from artefacts import Folder
from scalify._executable import compile_text

__all__ = ["main"]

LIMIT = 60 << 20
HEADERS = pathlib.Path("/usr/include/nlohmann")
# (m, n, k): two squares that everyone measures, and LLaMA 3 8B's at 2,048 and 8,192 tokens.
SHAPES = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (2048, 4096, 4096),
    (2048, 14336, 4096),
    (2048, 4096, 14336),
    (8192, 14336, 4096),
    (8192, 4096, 14336),
)


def on_cpu(program: cases.Program) -> list[NDArray[Any]]:
    """Returns the results of the CPU executable."""
    # A CPU has one way to sum over ranks.
    options = {key: value for key, value in program.options.items() if key != "sums"}
    exe = compile_text(program.text, {"recipe": "none", "target": "cpu", **options})
    return [np.array(result) for result in exe(*(np.array(value) for value in program.inputs))]


def add_values(folder: Folder, program: cases.Program) -> None:
    """Adds a program with its inputs and the results that it must give.

    Raises:
        RuntimeError: the CPU executable does not give what another way of computing says.
    """
    found = on_cpu(program)
    wanted = found if program.expected is None else list(program.expected)
    if program.judge == "bits":
        for got, want in zip(found, wanted, strict=True):
            if not judge.bits(got, want)[0]:
                raise RuntimeError(f"{program.name}: the CPU's codes are not ml_dtypes'")
    arrays = {f"arg{i}": np.asarray(value) for i, value in enumerate(program.inputs)}
    for index, want in enumerate(wanted):
        # A product in F64 has four times the digits that its bar needs.
        arrays[f"result{index}"] = want.astype(np.float32) if want.dtype == np.float64 else want
    if program.magnitude is not None:
        arrays["magnitude"] = program.magnitude.astype(np.float32)
    folder.add(
        program.name,
        "values",
        artefact=folder.artefact(program.name, program.text, **program.options),
        data=folder.arrays(program.name, arrays),
        judge=program.judge,
        tolerance=program.tolerance,
    )


def add_gemms(folder: Folder, small: bool) -> None:
    """Adds products to time, and the bare cuBLASLt program on the same shapes."""
    shapes = ((64, 128, 256),) if small else SHAPES
    types = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "bf16": ml_dtypes.bfloat16}
    asked = [[name, *shape] for name in types for shape in shapes]
    folder.add("bare cuBLASLt", "bench", shapes=asked, budget=120)
    for name, dtype in types.items():
        for m, n, k in shapes:
            text = cases.lowered(m, n, k, dtype, jnp.bfloat16)
            artefact = folder.artefact(f"time-{name}-{m}-{n}-{k}", text)
            title = f"time of gemm {name} {m} x {n} x {k}"
            folder.add(title, "gemm", artefact=artefact, type=name, shape=[m, n, k])
    for scaling in cases.SCALINGS:
        name = f"f8E4M3FN {scaling}"
        for m, n, k in shapes[:3]:
            text = cases.many_scales(m, n, k, scaling)
            artefact = folder.artefact(f"time-{name}-{m}-{n}-{k}", text, compileFrom="precision")
            title = f"time of gemm {name} {m} x {n} x {k}"
            folder.add(title, "gemm", artefact=artefact, type=name, shape=[m, n, k])
    folder.add("products beside bare cuBLASLt", "gemms")


def prepare(path: pathlib.Path, small: bool) -> int:
    """Fills a folder; returns its bytes."""
    if path.exists():
        shutil.rmtree(path)
    folder = Folder(path)
    for group in (
        *(cases.conversions, cases.kernels, cases.products, cases.epilogues, cases.attentions),
        exchanges.exchanges,
    ):
        for program in group(small):
            add_values(folder, program)
            print(f"prepared {program.name}", flush=True)
    steps.add_example(folder, small)
    print("prepared the example", flush=True)
    add_gemms(folder, small)
    steps.add_training(folder, small)
    steps.add_large(folder, small)
    folder.add("largest micro-batch at a cap of bytes", "skip", reason="not written")
    if HEADERS.is_dir():
        shutil.copytree(HEADERS, path / "include" / "nlohmann")
    return folder.finish(small)


def main() -> int:
    """Runs the command; returns 1 where the folder is too large to travel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "gpu")
    parser.add_argument("--small", action="store_true", help="few and tiny, for a test")
    options = parser.parse_args()
    size = prepare(options.out, options.small)
    print(f"{options.out}: {size / (1 << 20):.1f} MiB")
    return int(size > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
