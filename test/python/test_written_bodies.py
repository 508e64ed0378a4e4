"""Ops with bodies and types that JAX does not write, as StableHLO text: against XLA and numpy."""

from __future__ import annotations

import json
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
import scipy.special
from jax import lax
from stablehlo_run import run_stablehlo

import scalify
from scalify import _compiler, _runtime

RNG = np.random.default_rng(5)


def run(text: str, *arrays: Any) -> list[np.ndarray]:
    artefact, _ = _compiler.compile(text, json.dumps({"recipe": "none"}))
    return [np.asarray(one) for one in _runtime.Executable(artefact).run(list(arrays))]


def body(op: str, element: str) -> str:
    return (
        f"^bb0(%a: tensor<{element}>, %b: tensor<{element}>):\n"
        f"  %r = stablehlo.{op} %a, %b : tensor<{element}>\n"
        f"  stablehlo.return %r : tensor<{element}>\n"
    )


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("stride", [1, 2])
def test_select_and_scatter_with_any_body(op: str, stride: int) -> None:
    """Windows of three overlap for a stride of one: an element combines up to three values.

    Values are integers, so that no order rounds.
    """
    size = (9 - 3) // stride + 1
    text = f"""func.func @main(%x: tensor<9xf32>, %s: tensor<{size}xf32>) -> tensor<9xf32> {{
  %init = stablehlo.constant dense<2.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%x, %s, %init) ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}, {{
{body(op, "f32")}
  }}) {{window_dimensions = array<i64: 3>, window_strides = array<i64: {stride}>,
       padding = dense<0> : tensor<1x2xi64>}}
    : (tensor<9xf32>, tensor<{size}xf32>, tensor<f32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>
}}"""
    x = RNG.integers(-9, 9, 9).astype(np.float32)
    source = RNG.integers(-4, 5, size).astype(np.float32)
    np.testing.assert_array_equal(run(text, x, source)[0], run_stablehlo(text, x, source)[0])


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_solvers_of_16_bits(dtype: Any) -> None:
    """They compute in F32: one rounding of the result, and those of the operands are given."""
    element = {"bfloat16": "bf16", "float16": "f16"}[np.dtype(dtype).name]
    a = np.tril(RNG.normal(size=(4, 4)) / 4 + np.eye(4)).astype(dtype)
    b = RNG.normal(size=(4, 2)).astype(dtype)
    text = f"""func.func @main(%a: tensor<4x4x{element}>, %b: tensor<4x2x{element}>)
    -> (tensor<4x2x{element}>, tensor<4x4x{element}>) {{
  %0 = "stablehlo.triangular_solve"(%a, %b) {{left_side = true, lower = true,
      transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}}
    : (tensor<4x4x{element}>, tensor<4x2x{element}>) -> tensor<4x2x{element}>
  %1 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x4x{element}>) -> tensor<4x4x{element}>
  %2 = stablehlo.dot_general %a, %1, contracting_dims = [1] x [0]
    : (tensor<4x4x{element}>, tensor<4x4x{element}>) -> tensor<4x4x{element}>
  %3 = stablehlo.cholesky %2, lower = true : tensor<4x4x{element}>
  return %0, %3 : tensor<4x2x{element}>, tensor<4x4x{element}>
}}"""
    solved, factor = run(text, a, b)
    assert solved.dtype == factor.dtype == dtype
    wide = a.astype(np.float64)
    half = float(ml_dtypes.finfo(dtype).eps)
    exact = np.linalg.solve(wide, b.astype(np.float64))
    np.testing.assert_allclose(solved.astype(np.float64), exact, rtol=half, atol=half / 4)
    # The product's own rounding is amplified by the condition, some 10.
    square = factor.astype(np.float64) @ factor.astype(np.float64).T
    np.testing.assert_allclose(square, wide @ wide.T, rtol=8 * half, atol=8 * half)


