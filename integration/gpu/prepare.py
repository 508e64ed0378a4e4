"""Prepares the checks of run.sh for a machine with a GPU and without the compiler.

Writes artefacts for sm_90a, their inputs, their expected results (by NumPy, ml_dtypes, or the same
programs' CPU executables), and plan.json, which lists the checks in the order in which they run.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import sys
import sysconfig
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples" / "llama")]

import behind
import jax.numpy as jnp
import large
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

# A copy of the repository, 6 MiB, travels beside it; some hosts accept 64 MiB in all.
LIMIT = 56 << 20
HEADERS = pathlib.Path("/usr/include")
# Products of a timed step: those after the first are issued while it runs.
PRODUCTS = 4
# (m, n, k): two common square benchmarks, and LLaMA 3 8B's at 2,048 and 8,192 tokens.
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
    # A CPU sums over ranks in one way only.
    options = {key: value for key, value in program.options.items() if key != "sums"}
    exe = compile_text(program.text, {"recipe": "none", "target": "cpu", **options})
    return [np.array(result) for result in exe(*(np.array(value) for value in program.inputs))]


def short(magnitude: NDArray[Any]) -> NDArray[np.float32]:
    """Returns upper bounds, less than 2^-7 larger, whose lower 16 bits are zero."""
    words = magnitude.astype(np.float32).view(np.uint32)
    return ((words + np.uint32(0xFFFF)) & np.uint32(0xFFFF0000)).view(np.float32)


def add_values(folder: Folder, program: cases.Program, rank: int) -> None:
    """Adds a program with its inputs and its expected results.

    Raises:
        RuntimeError: the CPU executable's results differ from independent ones.
    """
    found = on_cpu(program)
    wanted = found if program.expected is None else list(program.expected)
    if program.judge == "bits":
        for got, want in zip(found, wanted, strict=True):
            if not judge.bits(got, want)[0]:
                raise RuntimeError(f"{program.name}: the CPU's codes are not ml_dtypes'")
    arrays = {f"arg{i}": np.asarray(value) for i, value in enumerate(program.inputs)}
    for index, want in enumerate(wanted):
        # F32 has four times the digits that the bar of a product needs.
        arrays[f"result{index}"] = want.astype(np.float32) if want.dtype == np.float64 else want
    if program.magnitude is not None:
        arrays["magnitude"] = short(program.magnitude)
    folder.add(
        program.name,
        "values",
        rank=rank,
        artefact=folder.artefact(program.name, program.text, **program.options),
        data=folder.arrays(program.name, arrays),
        judge=program.judge,
        tolerance=program.tolerance,
    )


def add_gemms(folder: Folder, small: bool) -> None:
    """Adds products to time; the bare cuBLASLt program times the same products."""
    shapes = ((64, 128, 256),) if small else SHAPES
    types = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "bf16": ml_dtypes.bfloat16}
    for name, dtype in types.items():
        for m, n, k in shapes:
            text = cases.lowered(m, n, k, dtype, jnp.bfloat16, PRODUCTS)
            artefact = folder.artefact(f"time-{name}-{m}-{n}-{k}", text)
            title = f"time of gemm {name} {m} x {n} x {k}"
            members = {"artefact": artefact, "type": name, "shape": [m, n, k], "bare": True}
            folder.add(title, "gemm", rank=30, expect=8, **members)
    for scaling in cases.SCALINGS:
        name = f"f8E4M3FN {scaling}"
        for m, n, k in shapes[:3]:
            text = cases.many_scales(m, n, k, scaling)
            artefact = folder.artefact(f"time-{name}-{m}-{n}-{k}", text, compileFrom="precision")
            title = f"time of gemm {name} {m} x {n} x {k}"
            members = {"artefact": artefact, "type": name, "shape": [m, n, k], "bare": False}
            folder.add(title, "gemm", rank=85, expect=4, **members)
    folder.add("products beside bare cuBLASLt", "gemms")


def frontend() -> pathlib.Path | None:
    """Returns the folder with the headers of cuDNN's frontend, or None."""
    named = os.environ.get("CUDNN_FRONTEND_PATH", "")
    places = [ROOT / "out" / "cudnn-frontend", pathlib.Path(sysconfig.get_path("purelib"))]
    for place in [pathlib.Path(named), *places] if named else places:
        if (place / "include" / "cudnn_frontend.h").exists():
            return place / "include"
    return None


def add_headers(path: pathlib.Path, small: bool) -> None:
    """Copies headers that a machine with a GPU may lack.

    Raises:
        FileNotFoundError: those of cuDNN's frontend are not here.
    """
    (path / "include").mkdir()
    for name in ("nlohmann", "oneapi/dnnl"):
        if (HEADERS / name).is_dir():
            shutil.copytree(HEADERS / name, path / "include" / name)
    if (HEADERS / "xxhash.h").exists():
        shutil.copy(HEADERS / "xxhash.h", path / "include")
    if small:
        return
    found = frontend()
    if found is None:
        raise FileNotFoundError(
            "cudnn_frontend.h: steps of 8B shapes need attention by cuDNN. Get it by: "
            f"pip install --no-deps --target {ROOT}/out/cudnn-frontend nvidia-cudnn-frontend, "
            "or name its folder in CUDNN_FRONTEND_PATH"
        )
    for item in found.glob("cudnn_*"):
        copy = shutil.copytree if item.is_dir() else shutil.copy
        copy(item, path / "include" / item.name)


def add_small(folder: Folder, small: bool) -> None:
    """Adds all programs whose results are compared one by one."""
    products = (cases.products, behind.epilogues)
    groups = (cases.conversions, cases.kernels, *products, cases.attentions)
    for group in (*groups, exchanges.exchanges):
        for program in group(small):
            add_values(folder, program, 78 if group is exchanges.exchanges else 0)
            print(f"prepared {program.name}", flush=True)


GROUPS = {
    "values": add_small,
    "example": steps.add_example,
    "training": steps.add_training,
    "gemms": add_gemms,
    "large": large.add_large,
    "micro-batches": large.add_micro_batches,
    "blocks": large.add_blocks,
    "middle": large.add_middle,
}


def prepare(path: pathlib.Path, small: bool) -> int:
    """Fills a folder; returns its bytes."""
    if path.exists():
        shutil.rmtree(path)
    folder = Folder(path, small)
    add_headers(path, small)
    for name, group in GROUPS.items():
        group(folder, small)
        print(f"prepared {name}", flush=True)
    folder.add("what the bars say", "bars")
    size = folder.finish(small)
    print(f"{folder.seconds / 60:.0f} minutes on a GPU, by the estimates")
    return size


def main() -> int:
    """Runs the command; returns 1 if the folder is too large to travel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "gpu")
    parser.add_argument("--small", action="store_true", help="few and tiny, for a test")
    options = parser.parse_args()
    size = prepare(options.out, options.small)
    print(f"{options.out}: {size / (1 << 20):.1f} MiB")
    return int(size > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
