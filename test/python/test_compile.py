"""scalify.compile and scalify-compile: text to artefact to numbers."""

from __future__ import annotations

import os
import pathlib
import subprocess
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import scalify
from scalify import artefact
from scalify._executable import Executable

BUILD = pathlib.Path(os.environ.get("SCALIFY_BUILD", pathlib.Path(__file__).parents[2] / "build"))


def program(w: Any, x: Any, n: Any) -> tuple[Any, Any]:
    return w - 0.5 * (x.T @ jnp.tanh(x @ w)), n + 1


def arguments() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    w = rng.normal(0, 0.1, (32, 48)).astype(np.float32)
    return w, rng.normal(size=(8, 32)).astype(np.float32), np.array([3, 4], np.int32)


def lowered(debug_info: bool = True) -> str:
    jitted = jax.jit(program, donate_argnums=0)
    return str(jitted.lower(*arguments()).as_text(debug_info=debug_info))


@pytest.mark.parametrize("debug_info", [False, True])
def test_text_runs_in_the_order_of_main(debug_info: bool) -> None:
    executable = scalify.compile(lowered(debug_info))
    got = executable(*arguments())
    want = jax.jit(program)(*arguments())
    assert isinstance(got, list) and isinstance(got[0], scalify.Array)
    np.testing.assert_allclose(np.asarray(got[0]), want[0], rtol=1e-5, atol=1e-6)
    assert got[1].tolist() == [4, 5]


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_a_plan_alone_is_the_plan_of_what_runs(target: str) -> None:
    options = {"target": target, "ptxas": "none"}
    whole, _ = artefact.build(lowered(), options)
    plan, _ = artefact.build(lowered(), {**options, "planOnly": True})
    manifests = [artefact.manifest_of(one) for one in (whole, plan)]
    assert all(one["sections"]["kernels"]["size"] > 0 for one in manifests[:1])
    assert manifests[1]["sections"]["kernels"]["size"] == 0
    # The hash is of the kernels too.
    for manifest in manifests:
        del manifest["sections"], manifest["hash"]
    assert manifests[0] == manifests[1]
    assert any(command["op"] == "kernel" for command in manifests[1]["functions"]["step"])


def test_a_plan_alone_does_not_run() -> None:
    says = "holds a plan without kernels: compile it without plan-only to run it"
    plans = {
        target: artefact.build(lowered(), {"target": target, "planOnly": True})[0]
        for target in ("cpu", "sm_90a")
    }
    with pytest.raises(RuntimeError, match=says):
        Executable(plans["cpu"])
    # A recording of a CPU needs no code; that of a GPU checks each kernel's parameters.
    recorded, gpu = (Executable(plan, device="null") for plan in plans.values())
    recorded(*arguments())
    assert "kernel " in recorded.trace
    assert gpu.memory["peak"] == recorded.memory["peak"]
    with pytest.raises(RuntimeError, match=says):
        gpu(*arguments())


def test_bytes_of_an_export_run() -> None:
    exported = jax.export.export(jax.jit(program))(*arguments())
    want = program(*arguments())[0]
    for data in (exported.mlir_module_serialized, bytes(exported.serialize())):
        got = scalify.compile(data)(*arguments())[0]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_arguments_that_do_not_fit_are_named() -> None:
    executable = scalify.compile(lowered())
    w, x, n = arguments()
    with pytest.raises(ValueError, match="takes 3 arguments, not 2"):
        executable(w, x)
    with pytest.raises(ValueError, match="argument 'x' takes"):
        executable(w, x[:4], n)
    with pytest.raises(ValueError, match="argument 'x' takes"):
        executable(w, x.astype(np.float64), n)
    with pytest.raises(ValueError, match="argument 'n' takes"):
        executable(w, x, n.astype(np.float32))


