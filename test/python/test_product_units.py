"""Products of BF16 on the processor's unit: one artefact, the same gradients, SCALIFY_CPU_ISA."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from product_units_step import loss

import scalify
from scalify import _runtime

HERE = pathlib.Path(__file__).parent
UNITS = ("f32", "avx512_bf16", "amx")


def gradients(recipe: str, unit: str, folder: pathlib.Path) -> tuple[np.ndarray, str]:
    """Returns the gradients on a unit, and the unit on which they ran."""
    out = folder / f"{unit}.npy"
    command = [sys.executable, str(HERE / "product_units_step.py"), recipe]
    run = subprocess.run(
        [*command, str(folder / "step.scalify"), str(out)],
        # One kernel of OpenBLAS on every machine: each sums in an order of its own.
        env={**os.environ, "SCALIFY_CPU_ISA": unit, "OPENBLAS_CORETYPE": "Haswell"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return np.load(out), run.stdout.split()[-1]


def units() -> list[str]:
    """Returns the units of this processor, from the slowest: F32, and those it runs when named."""
    found = []
    for unit in UNITS:
        run = subprocess.run(
            [sys.executable, "-c", "from scalify import _runtime; print(_runtime.product_unit())"],
            env={**os.environ, "SCALIFY_CPU_ISA": unit},
            capture_output=True,
            text=True,
            check=True,
        )
        if run.stdout.split()[-1] == unit:
            found.append(unit)
    return found


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


# One width of products: all that are cast are FP8.
FP8_ALONE = "attention = false, head = false, sensitive = false"


@pytest.mark.parametrize(
    "recipe",
    ["bf16", *(f'#scalify.recipe<"{name}", {FP8_ALONE}>' for name in ("fp8", "fp8-block"))],
)
def test_one_artefact_has_the_same_gradients_on_every_unit(
    recipe: str, tmp_path: pathlib.Path
) -> None:
    others = units()[1:]
    if not others:
        pytest.skip("this processor has no unit for BF16")
    wide, ran = gradients(recipe, "f32", tmp_path)
    assert ran == "f32"
    for unit in others:
        narrow, ran = gradients(recipe, unit, tmp_path)
        assert ran == unit
        # The units sum exact products in another order. A value between two numbers of E4M3 may
        # then be rounded to the other one, a change of 2^-4. Of ten batches and kernels of OpenBLAS
        # measured, two lost 3.5e-5 so, and eight, as this one, less than 1e-9.
        assert cosine(wide.astype(np.float64), narrow.astype(np.float64)) > 0.99999
        assert not np.array_equal(wide, narrow), "both ran on the same unit"


def test_no_unit_is_nearer_to_f32_than_another(tmp_path: pathlib.Path) -> None:
    """BF16 beside FP8, as in the preset.

    The order of a sum changes one of some 2^14 casts to BF16 by 2^-9, hence all elements of a row
    by 2^-12, and one cast to FP8 in some hundred of these by 2^-4. After a few layers the rounding
    of FP8 is another one, and no larger: the bound is the noise of one layer of twelve.
    """
    found = units()
    if found == ["f32"]:
        pytest.skip("this processor has no unit for BF16")
    folders = {recipe: tmp_path / recipe for recipe in ("none", "fp8")}
    for folder in folders.values():
        folder.mkdir()
    exact, _ = gradients("none", "f32", folders["none"])
    errors = []
    for unit in found:
        gradient, ran = gradients("fp8", unit, folders["fp8"])
        assert ran == unit
        errors.append(1 - cosine(exact.astype(np.float64), gradient.astype(np.float64)))
    assert max(errors) < 13 / 12 * min(errors)


def test_kernels_for_amx_are_right_as_gcc_compiles_them(tmp_path: pathlib.Path) -> None:
    """Its intrinsics say less of the memory that they access than clang's do."""
    if _runtime.product_unit() != "amx" or not shutil.which("g++"):
        pytest.skip("needs AMX and g++")
    runtime, program = HERE.parents[1] / "runtime", tmp_path / "product"
    names = ("AmxGemm", "AmxTiles", "Blas", "Dnnl", "Gemm", "NarrowGemm", "ProductUnit")
    sources = [
        *(runtime / f"blas/{name}.cpp" for name in names),
        runtime / "loader/CpuFeatures.cpp",
    ]
    # Neither library is opened.
    paths = ('-DSCALIFY_OPENBLAS_PATH="none"', '-DSCALIFY_DNNL_PATH="none"')
    folders = ("-I", runtime, "-I", runtime / "include")
    command = ["g++", "-std=c++17", "-O2", *paths, *folders, HERE / "product_on_amx.cpp", *sources]
    subprocess.run([*map(str, command), "-ldl", "-o", str(program)], check=True)
    assert subprocess.run([program], capture_output=True, text=True).stdout == "exact\n"


def test_a_unit_slower_than_f32_must_be_named() -> None:
    """Intel's vectors of BF16 are half as fast as its vectors of F32."""
    words = pathlib.Path("/proc/cpuinfo").read_text().split()
    found = _runtime.product_unit()
    if os.environ.get("SCALIFY_CPU_ISA") or found == "amx" or "avx512_bf16" not in words:
        pytest.skip("needs AVX512-BF16 without AMX")
    assert found == ("f32" if "GenuineIntel" in words else "avx512_bf16")
    assert "avx512_bf16" in units()


def test_an_unknown_unit_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(AssertionError, match=r"SCALIFY_CPU_ISA is 'avx9'; it is one of f32"):
        gradients("bf16", "avx9", tmp_path)


def test_jit_compiles_for_this_machine() -> None:
    step = scalify.jit(loss, recipe="none")
    x = np.ones((1, 48, 64), np.float32)
    assert np.isfinite(float(step([], x)))
    kept = step.executable().manifest["mcpu"]
    assert kept == _runtime.processor()
