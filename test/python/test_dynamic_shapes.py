"""Programs with symbolic dimensions of jax.export, compiled for given shapes, against JAX."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from test_scalify_run import BUILD

import scalify

RNG = np.random.default_rng(5)
# Some ten roundings of F32.
ROUNDING = 1e-5


def exported(fn: Callable[..., Any], *shapes: str, constraints: tuple[str, ...] = ()) -> Any:
    scope = export.SymbolicScope(constraints)
    args = [
        jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), jnp.float32)
        for shape in shapes
    ]
    return export.export(jax.jit(fn))(*args)


def move(x: Any, w: Any) -> Any:
    """Shapes of reshapes, paddings, slices, windows and gathers."""
    y = x @ w
    n = x.shape[0]
    both = jnp.concatenate([y, jnp.ones((2 * n, w.shape[1]))])
    return (
        both.reshape(-1),
        both.reshape(n, -1),
        jnp.pad(y, ((n, 1), (0, 2))),
        y[1:],
        y[::2],
        y[-1],
        jnp.cumsum(y, axis=0),
        jnp.take(y, jnp.arange(n)[::-1], axis=0),
        jnp.where(jnp.arange(n)[:, None] < n - 1, y, 0.0),
        jnp.flip(y, 0).T,
        jnp.tile(y, (2, 1)),
    )


def reduce(x: Any, w: Any) -> Any:
    """Sums, softmax, sorts and norms over symbolic dimensions."""
    y = jnp.tanh(x @ w)
    return (
        y.mean(0),
        jax.nn.softmax(y, axis=0),
        y.max(),
        jnp.sort(y, axis=0),
        jnp.argsort(y[:, 0]),
        jnp.argmax(y, axis=0),
        jnp.linalg.norm(y, axis=1),
        jnp.var(y, axis=0),
        jnp.einsum("ij,kj->ik", y, y),
    )


def loop(x: Any, w: Any) -> Any:
    """A carry of symbolic shape, a scan over it, a branch and its gradient."""

    def loss(w: Any) -> Any:
        def body(carry: Any, row: Any) -> Any:
            return jnp.tanh(carry + row @ w), carry.sum()

        last, sums = lax.scan(body, jnp.zeros(w.shape[1]), x)
        grown = lax.fori_loop(0, 3, lambda i, y: y * 0.5 + i, x)
        chosen = lax.cond(x[0, 0] > 0, lambda y: y + 1, lambda y: y * 2, grown)
        return last.sum() + sums.sum() + chosen.mean()

    return jax.value_and_grad(loss)(w)


def convolve(x: Any, w: Any) -> Any:
    image = x[None, None]
    kernel = w[:3, :3][None, None]
    out = lax.conv_general_dilated(image, kernel, (1, 2), "SAME")
    return out, lax.reduce_window(out, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 1, 1), "SAME")


def norms(x: Any, w: Any) -> Any:
    y = x @ w
    key = jax.random.key(3)
    return jax.random.uniform(key, y.shape), lax.top_k(y[:, 0], 2), y.astype(jnp.bfloat16) * 2


@pytest.mark.parametrize("fn", [move, reduce, loop, convolve, norms])
def test_shapes_follow_from_arguments(fn: Callable[..., Any]) -> None:
    program = exported(fn, "b, 8", "8, 4", constraints=("b >= 2",))
    for size in (2, 5):
        x = RNG.normal(size=(size, 8)).astype(np.float32)
        w = RNG.normal(size=(8, 4)).astype(np.float32)
        step = scalify.compile(program.serialize(), arg_shapes={"x": x.shape})
        for mine, theirs in zip(step(x, w), jax.tree.leaves(jax.jit(fn)(x, w)), strict=True):
            theirs = np.asarray(theirs)
            assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(
                mine.astype(np.float32),
                theirs.astype(np.float32),
                rtol=ROUNDING,
                atol=ROUNDING,
            )


def test_several_symbols() -> None:
    """Sizes of two arguments that share a symbol, and one that is a multiple."""
    program = exported(lambda x, w: (x @ w).sum(), "b, 2*d", "2*d, d")
    x, w = np.ones((3, 6), np.float32), np.ones((6, 3), np.float32)
    step = scalify.compile(program.serialize(), arg_shapes={0: x.shape, "w": w.shape})
    assert step(x, w)[0] == 54
    with pytest.raises(scalify.CompileError, match="Division had remainder 1"):
        scalify.compile(program.serialize(), arg_shapes={"x": (3, 5), "w": (5, 2)})
    with pytest.raises(scalify.CompileError, match="does not hold: Input shapes do not match"):
        scalify.compile(program.serialize(), arg_shapes={"x": (3, 6), "w": (6, 2)})


def test_what_is_missing_or_wrong() -> None:
    program = exported(lambda x: x + 1, "b, 8").serialize()
    cases = {
        None: r"need sizes: 'x' \(tensor<\?x8xf32>\); give them by --arg-shapes",
        ("y", (4, 8)): "unknown argument 'y'; those of dynamic shape are 'x'",
        ("x", (4, 9)): "shape '4x9' does not fit argument 'x' of type 'tensor<.x8xf32>'",
        ("x", (4,)): "shape '4' does not fit",
    }
    for case, message in cases.items():
        with pytest.raises(scalify.CompileError, match=message):
            scalify.compile(program, arg_shapes=dict([case]) if case else None)


FOREIGN = """
func.func @main(%x: tensor<?x4xf32>, %n: tensor<i32>) -> (tensor<?x4xf32>, tensor<?xf32>) {
  %c1 = arith.constant 1 : index
  %s = shape.shape_of %x : tensor<?x4xf32> -> tensor<2xindex>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %ones = stablehlo.dynamic_broadcast_in_dim %one, %s, dims = []
      : (tensor<f32>, tensor<2xindex>) -> tensor<?x4xf32>
  %sum = chlo.broadcast_add %x, %ones : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x4xf32>
  %cols = tensor.dim %x, %c1 : tensor<?x4xf32>
  %count = arith.muli %rows, %cols : index
  %flat = tensor.from_elements %count : tensor<1xindex>
  %line = stablehlo.dynamic_reshape %sum, %flat
      : (tensor<?x4xf32>, tensor<1xindex>) -> tensor<?xf32>
  return %sum, %line : tensor<?x4xf32>, tensor<?xf32>
}
"""


def test_sizes_of_other_dialects() -> None:
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    total, line = scalify.compile(FOREIGN, arg_shapes={0: (3, 4)})(x, np.int32(1))
    np.testing.assert_array_equal(total, x + 1)
    np.testing.assert_array_equal(line, (x + 1).reshape(-1))


def test_shapes_of_data_are_refused() -> None:
    text = """
