"""Arguments and results of complex numbers and of integers below 8 bits, against jax.jit."""

from __future__ import annotations

import pathlib
import subprocess
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from test_scalify_run import BUILD, TOOL

import scalify
from scalify import _compiler, _runtime

RNG = np.random.default_rng(3)
# Some ten roundings of F32.
ROUNDING = 5e-6


def complex_numbers(*shape: int) -> Any:
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(np.complex64)


def assert_close(mine: Any, theirs: Any) -> None:
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=ROUNDING, atol=ROUNDING)


def test_complex_arguments_and_results() -> None:
    def step(z: Any, w: Any, x: Any) -> Any:
        return jnp.fft.fft(z @ w), jnp.abs(z), {"scalar": z.sum(), "kept": w}, x * z[0, 0]

    z, w, x = complex_numbers(3, 4), complex_numbers(4, 8), RNG.normal(size=5).astype(np.float32)
    assert_close(scalify.jit(step, "none")(z, w, x), jax.jit(step)(z, w, x))
    on_jax = scalify.jit(step, "none")(jnp.asarray(z), jnp.asarray(w), jnp.asarray(x))
    assert_close(on_jax, jax.jit(step)(z, w, x))


FUNCTIONS = ["arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "conj", "square"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_inverse_functions(name: str) -> None:
    """In all quadrants, and on the cuts' sides that the sign of zero does not choose."""
    values = complex_numbers(64)
    values = np.concatenate([values, values * 30, values / 30, np.complex64([2, -2, 0.5j, 3j, 0])])
    fn = getattr(jnp, name)
    mine = np.asarray(scalify.jit(fn, "none")(values))
    exact = getattr(np, name)(values.astype(np.complex128))
    np.testing.assert_allclose(np.abs(mine.real), np.abs(exact.real), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.abs(mine.imag), np.abs(exact.imag), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mine[:192], exact[:192], rtol=1e-5, atol=1e-6)


def test_the_angle_of_complex_numbers() -> None:
    """StableHLO's atan2 of complex numbers is the angle whose tangent is the quotient."""
    u, v = complex_numbers(64), complex_numbers(64)
    text = """func.func @main(%u: tensor<64xcomplex<f32>>, %v: tensor<64xcomplex<f32>>)
    -> (tensor<64xcomplex<f32>>, tensor<64xcomplex<f32>>) {
  %0 = stablehlo.atan2 %u, %v : tensor<64xcomplex<f32>>
  %1 = stablehlo.bitcast_convert %u : (tensor<64xcomplex<f32>>) -> tensor<64xcomplex<f32>>
  return %0, %1 : tensor<64xcomplex<f32>>, tensor<64xcomplex<f32>>
}"""
    artefact, _ = _compiler.compile(text, '{"recipe": "none"}')
    angle, same = _runtime.Executable(artefact).run([u, v])
    np.testing.assert_array_equal(same, u)
    np.testing.assert_allclose(np.tan(angle.astype(np.complex128)), u / v, rtol=1e-4)


@pytest.mark.parametrize("recipe", ["none", "fp8"])
def test_complex_weights_train(recipe: str) -> None:
    """Gradients by jax.grad of a complex weight descend its loss as under jax.jit."""
    target, x = complex_numbers(16, 8), complex_numbers(16, 32)

    def step(w: Any) -> Any:
        def loss(w: Any) -> Any:
            return jnp.mean(jnp.abs(x @ w - target) ** 2)

        value, gradient = jax.value_and_grad(loss)(w)
        return w - 0.3 * gradient.conj(), value

    fn = scalify.jit(step, recipe, donate_argnums=0)
    theirs = jax.jit(step)
    w = mine = np.zeros((32, 8), np.complex64)
    losses = []
    for _ in range(5):
        mine, value = fn(mine)
        w, expected = theirs(w)
        losses.append((float(value), float(expected)))
    assert losses[-1][0] < 0.8 * losses[0][0]
    # FP8's error of a step, and none's rounding.
    bound = 0.03 if recipe == "fp8" else 1e-4
    for value, expected in losses:
        assert abs(value / expected - 1) < bound


def test_double_precision() -> None:
    def step(z: Any, x: Any) -> Any:
        return z * x, jnp.exp(z), x.sum()

    z = complex_numbers(4).astype(np.complex128)
    x = RNG.normal(size=4)
    with jax.enable_x64(True):
        mine, theirs = scalify.jit(step, "none")(z, x), jax.jit(step)(z, x)
        for a, b in zip(mine, theirs, strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-14)


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_narrow_integers(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    info = ml_dtypes.iinfo(dtype)
    x = np.arange(info.min, info.max + 1).astype(dtype)
    y = x[::-1].copy()

    def step(x: Any, y: Any) -> Any:
        return x + y, lax.max(x, y), x, (x < y), x.astype(jnp.float32), jnp.sort(y)

    wide, other = x.astype(np.int32), y.astype(np.int32)
    total = (wide + other).astype(dtype)
    # XLA:CPU loses the last element of some arrays of 2 bits, so NumPy is the reference.
    expected = [total, np.maximum(wide, other), x, wide < other, wide, np.sort(other)]
    mine = scalify.jit(step, "none")(x, y)
    kinds = [dtype, dtype, dtype, np.bool_, np.float32, dtype]
    for a, b, kind in zip(mine, expected, kinds, strict=True):
        assert np.asarray(a).dtype == kind
        np.testing.assert_array_equal(np.asarray(a).astype(np.int32), b.astype(np.int32))


@pytest.mark.parametrize("count", [1, 7, 8])
@pytest.mark.parametrize("name", ["int4", "uint4"])
@pytest.mark.parametrize("way", ["plain", "donated", "call"])
def test_narrow_integers_of_jax(name: str, count: int, way: str) -> None:
    """XLA packs two elements into a byte of a `jax.Array`, numpy and the runtime do not."""
    x = np.arange(count).astype(np.dtype(getattr(ml_dtypes, name)))

    def step(x: Any, y: Any) -> Any:
        return x + x, y + x.astype(jnp.float32), x

    run = scalify.jit(step, "none", donate_argnums=0 if way == "donated" else None)
    run = jax.jit(run.call) if way == "call" else run
    # The second call takes the first one's results.
    total, wide, same = run(*run(jnp.asarray(x), jnp.ones(count))[:2])
    assert total.dtype == same.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(same).astype(int), (x + x).astype(int))
    np.testing.assert_array_equal(np.asarray(total).astype(int), (x + x + x + x).astype(int))
    np.testing.assert_array_equal(wide, 1 + x.astype(int) + (x + x).astype(int))


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_floats_saturate_in_narrow_integers(name: str) -> None:
    """As XLA converts to any integer; StableHLO leaves it open."""
    info = ml_dtypes.iinfo(getattr(ml_dtypes, name))
    x = np.float32([300, -300, 20, -20, 7.6, -8.6, 1, -1, 0, np.inf, -np.inf, np.nan])
    mine = scalify.jit(lambda x: x.astype(name), "none")(x)
    expected = np.clip(np.nan_to_num(np.trunc(x), nan=0), info.min, info.max)
    np.testing.assert_array_equal(mine.astype(np.int32), expected)


def test_quantized_types_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    text = tmp_path / "q.mlir"
    text.write_text(
        "func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.1:-30>>) -> tensor<2xf32> {\n"
        '  %0 = "stablehlo.uniform_dequantize"(%x) :'
        " (tensor<2x!quant.uniform<i8:f32, 0.1:-30>>) -> tensor<2xf32>\n"
        "  return %0 : tensor<2xf32>\n}\n"
    )
    done = subprocess.run(
        [BUILD / "bin" / "scalify-compile", text, "-o", tmp_path / "q.scalify"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "quantized" in done.stderr


def test_the_tool_reads_and_writes_complex_numbers(tmp_path: pathlib.Path) -> None:
    from safetensors.numpy import load_file, save_file

    z = complex_numbers(3)
    text = "func.func @main(%z: tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>> {\n"
    text += "  %0 = stablehlo.multiply %z, %z : tensor<3xcomplex<f32>>\n"
    text += "  return %0 : tensor<3xcomplex<f32>>\n}\n"
    (tmp_path / "step.mlir").write_text(text)
    save_file({"arg0": z}, tmp_path / "in.safetensors")
    artefact = tmp_path / "step.scalify"
    compiler = BUILD / "bin" / "scalify-compile"
    subprocess.run([compiler, tmp_path / "step.mlir", "-o", artefact], check=True)
    out = tmp_path / "out.safetensors"
    subprocess.run([TOOL, artefact, "--in", tmp_path / "in.safetensors", "--out", out], check=True)
    (result,) = load_file(out).values()
    np.testing.assert_allclose(result, z * z, rtol=1e-6)