def test_bessel_in_f64() -> None:
    """Within 6 units in the last place of SciPy's, which has some itself."""
    x = np.concatenate([np.linspace(-30, 30, 4001), np.geomspace(1e-12, 1e6, 500), [8.0, np.inf]])
    with jax.enable_x64(True):
        mine = np.asarray(scalify.jit(lax.bessel_i1e, "none")(x))
    expected = scipy.special.i1e(x)
    assert mine.dtype == np.float64
    np.testing.assert_allclose(mine, expected, rtol=6 * 2.0**-52, atol=0)


def test_a_map_of_several_operands() -> None:
    text = f"""func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {{
  %0 = "stablehlo.map"(%x, %y) ({{
{body("power", "f32")}
  }}) {{dimensions = array<i64: 0>}} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}}"""
    x, y = np.float32([1, 2, 3]), np.float32([2, 3, 0.5])
    np.testing.assert_allclose(run(text, x, y)[0], x**y, rtol=1e-6)


# Computations of two results: of their own inputs, and a largest value with its position, which
# ties leave.
SEPARATE = """%x = stablehlo.add %a, %c : tensor<f32>
    %y = stablehlo.maximum %b, %d : tensor<i32>"""
LARGEST = """%more = stablehlo.compare GT, %c, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %x = stablehlo.select %more, %c, %a : tensor<i1>, tensor<f32>
    %y = stablehlo.select %more, %d, %b : tensor<i1>, tensor<i32>"""


@pytest.mark.parametrize("computation", [SEPARATE, LARGEST], ids=["separate", "largest"])
@pytest.mark.parametrize(
    ("shape", "indices", "updates", "numbers"),
    [
        ((6,), (9, 1), (9,), "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]"),
        (
            (5, 4),
            (7, 2),
            (7, 2, 2),
            "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [1, 0]",
        ),
        (
            (3, 5, 2),
            (3, 4, 1),
            (2, 3, 4),
            "update_window_dims = [0], inserted_window_dims = [1], input_batching_dims = [0], "
            "scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1]",
        ),
        # Windows that overlap, before the dimension that numbers them.
        ((6,), (5, 1), (3, 5), "update_window_dims = [0], scatter_dims_to_operand_dims = [0]"),
        ((0,), (3, 1), (3,), "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]"),
        ((6,), (0, 1), (0,), "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]"),
    ],
    ids=["points", "windows", "batches", "overlapping", "empty", "none"],
)
def test_scatters_into_two_inputs(
    computation: str, shape: Any, indices: Any, updates: Any, numbers: str
) -> None:
    """Some indices are outside, and many meet; values are integers, so that no order rounds."""

    def type_of(dims: Any, element: str) -> str:
        return f"tensor<{'x'.join(map(str, dims))}x{element}>"

    types = [type_of(shape, "f32"), type_of(shape, "i32"), type_of(indices, "i32")]
    types += [type_of(updates, "f32"), type_of(updates, "i32")]
    a, b, i, u, v = types
    text = f"""func.func @main(%f: {a}, %g: {b}, %i: {i}, %u: {u}, %v: {v}) -> ({a}, {b}) {{
  %0:2 = "stablehlo.scatter"(%f, %g, %i, %u, %v) <{{scatter_dimension_numbers =
      #stablehlo.scatter<{numbers}, index_vector_dim = {len(indices) - 1}>}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
    {computation}
    stablehlo.return %x, %y : tensor<f32>, tensor<i32>
  }}) : ({", ".join(types)}) -> ({a}, {b})
  return %0#0, %0#1 : {a}, {b}
}}"""
    rng = np.random.default_rng(0)
    given = [
        rng.integers(-9, 9, shape).astype(np.float32),
        rng.integers(-9, 9, shape).astype(np.int32),
        rng.integers(-2, 7, indices).astype(np.int32),
        rng.integers(-20, 20, updates).astype(np.float32),
        np.arange(np.prod(updates), dtype=np.int32).reshape(updates),
    ]
    for mine, expected in zip(run(text, *given), run_stablehlo(text, *given), strict=True):
        np.testing.assert_array_equal(mine, expected)


