"""Measures of the quality of scales: drift, SQNR beside that of an amax scale, cosines.

`operand` measures a row of `scalify.probe`:

    rows = scalify.probe(grads, recipe="fp8")(params, batch)
    judged = [numerics.operand(row) for row in rows]
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["Operand", "amax_scale", "cosine", "operand", "sqnr"]


def largest(dtype: Any) -> float:
    """Returns the format's largest finite value."""
    info: Any = ml_dtypes.finfo
    return float(info(dtype).max)


def quantised(value: np.ndarray, scale: float, dtype: Any) -> np.ndarray:
    """Returns the dequantized values of a saturating cast of value / scale, in F64."""
    top = largest(dtype)
    narrow = np.clip(value.astype(np.float32) / np.float32(scale), -top, top).astype(dtype)
    return np.asarray(narrow.astype(np.float64) * scale)


def sqnr(value: np.ndarray, scale: float, dtype: Any) -> float:
    """Returns the signal to quantisation noise ratio in dB; infinite for an exact cast."""
    wide = value.astype(np.float64)
    noise = float(np.sum((wide - quantised(value, scale, dtype)) ** 2))
    signal = float(np.sum(wide**2))
    return math.inf if noise == 0 else 10 * math.log10(max(signal, 1e-300) / noise)


def amax_scale(value: np.ndarray, dtype: Any) -> float:
    """Returns the smallest power of two at which the amax does not saturate."""
    ratio = float(np.max(np.abs(value.astype(np.float64)))) / largest(dtype)
    return 2.0 ** math.ceil(math.log2(ratio))


@dataclasses.dataclass(frozen=True)
class Operand:
    """One quantised operand: the drift of its scale, and the cost in SQNR.

    Attributes:
        drift: log2(true rms / scale).
        sqnr: of the cast, in dB.
        amax_sqnr: of a cast with a power-of-two scale from the amax, in dB.
    """

    name: str
    phase: str
    format: str
    drift: float
    sqnr: float
    amax_sqnr: float

    @property
    def loss(self) -> float:
        """The SQNR in dB that an amax scale would gain."""
        return 0.0 if math.isinf(self.sqnr) else self.amax_sqnr - self.sqnr


def operand(row: dict[str, Any]) -> Operand | None:
    """Returns the measures of a row of scalify.probe; None if all its values are zero."""
    value, scale = np.asarray(row["value"]), float(row["scale"])
    dtype = np.dtype(getattr(ml_dtypes, row["format"], row["format"]))
    rms = math.sqrt(float(np.mean(value.astype(np.float64) ** 2)))
    if rms == 0:
        return None
    return Operand(
        name=f"{row['name']} {row['loc']}",
        phase="backward" if row["phase"] == "backward" else "forward",
        format=row["format"],
        drift=math.log2(rms / scale),
        sqnr=sqnr(value, scale, dtype),
        amax_sqnr=sqnr(value, amax_scale(value, dtype), dtype),
    )


def cosine(left: Iterable[np.ndarray], right: Iterable[np.ndarray]) -> float:
    """Returns the cosine between two lists of arrays, each taken as one vector.

    It is 0 if a vector is zero or not finite.
    """
    pairs = [(a.astype(np.float64), b.astype(np.float64)) for a, b in zip(left, right, strict=True)]
    dot = sum(float(np.sum(a * b)) for a, b in pairs)
    norms = sum(float(np.sum(a * a)) for a, _ in pairs) * sum(
        float(np.sum(b * b)) for _, b in pairs
    )
    return dot / math.sqrt(norms) if norms > 0 and math.isfinite(norms) else 0.0
