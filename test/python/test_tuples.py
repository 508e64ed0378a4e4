"""Programs whose functions, loops and branches pass tuples, by every way in."""

from __future__ import annotations

import pathlib
import subprocess

import numpy as np
import safetensors.numpy
from test_scalify_run import BUILD, TOOL

import scalify

# Doubles `x` as long as `n` counts, within a tuple; `k` passes through a tuple of one.
PROGRAM = """
func.func private @start(%t: tuple<tensor<3xf32>, tuple<tensor<i32>>>)
    -> tuple<tensor<3xf32>, tensor<i32>> {
  %x = stablehlo.get_tuple_element %t[0]
      : (tuple<tensor<3xf32>, tuple<tensor<i32>>>) -> tensor<3xf32>
  %m = stablehlo.get_tuple_element %t[1]
      : (tuple<tensor<3xf32>, tuple<tensor<i32>>>) -> tuple<tensor<i32>>
  %n = stablehlo.get_tuple_element %m[0] : (tuple<tensor<i32>>) -> tensor<i32>
  %s = stablehlo.tuple %x, %n : tuple<tensor<3xf32>, tensor<i32>>
  return %s : tuple<tensor<3xf32>, tensor<i32>>
}
func.func public @main(%t: tuple<tensor<3xf32>, tuple<tensor<i32>>> loc("state"),
                       %k: tensor<2xf32> loc("k"))
    -> (tuple<tensor<2xf32>> {jax.result_info = "kept"},
        tuple<tensor<3xf32>, tensor<i32>> {jax.result_info = "out"}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %s = call @start(%t)
      : (tuple<tensor<3xf32>, tuple<tensor<i32>>>) -> tuple<tensor<3xf32>, tensor<i32>>
  %loop = "stablehlo.while"(%s) ({
  ^bb0(%c: tuple<tensor<3xf32>, tensor<i32>>):
    %n = stablehlo.get_tuple_element %c[1] : (tuple<tensor<3xf32>, tensor<i32>>) -> tensor<i32>
    %p = stablehlo.compare GT, %n, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%c: tuple<tensor<3xf32>, tensor<i32>>):
    %x = stablehlo.get_tuple_element %c[0] : (tuple<tensor<3xf32>, tensor<i32>>) -> tensor<3xf32>
    %n = stablehlo.get_tuple_element %c[1] : (tuple<tensor<3xf32>, tensor<i32>>) -> tensor<i32>
    %y = stablehlo.add %x, %x : tensor<3xf32>
    %m = stablehlo.subtract %n, %one : tensor<i32>
    %d = stablehlo.tuple %y, %m : tuple<tensor<3xf32>, tensor<i32>>
    stablehlo.return %d : tuple<tensor<3xf32>, tensor<i32>>
  }) : (tuple<tensor<3xf32>, tensor<i32>>) -> tuple<tensor<3xf32>, tensor<i32>>
  %kept = stablehlo.tuple %k : tuple<tensor<2xf32>>
  return %kept, %loop : tuple<tensor<2xf32>>, tuple<tensor<3xf32>, tensor<i32>>
}
"""
X = np.float32([1, -2, 0.5])
K = np.float32([1, -3])


def test_python() -> None:
    executable = scalify.compile(PROGRAM)
    assert [one["name"] for one in executable.manifest["args"]] == ["state[0]", "state[1][0]", "k"]
    for n in (0, 5):
        kept, x, left = executable(X, np.int32(n), K)
        np.testing.assert_array_equal(kept, K)
        np.testing.assert_array_equal(x, X * 2**n)
        assert left == 0


def test_tools(tmp_path: pathlib.Path) -> None:
    """Elements of tuples have names in the files of scalify-run."""
    (tmp_path / "step.mlir").write_text(PROGRAM)
    compiler = BUILD / "bin" / "scalify-compile"
    subprocess.run([compiler, tmp_path / "step.mlir", "-o", tmp_path / "step"], check=True)
    given = {"state[0]": X, "state[1][0]": np.array(3, np.int32), "k": K}
    safetensors.numpy.save_file(given, tmp_path / "in")
    files = ["--in", tmp_path / "in", "--out", tmp_path / "out"]
    subprocess.run([TOOL, tmp_path / "step", *files], check=True)
    results = safetensors.numpy.load_file(tmp_path / "out")
    np.testing.assert_array_equal(results["out[0]"], X * 8)