@pytest.mark.parametrize("op", ["add", "multiply"])
def test_scatters_into_real_and_complex_inputs(op: str) -> None:
    c, r = "complex<f32>", "f32"
    text = f"""func.func @main(%a: tensor<4x{r}>, %b: tensor<4x{c}>, %i: tensor<5x1xi32>,
    %u: tensor<5x{r}>, %v: tensor<5x{c}>) -> (tensor<4x{r}>, tensor<4x{c}>) {{
  %0:2 = "stablehlo.scatter"(%a, %b, %i, %u, %v) <{{scatter_dimension_numbers =
      #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>}}> ({{
  ^bb0(%w: tensor<{r}>, %x: tensor<{c}>, %y: tensor<{r}>, %z: tensor<{c}>):
    %s = stablehlo.add %w, %y : tensor<{r}>
    %t = stablehlo.{op} %x, %z : tensor<{c}>
    stablehlo.return %s, %t : tensor<{r}>, tensor<{c}>
  }}) : (tensor<4x{r}>, tensor<4x{c}>, tensor<5x1xi32>, tensor<5x{r}>, tensor<5x{c}>)
    -> (tensor<4x{r}>, tensor<4x{c}>)
  return %0#0, %0#1 : tensor<4x{r}>, tensor<4x{c}>
}}"""
    rng = np.random.default_rng(0)

    def integers(count: int) -> np.ndarray:
        return rng.integers(-4, 5, count).astype(np.float32)

    a, b = integers(4), (integers(4) + 1j * integers(4)).astype(np.complex64)
    u, v = integers(5), (integers(5) + 1j * integers(5)).astype(np.complex64)
    places = np.array([[0], [2], [0], [7], [2]], np.int32)
    want_a, want_b = a.copy(), b.copy()
    for place, one, other in zip(places[:, 0], u, v, strict=True):
        if place < 4:
            want_a[place] += one
            want_b[place] = want_b[place] + other if op == "add" else want_b[place] * other
    for mine, expected in zip(run(text, a, b, places, u, v), (want_a, want_b), strict=True):
        np.testing.assert_array_equal(mine, expected)


@pytest.mark.parametrize("element", ["f32", "i4", "ui4"])
def test_constants_in_bodies_of_select_and_scatter(element: str) -> None:
    """Those of four bits are the masks of their wrapping; the sums, of up to 18, wrap."""
    constant = "3.0" if element == "f32" else "3"
    wide = "f32" if element == "f32" else "i32"
    text = f"""func.func @main(%v: tensor<4x{wide}>, %t: tensor<2x{wide}>) -> tensor<4x{wide}> {{
  %x = stablehlo.convert %v : (tensor<4x{wide}>) -> tensor<4x{element}>
  %s = stablehlo.convert %t : (tensor<2x{wide}>) -> tensor<2x{element}>
  %init = stablehlo.constant dense<{constant}> : tensor<{element}>
  %0 = "stablehlo.select_and_scatter"(%x, %s, %init) ({{
  ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
    %c = stablehlo.compare GE, %a, %b : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}, {{
  ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
    %k = stablehlo.constant dense<{constant}> : tensor<{element}>
    %r = stablehlo.add %a, %b : tensor<{element}>
    %m = stablehlo.maximum %r, %k : tensor<{element}>
    stablehlo.return %m : tensor<{element}>
  }}) {{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>,
       padding = dense<0> : tensor<1x2xi64>}}
    : (tensor<4x{element}>, tensor<2x{element}>, tensor<{element}>) -> tensor<4x{element}>
  %w = stablehlo.convert %0 : (tensor<4x{element}>) -> tensor<4x{wide}>
  return %w : tensor<4x{wide}>
}}"""
    dtype = np.float32 if element == "f32" else np.int32
    x, source = np.array([1, 5, 7, 2], dtype), np.array([6, 4], dtype)

    def join(init: int, value: int) -> int:
        total = init + value
        if element == "i4" and total > 7:
            total -= 16
        return max(total, 3)

    expected = [3, join(3, 6), join(3, 4), 3]
    np.testing.assert_array_equal(run(text, x, source)[0], np.array(expected, dtype))
