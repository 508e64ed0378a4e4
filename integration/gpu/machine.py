"""Description of the machine for a report: its GPU, driver, libraries and time."""

from __future__ import annotations

import ctypes
import datetime
import functools
import importlib.metadata
import os
import platform
import subprocess
from typing import Any

__all__ = ["about", "cublaslt_version"]

PACKAGES = (
    *("jax", "jaxlib", "optax", "torch", "triton", "numpy", "ml_dtypes", "transformer_engine"),
    *("nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-nccl-cu13"),
)


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def cublaslt_version() -> int | None:
    """Returns the version of the cuBLASLt that the runtime opens, or None."""
    folders = [*os.environ.get("SCALIFY_CUDA_LIBRARIES", "").split(":"), ""]
    names = ("libcublasLt.so.13", "libcublasLt.so.12")
    for path in (os.path.join(folder, name) for name in names for folder in folders):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        library.cublasLtGetVersion.restype = ctypes.c_size_t
        return int(library.cublasLtGetVersion())
    return None


@functools.cache
def about(simulated: bool) -> dict[str, Any]:
    """Returns the machine's description; without a GPU's in a dry run."""
    fields = ("name", "driver_version", "memory.total", "power.limit", "clocks.max.sm")
    query = f"--query-gpu={','.join(fields)}"
    line = None if simulated else _output("nvidia-smi", query, "--format=csv,noheader")
    gpu = dict(zip(fields, line.splitlines()[0].split(", "), strict=False)) if line else None
    nvcc = _output("nvcc", "--version")
    return {
        "gpu": gpu,
        "cuda": nvcc.splitlines()[-1] if nvcc else None,
        "cublaslt": None if simulated else cublaslt_version(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
