"""Test programs in the StableHLO project's form: scalify-run says which checks fail."""

from __future__ import annotations

import pathlib
import subprocess

import ml_dtypes
import numpy as np
import pytest
from test_scalify_run import BUILD, TOOL

NAMES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16}


def run(tmp_path: pathlib.Path, body: str) -> tuple[int, str]:
    """Returns the exit code and the output of a test function with this body."""
    text, artefact = tmp_path / "test.mlir", tmp_path / "test.scalify"
    text.write_text(f"func.func @a_test() {{\n{body}\n  func.return\n}}\n")
    subprocess.run([BUILD / "bin" / "scalify-compile", text, "-o", artefact], check=True)
    done = subprocess.run([TOOL, artefact], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def constant(name: str, element: str, values: list[float]) -> str:
    numbers = np.array(values, NAMES[element])
    width = numbers.dtype.itemsize
    words = ", ".join(f"0x{int(bits):0{2 * width}X}" for bits in numbers.view(f"u{width}"))
    shape = f"tensor<{len(values)}x{element}>"
    return f"  {name} = stablehlo.constant dense<[{words}]> : {shape}\n"


def steps(value: float, count: int, element: str) -> float:
    """Returns the number that is `count` representable ones above `value`."""
    bits = np.array(value, NAMES[element])
    return float((bits.view(f"i{bits.dtype.itemsize}") + count).view(bits.dtype))


def test_passing_and_failing_checks(tmp_path: pathlib.Path) -> None:
    body = constant("%x", "f32", [1, 2, 3]) + constant("%y", "f32", [1, -2, 4])
    same = "  check.expect_eq %x, %x : tensor<3xf32>\n"
    assert run(tmp_path, body + same)[0] == 0
    nans = constant("%n", "f32", [np.nan, 1]) + "  check.expect_eq %n, %n : tensor<2xf32>\n"
    assert run(tmp_path, nans)[0] == 0
    code, output = run(tmp_path, body + same + "  check.expect_eq %x, %y : tensor<3xf32>\n")
    assert code == 1
    assert "check.1.expect_eq: 2 elements are not as expected" in output
    assert "checks: 1 passed, 1 failed" in output


@pytest.mark.parametrize("element", NAMES)
def test_units_in_the_last_place(tmp_path: pathlib.Path, element: str) -> None:
    """Two are within 2 of the other; NaNs are equal, an infinity is near nothing else."""
    largest = float(ml_dtypes.finfo(NAMES[element]).max)
    tiny = float(ml_dtypes.finfo(NAMES[element]).smallest_subnormal)
    x = [1.5, -1.5, 1.5, tiny, 0.0, np.nan, np.inf, np.inf, np.nan]
    y = [steps(1.5, 2, element), steps(-1.5, 2, element), steps(1.5, 3, element)]
    y += [-tiny, -0.0, np.nan, np.inf, largest, 1.0]
    kind = f"tensor<{len(x)}x{element}>"
    body = constant("%x", element, x) + constant("%y", element, y)
    body += f"  check.expect_close %x, %y, max_ulp_difference = 2 : {kind}, {kind}\n"
    code, output = run(tmp_path, body)
    assert code == 1
    assert "check.0.expect_close: 3 elements" in output


def test_tolerances(tmp_path: pathlib.Path) -> None:
    """The check's own, and the interpreter's constants for custom calls: 1e-3, 3 units."""
    near = [1.0, 1.0009, np.nan, np.inf]
    body = constant("%x", "f32", near) + constant("%y", "f32", [1.0, 1.0, np.nan, np.inf])
    for target in ("expect_almost_eq", "expect_close"):
        body += (
            f"  stablehlo.custom_call @check.{target}(%x, %y) {{has_side_effect = true}} "
            ": (tensor<4xf32>, tensor<4xf32>) -> ()\n"
        )
    body += "  check.expect_almost_eq %x, %y, tolerance = 0.01 : tensor<4xf32>\n"
    body += "  check.expect_almost_eq %x, %y : tensor<4xf32>\n"
    code, output = run(tmp_path, body)
    assert code == 1
    lines = [line for line in output.splitlines() if line.startswith("check.")]
    assert [line.split(":")[0] for line in lines] == [
        "check.1.expect_close",
        "check.3.expect_almost_eq",
    ]