def test_saved_artefacts_are_loaded_and_damaged_ones_refused(tmp_path: pathlib.Path) -> None:
    executable = scalify.compile(
        lowered(), recipe="fp8", numerics=scalify.Numerics(scales={"w": -3})
    )
    path = tmp_path / "step.scalify"
    executable.save(path)
    again = scalify.load(path)
    for a, b in zip(again(*arguments()), executable(*arguments()), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert again.scales.exponents == (-3, None, None)
    assert [arg["name"] for arg in again.args] == ["w", "x", "n"]
    assert again.args[0]["alias_result"] == 0 and again.results[0]["alias_arg"] == 0

    data = path.read_bytes()
    for size in (0, 7, 31, 200, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(RuntimeError, match=r"artefact|truncated|bytes"):
            scalify.load(path)
    path.write_bytes(data[:-100] + b"\1" + data[-99:])
    with pytest.raises(RuntimeError, match="checksum"):
        scalify.load(path)
    with pytest.raises(FileNotFoundError):
        scalify.load(tmp_path / "gone.scalify")


def test_the_tool_makes_the_same_artefact(tmp_path: pathlib.Path) -> None:
    (tmp_path / "step.mlir").write_text(lowered())
    (tmp_path / "scales.json").write_text('{"w": -3, "x": 0}')
    tool = BUILD / "bin" / "scalify-compile"
    subprocess.run(
        [tool, "step.mlir", "-o", "step.scalify", "--recipe=fp8", "--scales=scales.json"],
        cwd=tmp_path,
        check=True,
    )
    executable = scalify.compile(
        lowered(), recipe="fp8", numerics=scalify.Numerics(scales={"w": -3, "x": 0})
    )
    assert (tmp_path / "step.scalify").read_bytes() == executable._artefact


def test_snapshots_show_every_stage(tmp_path: pathlib.Path) -> None:
    recipe = '#scalify.recipe<"fp8", head = true>'  # its one layer is the last one
    scalify.compile(lowered(), recipe=recipe, snapshots=tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:3] == ["01-import.mlir", "02-scaling.mlir", "03-precision.mlir"]
    assert {"05-fusion.mlir", "06-codegen.mlir"} <= set(names)
    assert "scalify.quantize" in (tmp_path / "03-precision.mlir").read_text()


def test_diagnostics_tell_what_stays_wide() -> None:
    executable = scalify.compile(lowered(), recipe="fp8")
    messages = [entry["message"] for entry in executable.diagnostics]
    assert sum("without a declared scale" in message for message in messages) == 1
    assert executable.manifest["recipe"] == "fp8"


def test_a_program_without_arguments_and_one_that_passes_through() -> None:
    assert scalify.compile(jax.jit(lambda: jnp.arange(3.0)).lower().as_text())()[0].tolist() == (
        [0.0, 1.0, 2.0]
    )
    x = np.arange(4, dtype=np.float32)
    text = jax.jit(lambda x: (x, x)).lower(x).as_text()
    got = scalify.compile(text)(x)
    assert got[0].tolist() == got[1].tolist() == x.tolist()


def gated(layers: int) -> tuple[list[Any], Any, str]:
    """SwiGLUs without norms: with weights that count as 1, scales grow by a power per layer."""

    def loss(weights: list[Any], x: Any) -> Any:
        for gate, up, down in weights:
            x = (jax.nn.silu(x @ gate) * (x @ up)) @ down
        return jnp.mean(x * x)

    rng = np.random.default_rng(0)
    normal = lambda n, m: (rng.normal(size=(n, m)) / np.sqrt(n)).astype(np.float32)  # noqa: E731
    weights = [(normal(64, 128), normal(64, 128), normal(128, 64)) for _ in range(layers)]
    x = rng.normal(size=(32, 64)).astype(np.float32)
    want = jax.tree.leaves(jax.grad(loss)(weights, x))
    text = jax.jit(jax.grad(loss)).lower(weights, x).as_text(debug_info=True)
    return [*jax.tree.leaves(weights), x], want, text


@pytest.mark.parametrize("recipe", ["fp8", "fp16", "bf16"])
def test_text_without_scales_loads(recipe: str) -> None:
    """An alpha of infinity was written, which no artefact can hold."""
    arguments, want, text = gated(3)
    scalify.compile(
        text, recipe=recipe, target="sm_90a", numerics=scalify.Numerics(scales="declared")
    )
    with pytest.raises(scalify.CompileError, match=r"has no declared scale: it counts as 2\^0"):
        scalify.compile(
            text, recipe=recipe, strict=True, numerics=scalify.Numerics(scales="declared")
        )
    got = scalify.compile(text, recipe=recipe, numerics=scalify.Numerics(scales="declared"))(
        *arguments
    )
    for a, b in zip(want, got, strict=True):
        assert np.isfinite(np.asarray(b)).all()
        # Dots that are wide for their scale are as exact as F32; BF16 rounds by 2^-9 the others.
        if recipe == "bf16":
            assert np.linalg.norm(a - b) <= 2**-9 * 30 * np.linalg.norm(a)


def test_large_factors_behind_a_product() -> None:
    """Their product is beyond F32: an alpha of infinity would make zeros NaN."""
    fn = lambda x, w: (x @ w) * 1e30 * 1e30  # noqa: E731
    x, w = np.zeros((4, 8), np.float32), np.ones((8, 4), np.float32)
    text = jax.jit(fn).lower(x, w).as_text()
    (got,) = scalify.compile(text, recipe="none")(x, w)
    np.testing.assert_array_equal(got, np.zeros((4, 4)))


RESOURCES = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %w = stablehlo.constant dense_resource<w> : tensor<2x3xf32>
  %mask = stablehlo.constant dense_resource<mask> : tensor<2x3xi1>
  %0 = stablehlo.multiply %x, %w : tensor<2x3xf32>
  %1 = stablehlo.select %mask, %0, %x : tensor<2x3xi1>, tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
{-# dialect_resources: {builtin: {w: "0xALIGN", mask: "0x01000000010001000001"}} #-}
"""


def test_constants_may_be_resources() -> None:
    # As torch-mlir prints weights: the alignment in four bytes, then the elements.
    w = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5
    x = np.full((2, 3), 3, np.float32)
    mask = np.array([[1, 0, 1], [0, 0, 1]], bool)
    text = RESOURCES.replace("ALIGN", "04000000" + w.tobytes().hex())
    (got,) = scalify.compile(text)(x)
    np.testing.assert_array_equal(np.asarray(got), np.where(mask, w * x, x))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (
            "04000000" + "00" * 20,
            "'w' of 20 bytes, which are not the elements of 'tensor<2x3xf32>'",
        ),
        # One element is no splat: the type says six.
        ("04000000" + "00" * 4, "'w' of 4 bytes, which are not the elements of 'tensor<2x3xf32>'"),
        (None, "the resource 'w', which the text lacks: print the program with its resources"),
    ],
)
def test_resources_that_do_not_fit(data: str | None, error: str) -> None:
    text = RESOURCES.replace("ALIGN", data) if data else RESOURCES.split("{-#")[0]
    with pytest.raises(scalify.CompileError, match=error):
        scalify.compile(text)
