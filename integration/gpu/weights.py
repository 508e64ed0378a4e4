"""Weights of 8B shapes, created where they are used: the same for our step and for jax.jit's."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime import DTYPES, Tensor

__all__ = ["fill", "normal"]

DEVIATION = 0.02
# For matrices that write into the residual stream, as in the example, with 8B's 32 layers.
RESIDUAL = DEVIATION / (2 * 32) ** 0.5
# Odd, so that rows of a matrix, whose lengths are even, differ where the block repeats.
BLOCK = (1 << 22) - 3


@functools.cache
def _block() -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal(BLOCK, np.float32)


def normal(tensor: Tensor, deviation: float = 1.0) -> NDArray[Any]:
    """Returns normal numbers; each name gets another part of one block."""
    count = int(np.prod(tensor.shape, dtype=np.int64))
    turned = np.roll(_block() * np.float32(deviation), zlib.crc32(tensor.name.encode()) % BLOCK)
    values = np.resize(turned.astype(DTYPES[tensor.dtype]).view(_word(tensor.dtype)), count)
    return values.view(DTYPES[tensor.dtype]).reshape(tensor.shape)


def _word(dtype: str) -> Any:
    return {1: np.uint8, 2: np.uint16, 4: np.uint32}[np.dtype(DTYPES[dtype]).itemsize]


def fill(tensor: Tensor, stored: Mapping[str, Any] | None = None) -> NDArray[Any]:
    """Returns the initial value of an argument of a training step or layer, by its name.

    Norm gains are one, matrices and a layer's inputs are normal as in the example, the optimizer's
    state is zero. Tokens are bytes: any vocabulary has them.

    Args:
        tensor: the argument.
        stored: how a recipe stores it narrow (docs/stages/state.md); data times two to its
            exponent are the values.
    """
    if "batch" in tensor.name:
        rng = np.random.default_rng(1)
        return rng.integers(0, 256, tensor.shape).astype(np.int32)
    if tensor.name in ("x", "grad"):
        return normal(tensor)
    if not tensor.name.startswith(("params", "layer")):
        return np.zeros(tensor.shape, DTYPES[tensor.dtype])
    unit = 2.0 ** -(stored["exponent"] if stored else 0)
    if "norm" in tensor.name:
        return np.full(tensor.shape, unit, DTYPES[tensor.dtype])
    writes = "'wo'" in tensor.name or "'w_down'" in tensor.name
    return normal(tensor, (RESIDUAL if writes else DEVIATION) * unit)
