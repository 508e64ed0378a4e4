"""Counts of casts: of results in parts of a larger array, and of values that are cast twice."""

from __future__ import annotations

import numpy as np

from scalify._executable import Executable, build

PARTS = """
func.func @main(%a: tensor<2x40xf32>, %b: tensor<3x40xf32>) -> tensor<6x40xf32> {
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %z = stablehlo.constant dense<0.0> : tensor<f8E4M3FN>
  %0 = scalify.quantize %a, %s {cast = "c0: a"} : tensor<2x40xf32> -> tensor<2x40xf8E4M3FN>
  %1 = scalify.quantize %b, %s {cast = "c1: b"} : tensor<3x40xf32> -> tensor<3x40xf8E4M3FN>
  %2 = stablehlo.concatenate %0, %1, dim = 0
      : (tensor<2x40xf8E4M3FN>, tensor<3x40xf8E4M3FN>) -> tensor<5x40xf8E4M3FN>
  %3 = stablehlo.pad %2, %z, low = [0, 0], high = [1, 0], interior = [0, 0]
      : (tensor<5x40xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<6x40xf8E4M3FN>
  %4 = scalify.dequantize %3, %s : tensor<6x40xf8E4M3FN> -> tensor<6x40xf32>
  return %4 : tensor<6x40xf32>
}
"""


def test_what_lies_beside_a_part_counts_nothing() -> None:
    artefact, _ = build(PARTS, {"compileFrom": "distribution"})
    executable = Executable(artefact, 1)
    a, b = np.ones((2, 40), np.float32), np.ones((3, 40), np.float32)
    # The rows at the edges, which an index beside the part is clamped to.
    a[1, :3] = 1e4
    b[0, :5] = 1e4
    b[2, 1] = 1e-9
    b[2, 2] = 0
    b[2, 3] = np.nan
    (found,) = executable(a, b)
    assert found.shape == (6, 40)
    keys = ("cast", "saturated", "flushed", "zeros", "nans")
    rows = [tuple(row[key] for key in keys) for row in executable.health()]
    assert rows == [("c0: a", 3, 0, 0, 0), ("c1: b", 5, 1, 1, 1)]


AGAIN = """
func.func @main(%a: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = scalify.quantize %a, %s {cast = "c0: a"} : tensor<64xf32> -> tensor<64xf8E4M3FN>
  %1 = scalify.quantize %a, %s {cast = "c0: a", scalify.uncounted}
      : tensor<64xf32> -> tensor<64xf8E4M3FN>
  %2 = scalify.dequantize %0, %s : tensor<64xf8E4M3FN> -> tensor<64xf32>
  %3 = scalify.dequantize %1, %s : tensor<64xf8E4M3FN> -> tensor<64xf32>
  return %2, %3 : tensor<64xf32>, tensor<64xf32>
}
"""


def test_what_is_cast_again_counts_nothing() -> None:
    artefact, _ = build(AGAIN, {"compileFrom": "distribution"})
    executable = Executable(artefact, 1)
    a = np.linspace(-3, 3, 64, dtype=np.float32)
    a[:3] = 1e4
    first, again = executable(a)
    np.testing.assert_array_equal(first, again)
    rows = executable.health()
    assert [(row["cast"], row["saturated"]) for row in rows] == [("c0: a", 3)]
    assert [entry["elements"] for entry in executable.manifest["counters"]] == [64]