func.func @main(%x: tensor<4xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.dynamic_broadcast_in_dim %c, %n, dims = []
      : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"""
    with pytest.raises(scalify.CompileError, match="does not follow from those of the arguments"):
        scalify.compile(text)


def run(tool: str, *arguments: Any, python: str = sys.executable) -> Any:
    environment = {**os.environ, "SCALIFY_PYTHON": python}
    environment["PYTHONPATH"] = str(pathlib.Path(scalify.__file__).parents[1])
    command = [BUILD / "bin" / tool, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_tools(tmp_path: pathlib.Path) -> None:
    """Text, a portable artefact, and the bytes of jax.export."""
    program = exported(lambda x: x * 2, "b, 8")
    forms = [program.mlir_module().encode(), program.mlir_module_serialized, program.serialize()]
    x = RNG.normal(size=(3, 8)).astype(np.float32)
    for number, form in enumerate(forms):
        source, step = tmp_path / f"program{number}", tmp_path / f"step{number}"
        source.write_bytes(form)
        done = run("scalify-compile", source, "-o", step, "--arg-shapes=x=3x8")
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(scalify.load(step)(x)[0], x * 2)
    done = run("scalify-opt", source, "--scalify-import=arg-shapes=x=3x8")
    assert "stablehlo.multiply" in done.stdout and "tensor<3x8xf32>" in done.stdout


def test_tools_say_what_they_cannot_convert(tmp_path: pathlib.Path) -> None:
    program = exported(lambda x: x * 2, "b, 8")
    source = tmp_path / "program"
    source.write_bytes(program.mlir_module_serialized)
    done = run("scalify-compile", source, "-o", tmp_path / "step", python="no-such-python")
    assert done.returncode == 1
    assert "'no-such-python' is not found; set SCALIFY_PYTHON to a Python with" in done.stderr
    source.write_bytes(program.mlir_module_serialized[:60])
    done = run("scalify-opt", source)
    assert done.returncode == 1 and "not a portable StableHLO artefact" in done.stderr
