"""Unsupported programs: an error that names the place, and never a crash."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import scalify
from scalify.portable import to_text

HEAD = "func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
TAIL = "\n  return %0 : tensor<4xf32>\n}\n"


def diagnostics_of(text: str) -> list[dict[str, Any]]:
    with pytest.raises(scalify.CompileError) as caught:
        scalify.compile(text)
    return caught.value.diagnostics


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("  %0 = stablehlo.add %a, %a : tensor<", "expected"),
        ("  %0 = stablehlo.add %a, %a : tensor<5xf32>", "expects different type"),
        ("  %0 = stablehlo.addition %a, %a : tensor<4xf32>", "'stablehlo.addition' is unknown"),
        ('  %0 = "foo.bar"(%a) : (tensor<4xf32>) -> tensor<4xf32>', "dialect that Scalify"),
        ("  %0 = stablehlo.add %a, %b : tensor<4xf32>", "undeclared SSA value"),
        ('  %0 = "stablehlo.add"(%a) : (tensor<4xf32>) -> tensor<4xf32>', "expected 2 operands"),
        ("  %0 = call @gone(%a) : (tensor<4xf32>) -> tensor<4xf32>", "gone"),
    ],
)
def test_malformed_text_is_an_error_at_its_line(line: str, message: str) -> None:
    error = next(d for d in diagnostics_of(HEAD + line + TAIL) if d["severity"] == "error")
    assert message in error["message"]
    assert error["location"].startswith("input:2:")
    assert error["source"] == line.strip()


@pytest.mark.parametrize("text", ["", "module {}", "\0\1\2", "module {" * 100, "}" * 100])
def test_what_is_no_program_is_an_error(text: str) -> None:
    assert diagnostics_of(text)


def test_every_prefix_of_a_program_is_an_error_or_compiles() -> None:
    text = HEAD + "  %0 = stablehlo.add %a, %a : tensor<4xf32>" + TAIL
    for length in range(0, len(text) - 3, 3):
        assert diagnostics_of(text[:length])


def test_the_error_prints_its_parts_and_can_be_pickled() -> None:
    with pytest.raises(scalify.CompileError) as caught:
        scalify.compile(HEAD + "  %0 = stablehlo.add %a, %a : tensor<5xf32>" + TAIL)
    text = str(caught.value)
    assert "input:2:" in text and "| %0 = stablehlo.add" in text
    assert "note: prior use here" in text and isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


def test_unknown_recipe_target_option_and_pipeline() -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(scalify.CompileError, match="unknown recipe 'fp7': expected one of none"):
        scalify.transform(jnp.sin, recipe="fp7")(x)
    with pytest.raises(
        scalify.CompileError, match="part 'scales' of a recipe is 'dice': expected none"
    ):
        scalify.transform(jnp.sin, recipe='#scalify.recipe<"mine", scales = dice>')(x)
    text = jax.jit(jnp.sin).lower(x).as_text()
    with pytest.raises(scalify.CompileError, match="unknown target 'tpu'"):
        scalify.compile(text, target="tpu")
    with pytest.raises(ValueError, match=r"use scalify\.transform"):
        scalify.compile(text, target="stablehlo")
    with pytest.raises(scalify.CompileError, match="cannot read the pipeline 'scalify-impart'"):
        scalify.opt(text, "scalify-impart")
    with pytest.raises(ValueError, match="unknown option 'colour'"):
        scalify._compiler.compile(text, '{"colour": "red"}')
    with pytest.raises(ValueError, match="option 'strict' must be true or false"):
        scalify._compiler.compile(text, '{"strict": 1}')


def test_values_that_are_no_arrays_and_functions_that_are_none() -> None:
    with pytest.raises(TypeError, match="mark the argument as static"):
        scalify.transform(lambda x: x, recipe="none")("text")
    with pytest.raises(TypeError, match="expected a function"):
        scalify.transform(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected StableHLO text or bytes, not int"):
        scalify.compile(3)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(jax, "new_ref"), reason="this JAX has no refs")
@pytest.mark.parametrize("wrap", [scalify.jit, scalify.transform])
def test_a_mutable_ref_is_refused_with_the_way_out(wrap: Any) -> None:
    ref = jax.new_ref(jnp.zeros(3))

    def add(x: Any) -> Any:
        ref[...] += x
        return ref[...]

    with pytest.raises(TypeError, match=r"'add' closes over a mutable Ref.*ref\[\.\.\.\]"):
        wrap(add, "none")(jnp.ones(3))
    with pytest.raises(TypeError, match=r"argument r of .* mutable Ref.*ref\[\.\.\.\]"):
        wrap(lambda r, x: x, "none")(ref, jnp.ones(3))
    assert ref[...].tolist() == [0, 0, 0]

    def within(x: Any) -> Any:
        own = jax.new_ref(x)
        own[...] *= 2
        return own[...]

    assert wrap(within, "none")(np.ones(3, np.float32)).tolist() == [2, 2, 2]


def test_errors_of_tracing_come_through() -> None:
    def f(x: Any) -> Any:
        return x if x > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError):
        scalify.jit(f)(np.float32(1))


def test_portable_artefacts_become_text(tmp_path: Any) -> None:
    exported = jax.export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((4,), np.float32))
    for data in (exported.mlir_module_serialized, bytes(exported.serialize())):
        assert "stablehlo.sine" in to_text(data)
    text = jax.jit(jnp.sin).lower(np.ones(3, np.float32)).as_text()
    assert to_text(text) == to_text(text.encode()) == text
    with pytest.raises(ValueError, match="not a portable"):
        to_text(exported.mlir_module_serialized[:50])
    with pytest.raises(ValueError, match="neither StableHLO text nor"):
        to_text(b"\xff\xfe\x00")

    path = tmp_path / "artefact"
    path.write_bytes(exported.mlir_module_serialized)
    command = [sys.executable, "-W", "error", "-m", "scalify.portable"]
    options: dict[str, Any] = {
        "capture_output": True,
        "text": True,
        "cwd": pathlib.Path(scalify.__file__).parents[1],
    }
    done = subprocess.run([*command, path], **options)
    assert done.returncode == 0 and "stablehlo.sine" in done.stdout
    done = subprocess.run([*command, tmp_path / "gone"], **options)
    assert done.returncode == 1 and "No such file" in done.stderr
    done = subprocess.run([*command, "--help"], **options)
    assert done.returncode == 0 and done.stdout.startswith("usage: ")


def test_bytecode_is_refused_by_the_compiler_with_the_way_out() -> None:
    with pytest.raises(scalify.CompileError, match=r"python -m scalify\.portable"):
        scalify.opt("vhlo.add", "scalify-import")


def test_a_call_back_into_python_is_refused_where_nobody_has_the_function() -> None:
    def step(x: Any) -> Any:
        jax.debug.print("{}", x.sum())
        return x * 2

    text = jax.jit(step).lower(np.ones(4, np.float32)).as_text(debug_info=True)
    with pytest.raises(scalify.CompileError, match="calls back into Python") as caught:
        scalify.compile(text)
    assert "test_errors.py" in caught.value.diagnostics[0]["location"]


EXCHANGES_WHILE = """
func.func @main(%a: tensor<8xf32>, %n: tensor<f32>) -> tensor<8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r:2 = stablehlo.while(%x = %a, %s = %n) : tensor<8xf32>, tensor<f32>
    cond {
      %p = stablehlo.compare GT, %s, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = "stablehlo.all_reduce"(%x) <{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
      ^bb0(%b: tensor<f32>, %c: tensor<f32>):
        %d = stablehlo.add %b, %c : tensor<f32>
        stablehlo.return %d : tensor<f32>
      }) : (tensor<8xf32>) -> tensor<8xf32>
      %t = stablehlo.reduce(%y init: %z) applies stablehlo.minimum across dimensions = [0]
        : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %y, %t : tensor<8xf32>, tensor<f32>
    }
  return %r#0 : tensor<8xf32>
}
"""


def test_a_loop_of_unknown_length_names_what_runs_it() -> None:
    """Plans have such loops, but not with collectives: ranks might leave them apart."""
    for target in ("cpu", "sm_90a"):
        with pytest.raises(scalify.CompileError, match="number of times that is not kn") as caught:
            scalify.compile(EXCHANGES_WHILE, "none", target=target)
        assert "scalify.transform leaves it to XLA" in str(caught.value)
    fn = lambda key: jax.random.gamma(key, 2.0, (4,))  # noqa: E731
    key = jax.random.key(0)
    # The same program for others, which may fuse it in another way.
    for run in (scalify.transform(fn, "fp8"), scalify.jit(fn, "none")):
        np.testing.assert_allclose(run(key), jax.jit(fn)(key), rtol=1e-5)


SHARDY = """module {{
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {{
    %0 = sdy.{} %a <@mesh, [{{"x"}}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }}
}}"""
GSPMD = """module attributes {{mhlo.num_partitions = 2 : i32}} {{
  func.func public @main(%a: tensor<8xf32> {}) -> tensor<8xf32> {{
    %0 = {}(%a) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }}
}}"""
SPLIT = '{mhlo.sharding = "{devices=[2]<=[2]}"}'


@pytest.mark.parametrize(
    "text",
    [
        SHARDY.format("sharding_constraint"),
        SHARDY.format("reshard"),
        GSPMD.format("", "stablehlo.custom_call @Sharding"),
        GSPMD.format("", "stablehlo.custom_call @SPMDFullToShardShape"),
        GSPMD.format(SPLIT, "stablehlo.negate"),
    ],
)
def test_a_sharded_program_names_what_partitions_it(text: str) -> None:
    text = text.replace("negate(%a) : (tensor<8xf32>) -> ", "negate %a : ")
    (error,) = [one for one in diagnostics_of(text) if one["severity"] == "error"]
    assert "sharded over several devices" in error["message"]
    assert "python -m scalify.partition" in error["message"]
    assert error["location"]


def test_names_of_one_gpu_are_one_target() -> None:
    text = HEAD + "  %0 = stablehlo.add %a, %a : tensor<4xf32>" + TAIL
    made = {name: scalify.compile(text, target=name) for name in ("sm_90a", "cuda", "h100")}
    assert {exe.manifest["target"] for exe in made.values()} == {"sm_90a"}
    with pytest.raises(scalify.CompileError, match="unknown target 'h9': expected one of cpu"):
        scalify.compile(text, target="h9")


def test_what_is_replicated_is_not_cut() -> None:
    text = GSPMD.format('{mhlo.sharding = "{replicated}"}', "stablehlo.negate")
    text = text.replace("negate(%a) : (tensor<8xf32>) -> ", "negate %a : ")
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(scalify.compile(text)(x)[0], -x)


def test_missing_pytorch_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith("scalify.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(vars(scalify), "torch", raising=False)
    monkeypatch.setitem(sys.modules, "torchax", None)
    with pytest.raises(ImportError, match=r"pip install 'scalify\[torch\]'"):
        _ = scalify.torch


@pytest.mark.parametrize("wrap", [scalify.jit, scalify.transform])
def test_a_masked_array_is_refused_by_its_path(wrap: Any) -> None:
    """As by jax.jit: a step would compute with the elements that the mask hides."""
    masked = np.ma.masked_array(np.ones(4, np.float32), [False, True, False, True])
    step = wrap(lambda batch: batch["x"] + 1, recipe="none")
    for _ in range(2):  # before and after a trace of this type
        with pytest.raises(ValueError, match=r"batch\['x'\].*masked array.*filled"):
            step({"x": masked})
        np.testing.assert_array_equal(step({"x": masked.filled(0)}), [2, 1, 2, 1])


def test_an_executable_refuses_a_masked_array() -> None:
    run = scalify.compile(HEAD + "  %0 = stablehlo.add %a, %a : tensor<4xf32>" + TAIL)
    with pytest.raises(ValueError, match=r"argument 0: a masked array"):
        run(np.ma.masked_array(np.ones(4, np.float32), True))
