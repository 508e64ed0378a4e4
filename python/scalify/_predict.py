"""The expected losses of a cast, from the facts that determined its scale."""

from __future__ import annotations

import functools
import math
import statistics
from typing import Any

import numpy as np

from scalify._dtypes import limits, to_numpy

__all__ = ["Prediction", "predict"]

Prediction = dict[str, float]

# Gives the SQNR of 8-bit formats to a tenth of a decibel.
_POINTS = 4095


@functools.cache
def _normal() -> np.ndarray[Any, Any]:
    normal = statistics.NormalDist()
    return np.array([normal.inv_cdf((i + 0.5) / _POINTS) for i in range(_POINTS)])


def _below(x: float, mean: float, deviation: float) -> float:
    if deviation <= 0:
        return 1.0 if mean < x else 0.0
    return 0.5 * math.erfc((mean - x) / (deviation * math.sqrt(2)))


def predict(row: dict[str, Any]) -> Prediction | None:
    """Returns the shares `underflow` and `overflow` and the `sqnr` in dB of a cast.

    Assumes a normal distribution with the row's mean and rms, on which the scale itself is based.
    Heavy tails saturate more.

    Args:
        row: of a full report.

    Returns:
        The figures; None if the scale is measured in the step, or no facts are known.
    """
    if row["op"] != "quantize" or row["scale"] is None or not row["rms"]:
        return None
    scale = math.ldexp(1.0, row["scale"])
    mean, rms = row["mean"] / scale, row["rms"] / scale
    if not math.isfinite(rms):
        return None
    bound = math.inf if row["bound"] is None else row["bound"] / scale
    return dict(_of_normal(row["format"], float(f"{mean:.3g}"), float(f"{rms:.3g}"), bound))


@functools.lru_cache(maxsize=4096)
def _of_normal(element: str, mean: float, rms: float, bound: float) -> Prediction:
    dtype = to_numpy(element)
    smallest, largest = limits(element)
    deviation = math.sqrt(max(0.0, rms * rms - mean * mean))
    half = smallest / 2
    underflow = _below(half, mean, deviation) - _below(-half, mean, deviation)
    overflow = 1 - _below(largest, mean, deviation) + _below(-largest, mean, deviation)
    values = np.clip(mean + deviation * _normal(), -min(bound, 1e30), min(bound, 1e30))
    narrow = np.clip(values, -largest, largest).astype(np.float32).astype(dtype)
    noise = float(np.mean((narrow.astype(np.float64) - values) ** 2))
    power = float(np.mean(values**2))
    sqnr = 10 * math.log10(power / noise) if power > 0 and noise > 0 else math.inf
    return {
        "underflow": underflow,
        "overflow": 0.0 if bound <= largest else overflow,
        "sqnr": sqnr,
    }
