"""The measures that judge scales, against values known from the formats' definitions."""

from __future__ import annotations

import importlib.util
import math
import pathlib
import sys
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

LLAMA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "llama"


@pytest.fixture(scope="module")
def numerics() -> ModuleType:
    sys.path.insert(0, str(LLAMA))
    spec = importlib.util.spec_from_file_location("numerics", LLAMA / "numerics.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["numerics"] = module
    spec.loader.exec_module(module)
    sys.path.remove(str(LLAMA))
    return module


@pytest.mark.parametrize(
    ("dtype", "mantissa"), [(ml_dtypes.float8_e4m3fn, 3), (ml_dtypes.float8_e5m2, 2)]
)
def test_sqnr_of_normal_values_is_the_formats(
    numerics: ModuleType, dtype: type, mantissa: int
) -> None:
    values = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    # Round to nearest with m mantissa bits: an error uniform within a binade of 2^-m steps.
    expected = 10 * math.log10(12 * 4**mantissa * (1.5**2 + 1 / 12) / 1.5)
    assert numerics.sqnr(values, 2.0**-4, dtype) == pytest.approx(expected, abs=2.0)
    assert numerics.sqnr(values, 1.0, dtype) < numerics.sqnr(values, 2.0**-4, dtype) + 0.5


def test_saturation_and_flush_cost_sqnr(numerics: ModuleType) -> None:
    values = np.random.default_rng(1).standard_normal(10_000).astype(np.float32)
    dtype = ml_dtypes.float8_e4m3fn
    assert numerics.sqnr(values, 2.0**-12, dtype) < 5
    assert numerics.sqnr(values, 2.0**12, dtype) < 5


@pytest.mark.parametrize(
    ("largest", "scale"), [(448.0, 1.0), (449.0, 2.0), (224.0, 0.5), (1e-3, 2.0**-18)]
)
def test_amax_scale_is_the_smallest_that_fits(
    numerics: ModuleType, largest: float, scale: float
) -> None:
    values = np.array([0.0, -largest, largest / 7], np.float32)
    assert numerics.amax_scale(values, ml_dtypes.float8_e4m3fn) == scale
    assert largest <= 448 * scale
    assert largest > 448 * scale / 2


def test_exact_values_lose_nothing(numerics: ModuleType) -> None:
    row = {"value": np.array([1.0, -2.0, 0.5]), "scale": 1.0, "format": "float8_e4m3fn"}
    item = numerics.operand({**row, "name": "x", "loc": "here", "phase": "forward"})
    assert math.isinf(item.sqnr)
    assert item.loss == 0
    assert item.drift == pytest.approx(math.log2(math.sqrt(5.25 / 3)))


def test_cosine(numerics: ModuleType) -> None:
    left = [np.array([3.0, 0.0]), np.array([4.0])]
    assert numerics.cosine(left, left) == pytest.approx(1)
    assert numerics.cosine(left, [np.array([0.0, 7.0]), np.array([0.0])]) == 0
    assert numerics.cosine(left, [np.array([1.0, 0.0]), np.array([0.0])]) == pytest.approx(0.6)


def test_bars_fail_where_they_should(numerics: ModuleType, capsys: pytest.CaptureFixture) -> None:
    good = numerics.Operand("a", "forward", "float8_e4m3fn", 0.0, 31.0, 31.5)
    back = numerics.Operand("g", "backward", "float8_e5m2", -7.9, 25.0, 25.4)
    assert numerics.drift_bar([good, back], verbose=True)
    far = numerics.Operand("b", "forward", "float8_e4m3fn", 5.1, 31.0, 31.5)
    assert not numerics.drift_bar([good, back, far], verbose=False)
    poor = numerics.Operand("c", "backward", "float8_e5m2", 0.0, 20.0, 25.4)
    assert not numerics.drift_bar([good, back, poor], verbose=False)
    assert capsys.readouterr().out.count("FAILS") == 2
