"""Weights of 8B shapes, made where they are used: the same for our step and for jax.jit's."""

from __future__ import annotations

import functools
import subprocess
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime import DTYPES, Tensor

__all__ = ["fill", "memory_used", "normal"]

DEVIATION = 0.02
# Odd, so that rows of a matrix, whose lengths are even, are not equal where the block repeats.
BLOCK = (1 << 22) - 3


@functools.cache
def _block() -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal(BLOCK, np.float32)


def normal(tensor: Tensor, deviation: float = 1.0) -> NDArray[Any]:
    """Returns normal numbers; another part of one block of them for each name."""
    count = int(np.prod(tensor.shape, dtype=np.int64))
    turned = np.roll(_block() * np.float32(deviation), zlib.crc32(tensor.name.encode()) % BLOCK)
    values = np.resize(turned.astype(DTYPES[tensor.dtype]).view(_word(tensor.dtype)), count)
    return values.view(DTYPES[tensor.dtype]).reshape(tensor.shape)


def _word(dtype: str) -> Any:
    return {1: np.uint8, 2: np.uint16, 4: np.uint32}[np.dtype(DTYPES[dtype]).itemsize]


def fill(tensor: Tensor, vocab: int = 256) -> NDArray[Any]:
    """Returns what an argument of a training step starts from, by its name.

    Norm gains are one, matrices are normal, the optimizer's state is zero. Tokens are bytes: any
    vocabulary has them.
    """
    if "batch" in tensor.name:
        rng = np.random.default_rng(1)
        return rng.integers(0, vocab, tensor.shape).astype(np.int32)
    if not tensor.name.startswith("params"):
        return np.zeros(tensor.shape, DTYPES[tensor.dtype])
    if "norm" in tensor.name:
        return np.ones(tensor.shape, DTYPES[tensor.dtype])
    return normal(tensor, DEVIATION)


def memory_used() -> int | None:
    """Returns MiB of the first GPU's memory that are in use, or None where nvidia-smi is not."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout.split()[0])
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return None
