"""Criteria for results: bitwise, near a CPU's, or near a product in F64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ACCUMULATION", "bits", "near", "product"]

# One relative unit in the last place of each format: a value near the middle between two neighbours
# may be rounded to either, which are one unit apart.
UNIT = {
    "float32": 2.0**-23,
    "bfloat16": 2.0**-7,
    "float16": 2.0**-10,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}
# The spacing of subnormal numbers, where a unit is not relative to the value.
STEP = {"float16": 2.0**-24, "float8_e4m3fn": 2.0**-9, "float8_e5m2": 2.0**-16}
# Errors of a product by its operands, relative to the sum of its terms' magnitudes. FP8: Hopper's
# tensor cores keep about 13 bits of a sum between promotions, and 2^-13 once in each of the chunks
# of 32 terms (16 for k = 512) makes 2^-9. TF32: both factors round to 11 bits. BF16 and F16 have
# exact products, and sums in F32 of 512 terms.
# An attention rounds its weights to the operands' format, its gradient their gradients too, and it
# reads its own rounded result: four half units of BF16.
# A GELU has a slope of at most 1.13, and a tanh for which NVIDIA states no error: PTX's approximate
# tanh has a relative error of 2^-11, which is 2^-12 of the GELU's operand; four times that.
ACCUMULATION = {
    "f8": 2.0**-9,
    "f32": 2.0**-10,
    "bf16": 2.0**-14,
    "f16": 2.0**-14,
    "attention": 2.0**-6,
    "gelu": 2.0**-10,
}

Verdict = tuple[bool, dict[str, Any]]


def _words(array: NDArray[Any]) -> NDArray[Any]:
    return array.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[array.itemsize])


def bits(got: NDArray[Any], want: NDArray[Any]) -> Verdict:
    """Compares words; a NaN may have any payload and sign."""
    with np.errstate(invalid="ignore"):
        lost, found = np.isnan(want.astype(np.float32)), np.isnan(got.astype(np.float32))
    wrong = (lost != found) | (~lost & (_words(got) != _words(want)))
    figures: dict[str, Any] = {"elements": int(got.size), "wrong": int(wrong.sum())}
    if wrong.any():
        first = int(np.flatnonzero(wrong.reshape(-1))[0])
        figures["first_wrong"] = {
            "index": first,
            "got": hex(int(_words(got).reshape(-1)[first])),
            "want": hex(int(_words(want).reshape(-1)[first])),
        }
    return not wrong.any(), figures


def near(
    got: NDArray[Any], want: NDArray[Any], outliers: float = 0.0, unit: float | None = None
) -> Verdict:
    """Compares a kernel's result with the CPU's.

    Both compute in F32 by the same polynomials, but with another order of sums and other
    contractions of products into sums. So F32 may differ by 1e-5 of the value and of the tensor's
    root mean square; a narrow result by one unit of its format in 1 % of its elements.

    Args:
        got: of the GPU.
        want: of the CPU.
        outliers: share of F32 elements that may differ by one `unit` instead of 1e-5: those after
            a rounding.
        unit: the relative unit of that rounding.
    """
    if got.dtype.kind in "biu" and got.dtype.name not in UNIT:
        equal = bool(np.array_equal(got, want))
        return equal, {"elements": int(got.size), "wrong": int((got != want).sum())}
    kind = got.dtype.name
    narrow = kind != "float32"
    a, b = got.astype(np.float64), want.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(a - b))
    rms = float(np.sqrt(np.mean(np.square(b[np.isfinite(b)])))) if np.isfinite(b).any() else 0.0
    exact = 1e-5 * (np.abs(b) + rms)
    wide = (UNIT[kind] if narrow else unit or 0.0) * np.abs(b) + STEP.get(kind, 0.0) + exact
    # A NaN on one side is no outlier.
    far, off = ~(error <= np.maximum(wide, exact)), ~(error <= exact)
    share = float(off.mean()) if off.size else 0.0
    allowed = 0.01 if narrow else outliers
    figures = {
        "elements": int(got.size),
        "wrong": int(far.sum()),
        "beyond_1e-5": share,
        "largest_error_by_rms": float(np.max(error, initial=0.0) / rms) if rms else 0.0,
    }
    return not far.any() and share <= allowed, figures


def product(
    got: NDArray[Any], want: NDArray[Any], magnitude: NDArray[Any], accumulation: float
) -> Verdict:
    """Compares a product with one in F64.

    Args:
        got: of the GPU.
        want: the product in F64.
        magnitude: the product of the operands' magnitudes, to which errors of a sum are relative.
        accumulation: the error that the sum may have, relative to it.
    """
    kind = got.dtype.name
    # Half a unit for the result's own rounding.
    allowed = accumulation * magnitude + UNIT[kind] / 2 * np.abs(want) + STEP.get(kind, 1e-30)
    error = np.abs(got.astype(np.float64) - want)
    figures = {
        "elements": int(got.size),
        "wrong": int((~(error <= allowed)).sum()),
        "largest_error_by_magnitude": float(np.max(error / np.maximum(magnitude, 1e-30))),
        "rms_error_by_rms": float(
            np.sqrt(np.mean(np.square(error)) / max(float(np.mean(np.square(want))), 1e-30))
        ),
    }
    return bool((error <= allowed).all()), figures
