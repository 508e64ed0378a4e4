"""Finds NVIDIA's assembler: on the search path, in a CUDA toolkit, or in PyPI's wheel."""

from __future__ import annotations

import importlib.util
import pathlib
import shutil

__all__ = ["find"]

TOOLKIT = "/usr/local/cuda/bin"


def find() -> str | None:
    """Returns the path of ptxas, or None if there is none (PyPI's nvidia-cuda-nvcc has one)."""
    if found := shutil.which("ptxas") or shutil.which("ptxas", path=TOOLKIT):
        return found
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(pathlib.Path(folder).glob("*/bin/ptxas")):
            return str(path)
    return None
