"""Element types: MLIR's names and numpy's types (ml_dtypes for bf16 and f8)."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np

__all__ = ["from_numpy", "limits", "misfit_of", "to_numpy"]

_TYPES: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
    "ui64": np.uint64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
    "i2": ml_dtypes.int2,
    "i4": ml_dtypes.int4,
    "ui2": ml_dtypes.uint2,
    "ui4": ml_dtypes.uint4,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}

# Why a step takes no masked array.
MASKED = "a masked array, whose mask a step would not see: give array.filled(..) and the mask"

# Integers of less than a byte.
PACKED = tuple(np.dtype(_TYPES[name]) for name in ("i2", "i4", "ui2", "ui4"))


def to_numpy(element: str) -> np.dtype[Any]:
    """Returns the numpy type of an element type such as "bf16".

    Raises:
        ValueError: numpy has no such type.
    """
    try:
        return np.dtype(_TYPES[element])
    except KeyError:
        raise ValueError(f"element type '{element}' has no numpy type") from None


def from_numpy(dtype: np.dtype[Any]) -> str:
    """Returns MLIR's name of a numpy type.

    Raises:
        ValueError: the type is not supported.
    """
    for name, known in _TYPES.items():
        if dtype == known:
            return name
    raise ValueError(f"numpy type '{dtype}' has no element type")


def limits(element: str) -> tuple[float, float]:
    """Returns the smallest positive and the largest finite value of a floating-point type.

    Raises:
        ValueError: numpy has no such type.
    """
    finfo: Any = ml_dtypes.finfo
    info = finfo(to_numpy(element))
    return float(info.smallest_subnormal), float(info.max)


def misfit_of(array: np.ndarray[Any, Any]) -> tuple[str, type[Exception]] | None:
    """Returns why JAX takes no such array, and the class of its error; None if it takes it."""
    if isinstance(array, np.ma.MaskedArray):
        return MASKED, ValueError
    if not _has_dtype(array.dtype):
        return f"JAX has no arrays of dtype {array.dtype}: convert it to numbers", TypeError
    return None


@functools.cache
def _has_dtype(dtype: np.dtype[Any]) -> bool:
    """Returns whether JAX has arrays of a numpy dtype, maybe of fewer bits."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a type of 64 bits becomes one of 32
            jnp.result_type(dtype, dtype)
    except TypeError:
        return False
    return True
