"""Compiled casts against ml_dtypes, bit for bit: all F16 and BF16, ten million F32 words."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpu_run import compile_text
from narrowing import saturated

FORMATS = {
    "f8E4M3FN": (ml_dtypes.float8_e4m3fn, 448.0),
    "f8E5M2": (ml_dtypes.float8_e5m2, 57344.0),
    "f16": (np.float16, 65504.0),
    "bf16": (ml_dtypes.bfloat16, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)),
}
# Where rounding leaves the format: past the tie with the next value that a wider exponent would
# hold; the tie itself goes to the even one of the two.
OVERFLOWS = {
    "f8E4M3FN": lambda x: np.abs(x) > 464,
    "f8E5M2": lambda x: np.abs(x) >= 61440,
    "f16": lambda x: np.abs(x) >= 65520,
    "bf16": lambda x: np.abs(x) >= 2.0**128 * (1 - 2.0**-9),
}
RANDOM_WORDS = 10_000_000


def reference(x: np.ndarray, name: str) -> np.ndarray:
    """Casts by ml_dtypes after saturation of finite values."""
    dtype, largest = FORMATS[name]
    return saturated(x.astype(np.float32), largest).astype(dtype)


def assert_same_bits(actual: Any, expected: np.ndarray) -> None:
    """Compares words; a NaN may have any payload and sign."""
    words = np.asarray(actual)
    is_nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(words.astype(np.float32)), is_nan)
    word = np.uint8 if expected.itemsize == 1 else np.uint16
    np.testing.assert_array_equal(words.view(word)[~is_nan], expected.view(word)[~is_nan])


def quantise(x: np.ndarray, name: str, element: str, exponent: int = 0) -> Any:
    """Compiles and runs one `scalify.quantize`, and the counts of its health."""
    text = f"""
      func.func public @main(%x: tensor<{x.size}x{element}>) -> tensor<{x.size}x{name}> {{
        %s = stablehlo.constant dense<{2.0**exponent!r}> : tensor<f32>
        %q = scalify.quantize %x, %s {{cast = "c"}}
            : tensor<{x.size}x{element}> -> tensor<{x.size}x{name}>
        return %q : tensor<{x.size}x{name}>
      }}"""
    exe = compile_text(text, compileFrom="precision")
    (result,) = exe.run([x])
    return result, exe.health()[0]


@pytest.mark.parametrize("element, dtype", [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
@pytest.mark.parametrize("name", FORMATS)
def test_every_narrow_value(name: str, element: str, dtype: Any) -> None:
    """All 65,536 words of F16 and BF16, to each other too."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    assert_same_bits(quantise(x, name, element)[0], reference(x, name))


@pytest.mark.parametrize("name", FORMATS)
def test_random_f32_words(name: str) -> None:
    """Ten million random words, NaN and infinities among them, and the counts of health."""
    words = np.random.default_rng(0).integers(0, 1 << 32, RANDOM_WORDS, dtype=np.uint64)
    x = words.astype(np.uint32).view(np.float32)
    result, health = quantise(x, name, "f32")
    expected = reference(x, name)
    assert_same_bits(result, expected)
    with np.errstate(invalid="ignore"):
        overflows = OVERFLOWS[name](x.astype(np.float64)) & np.isfinite(x)
    assert health["saturated"] == int(overflows.sum())
    assert health["nans"] == int((~np.isfinite(x)).sum())
    assert health["flushed"] == int(((x != 0) & (expected.astype(np.float32) == 0)).sum())
    with np.errstate(invalid="ignore"):
        at_top = np.abs(x) >= np.float32(ml_dtypes.finfo(expected.dtype).max) / 16
    assert health["top"] == int((at_top | np.isnan(x)).sum())


@pytest.mark.parametrize("name", FORMATS)
def test_ties(name: str) -> None:
    """Halfway between every two neighbours of the format, and one F32 step to either side."""
    dtype, largest = FORMATS[name]
    word = np.uint8 if np.dtype(dtype).itemsize == 1 else np.uint16
    finite = np.arange(np.iinfo(word).max + 1, dtype=word).view(dtype).astype(np.float64)
    finite = np.unique(finite[np.abs(finite) <= largest])
    ties = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    x = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf)])
    x = x.astype(np.float32)
    assert_same_bits(quantise(x, name, "f32")[0], reference(x, name))


@pytest.mark.parametrize("exponent", [-20, 3])
def test_scale_divides(exponent: int) -> None:
    """The cast is of value / scale."""
    x = (np.random.default_rng(1).normal(size=4096) * 2.0**exponent).astype(np.float32)
    result, _ = quantise(x, "f8E4M3FN", "f32", exponent)
    assert_same_bits(result, reference(x / np.float32(2.0**exponent), "f8E4M3FN"))


@pytest.mark.parametrize("name", FORMATS)
def test_dequantize_every_word(name: str) -> None:
    """Every word back to F32, times the scale, exactly."""
    dtype = np.dtype(FORMATS[name][0])
    word = np.uint8 if dtype.itemsize == 1 else np.uint16
    x = np.arange(np.iinfo(word).max + 1, dtype=word).view(dtype)
    text = f"""
      func.func public @main(%x: tensor<{x.size}x{name}>) -> tensor<{x.size}xf32> {{
        %s = stablehlo.constant dense<0.125> : tensor<f32>
        %y = scalify.dequantize %x, %s : tensor<{x.size}x{name}> -> tensor<{x.size}xf32>
        return %y : tensor<{x.size}xf32>
      }}"""
    (result,) = compile_text(text, compileFrom="precision").run([x])
    np.testing.assert_array_equal(np.asarray(result), x.astype(np.float32) * np.float32(0.125))


@pytest.mark.parametrize("columns", [83, 96, 100])
@pytest.mark.parametrize("turned", [False, True])
def test_a_cast_whose_rows_are_filled_up_counts_its_values_once(columns: int, turned: bool) -> None:
    """As in the results of a GPU's GEMMs: the padding of a row is not counted."""
    shape, wide = ((columns, 40), 48) if turned else ((40, columns), 112)
    data = f"tensor<{shape[0]}x{shape[1]}xf8E4M3FN>"
    padded = f"tensor<{shape[0]}x{wide}xf8E4M3FN>"
    given = f"tensor<40x{columns}xf32>"
    narrow = given.replace("f32", "f8E4M3FN")
    move = f"stablehlo.transpose %q, dims = [1, 0] : ({narrow}) -> {data}"
    exe = compile_text(
        f"""
        func.func @main(%x: {given}) -> {padded} {{
          %s = stablehlo.constant dense<1.0> : tensor<f32>
          %z = stablehlo.constant dense<0.0> : tensor<f8E4M3FN>
          %q = scalify.quantize %x, %s {{cast = "c"}} : {given} -> {narrow}
          %t = {move if turned else f"stablehlo.reshape %q : ({narrow}) -> {data}"}
          %p = stablehlo.pad %t, %z, low = [0, 0], high = [0, {wide - shape[1]}], interior = [0, 0]
              : ({data}, tensor<f8E4M3FN>) -> {padded}
          return %p : {padded}
        }}""",
        compileFrom="precision",
        recipe="none",
    )
    x = np.full((40, columns), 1e4, np.float32)
    (got,) = exe.run([x])
    want = np.pad(np.full(shape, 448.0), ((0, 0), (0, wide - shape[1])))
    assert_same_bits(got, want.astype(ml_dtypes.float8_e4m3fn))
    (row,) = exe.health()
    assert row["saturated"] == x.size and row["zeros"] == 0
