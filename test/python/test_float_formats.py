"""The runtime's host conversions against ml_dtypes and NumPy, bit for bit.

FP8 casts saturate, ml_dtypes' do not: on its side finite values are clipped first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np
import pytest
from narrowing import saturated

from scalify import _runtime

Cast = Callable[[np.ndarray], np.ndarray]

FP8 = [
    pytest.param(_runtime.f32_to_f8e4m3fn, ml_dtypes.float8_e4m3fn, id="e4m3fn"),
    pytest.param(_runtime.f32_to_f8e5m2, ml_dtypes.float8_e5m2, id="e5m2"),
]
WIDE = [
    pytest.param(_runtime.f32_to_bf16, ml_dtypes.bfloat16, id="bf16"),
    pytest.param(_runtime.f32_to_f16, np.float16, id="f16"),
]


def all_words(dtype: type) -> np.ndarray:
    """Returns every value of a 16-bit or 8-bit format, as float32."""
    size = np.dtype(dtype).itemsize
    codes = np.arange(256**size, dtype=f"u{size}")
    return codes.view(dtype).astype(np.float32)


def random_words(count: int, chunk: int = 1_000_000) -> Iterator[np.ndarray]:
    """Yields `count` random float32 bit patterns: NaNs, infinities and subnormals included."""
    rng = np.random.default_rng(7)
    for _ in range(count // chunk):
        yield rng.integers(0, 2**32, chunk, dtype=np.uint32).view(np.float32)


def edges(dtype: type) -> np.ndarray:
    """Returns each value of `dtype`, the ties between neighbours, and the numbers next to both."""
    values = all_words(dtype)
    values = np.unique(values[np.isfinite(values)].astype(np.float64))
    ties = (values[1:] + values[:-1]) / 2
    with np.errstate(over="ignore"):
        points = np.concatenate([values, ties, values * 2, ties * 1.5]).astype(np.float32)
    around = [np.nextafter(points, np.float32(s * np.inf)) for s in (-1, 1)]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 3.4e38], "f4")
    return np.concatenate([points, *around, special])


def check(cast: Cast, dtype: type, x: np.ndarray, saturate: bool) -> None:
    """Asserts that `cast(x)` has ml_dtypes' bits; NaN has to be some NaN of the same sign."""
    with np.errstate(all="ignore"):
        limit = float(ml_dtypes.finfo(dtype).max)
        want = (saturated(x, limit) if saturate else x).astype(dtype)
        nan = np.isnan(want.astype(np.float32))
        got = cast(x)
        assert got.dtype == dtype
        bits = f"u{np.dtype(dtype).itemsize}"
        np.testing.assert_array_equal(got.view(bits)[~nan], want.view(bits)[~nan])
        assert np.isnan(got[nan].astype(np.float32)).all()
        np.testing.assert_array_equal(np.signbit(got[nan]), np.signbit(x[nan]))


@pytest.mark.parametrize("source", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("cast", "dtype"), FP8)
def test_fp8_of_every_word(cast: Cast, dtype: type, source: type) -> None:
    check(cast, dtype, all_words(source), saturate=True)


@pytest.mark.parametrize(("cast", "dtype"), FP8)
def test_fp8_of_random_words(cast: Cast, dtype: type) -> None:
    for x in random_words(10_000_000):
        check(cast, dtype, x, saturate=True)


@pytest.mark.parametrize(("cast", "dtype"), FP8)
def test_fp8_of_words_in_range(cast: Cast, dtype: type) -> None:
    """Random bit patterns are rarely in FP8's range: these are."""
    rng = np.random.default_rng(1)
    exponents = rng.integers(-20, 18, 2_000_000).astype(np.float32)
    check(cast, dtype, rng.normal(size=exponents.size).astype("f4") * 2**exponents, saturate=True)


@pytest.mark.parametrize(("cast", "dtype"), [*FP8, *WIDE])
def test_edges(cast: Cast, dtype: type) -> None:
    check(cast, dtype, edges(dtype), saturate=(cast, dtype) in [tuple(p.values) for p in FP8])


@pytest.mark.parametrize(("cast", "dtype"), WIDE)
def test_wide_of_random_words(cast: Cast, dtype: type) -> None:
    for x in random_words(10_000_000):
        check(cast, dtype, x, saturate=False)


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16, np.float16]
)
def test_widening_is_exact(dtype: type) -> None:
    codes = np.arange(256 ** np.dtype(dtype).itemsize, dtype=f"u{np.dtype(dtype).itemsize}")
    got = _runtime.to_f32(codes.view(dtype))
    want = codes.view(dtype).astype(np.float32)
    nan = np.isnan(want)
    np.testing.assert_array_equal(got.view("u4")[~nan], want.view("u4")[~nan])
    assert np.isnan(got[nan]).all()


def test_shape_is_kept_and_wrong_types_are_refused() -> None:
    assert _runtime.f32_to_bf16(np.ones((2, 0, 3), np.float32)).shape == (2, 0, 3)
    with pytest.raises(TypeError, match="float32"):
        _runtime.f32_to_bf16(np.ones(3))
    with pytest.raises(TypeError, match="float type"):
        _runtime.to_f32(np.ones(3, np.int32))
