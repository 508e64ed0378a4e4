"""Scales of true values: they change only casts, which are compared with ml_dtypes."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir
from stablehlo_run import run_stablehlo

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPT = pathlib.Path(os.environ.get("SCALIFY_BUILD", ROOT / "build")) / "bin" / "scalify-opt"
IMPORT = "--scalify-import"
PROPAGATE = "--scalify-propagate=remarks=0"
EXPORT = "--scalify-to-stablehlo"


def opt(text: str, *passes: str) -> str:
    """Returns `text` after `passes`."""
    done = subprocess.run([OPT, "-", *passes], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def declare_scales(text: str, arrays: list[np.ndarray]) -> str:
    """Declares the scale of each float argument: its root mean square, as a power of two."""
    context = jax_mlir.make_ir_context()
    context.allow_unregistered_dialects = True
    with context:
        module = ir.Module.parse(text)
        main = next(op for op in module.body.operations if op.name.value == "main")
        attributes = []
        for old, array in zip(main.arg_attrs, arrays, strict=True):
            values = {entry.name: entry.attr for entry in old}
            rms = float(np.sqrt(np.mean(np.square(array.astype(np.float64)))))
            if array.dtype.kind == "f" and rms > 0:
                exponent = round(float(np.log2(rms)))
                values["scalify.scale"] = ir.IntegerAttr.get(
                    ir.IntegerType.get_signless(32), exponent
                )
            attributes.append(ir.DictAttr.get(values))
        main.arg_attrs = ir.ArrayAttr.get(attributes)
        return str(module)


def normal_form(fn: Callable[..., Any], *arrays: np.ndarray) -> str:
    """Returns the imported StableHLO of `fn` with declared scales."""
    text = jax.jit(fn, keep_unused=True).lower(*arrays).as_text()
    return declare_scales(opt(text, IMPORT), list(arrays))


def normal(seed: int, shape: tuple[int, ...], scale: float = 1.0) -> np.ndarray:
    """Returns normal values of the given deviation."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


X = normal(0, (16, 64), 2.0**-9)
Y = normal(1, (16, 64), 2.0**5)
W = normal(2, (64, 32), 0.02)
TOKENS = np.random.default_rng(3).integers(0, 16, (8,), dtype=np.int32)
MASK = np.tril(np.ones((16, 64), bool))


def rms_norm(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def masked_softmax(x: jax.Array, fill: float) -> jax.Array:
    return jax.nn.softmax(jnp.where(MASK, x, fill), axis=-1)


def cross_entropy(x: jax.Array, tokens: jax.Array) -> jax.Array:
    logp = jax.nn.log_softmax(x[:8], axis=-1)
    return -jnp.mean(jnp.take_along_axis(logp, tokens[:, None], axis=-1))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "add": (lambda x, y: x + y, (X, Y)),
    "subtract": (lambda x, y: x - y, (X, Y)),
    "multiply": (lambda x, y: x * y, (X, Y)),
    "divide": (lambda x, y: x / (y * y + 1.0), (X, Y)),
    "square_sum": (lambda x: (x * x).sum(-1), (X,)),
    "maximum": (lambda x, y: jnp.maximum(x, y), (X, Y)),
    "relu": (lambda x: jax.nn.relu(x), (X,)),
    "clamp": (lambda x: jnp.clip(x, -0.001, 0.002), (X,)),
    "abs_sign": (lambda x: jnp.abs(x) + jnp.sign(x), (X,)),
    "exp_log": (lambda x: jnp.log(jnp.exp(x * 100) + 1.0), (X,)),
    "sqrt_rsqrt": (lambda x: jnp.sqrt(x * x) + jax.lax.rsqrt(x * x + 1e-6), (X,)),
    "power": (lambda x: x**3 + jnp.abs(x) ** 1.5, (X,)),
    "trigonometry": (lambda y: jnp.sin(y) * jnp.cos(y) + jnp.tanh(y), (Y,)),
    "logistic": (lambda y: jax.nn.sigmoid(y) + jax.nn.silu(y), (Y,)),
    "dot": (lambda x, w: x @ w, (X, W)),
    "batched_dot": (
        lambda x, y: jnp.einsum("bij,bkj->bik", x.reshape(4, 4, 64), y.reshape(4, 4, 64)),
        (X, Y),
    ),
    "reduce_max": (lambda x: x.max(-1), (X,)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], 1), (X, Y)),
    "pad_slice": (lambda x: jnp.pad(x, ((1, 2), (0, 3)))[1:9, 2:], (X,)),
    "pad_value": (lambda x: jnp.pad(x, 1, constant_values=3.0), (X,)),
    "transpose": (lambda x: x.T.reshape(8, -1), (X,)),
    "gather": (lambda x, t: x[t], (X, TOKENS)),
    "scatter": (lambda x, t: jnp.zeros((16, 64)).at[t].add(x[:8]), (X, TOKENS)),
    "scatter_into": (lambda x, y, t: x.at[t].add(y[:8]), (X, Y, TOKENS)),
    "one_hot": (lambda t, x: jax.nn.one_hot(t, 16) @ x, (TOKENS, X)),
    "where_zero": (lambda x: jnp.where(MASK, x, 0.0), (X,)),
    "where_infinity": (lambda x: masked_softmax(x * 100, -jnp.inf), (X,)),
    "where_lowest": (lambda x: masked_softmax(x * 100, float(jnp.finfo(jnp.float32).min)), (X,)),
    "where_1e9": (lambda x: masked_softmax(x * 100, -1e9), (X,)),
    "rms_norm": (rms_norm, (X,)),
    "rms_norm_gradient": (jax.grad(lambda x, y: (rms_norm(x) * y).sum()), (X, Y)),
    "softmax_gradient": (jax.grad(lambda x, y: (masked_softmax(x, -jnp.inf) * y).sum()), (X, Y)),
    "cross_entropy": (cross_entropy, (Y, TOKENS)),
    "cross_entropy_gradient": (jax.grad(cross_entropy), (Y, TOKENS)),
    "zero_state": (lambda m, x: 0.9 * m + 0.1 * x, (np.zeros_like(X), X)),
    "adam": (
        lambda m, v, g: (0.9 * m + 0.1 * g) / (jnp.sqrt(0.99 * v + 0.01 * g * g) + 1e-8),
        (np.zeros_like(X), np.zeros_like(X), X * 1e-3),
    ),
    "bfloat16": (lambda x, y: (x.astype(jnp.bfloat16) * y.astype(jnp.bfloat16)).sum(-1), (X, Y)),
    "update_slice": (lambda x, y: jax.lax.dynamic_update_slice(x, y[:2, :3], (1, 2)), (X, Y)),
    "dynamic_slice": (lambda x, t: jax.lax.dynamic_slice(x, (t[0], 0), (2, 64)), (X, TOKENS)),
    "optimization_barrier": (lambda x, y: jax.lax.optimization_barrier((x, y))[1] * 2.0, (X, Y)),
}


def assert_close(actual: list[np.ndarray], expected: list[Any], tolerance: float) -> None:
    """Compares by each result's own largest magnitude."""
    for a, b in zip(actual, expected, strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        assert np.isfinite(b).all() and np.isfinite(a).all()
        assert np.abs(a - b).max() <= tolerance * max(np.abs(b).max(), 1e-30)


@pytest.mark.parametrize("name", PROGRAMS)
def test_scales_leave_values_as_they_are(name: str) -> None:
    """Only casts read scales: without a cast the program equals its input."""
    fn, arrays = PROGRAMS[name]
    text = normal_form(fn, *arrays)
    assert opt(text, PROPAGATE, "--scalify-validate-scales", EXPORT) == opt(text, EXPORT)


def test_fp8_cast_is_saturating_and_scaled() -> None:
    """A linear layer and a head under `fp8` equal the products of their ml_dtypes casts."""
    import ml_dtypes

    x, w, v = normal(5, (8, 64), 40.0), normal(6, (64, 32), 0.01), normal(7, (32, 4), 0.1)
    x[0, 0] = 1e6
    text = normal_form(lambda x, w, v: jnp.tanh(x @ w) @ v, x, w, v)
    scales = [int(e) for e in re.findall(r"scalify.scale = (-?\d+) : i32", text.split("->")[0])]
    decide = "--scalify-decide-formats=recipe=fp8 remarks=0"
    cast = opt(text, PROPAGATE, decide, "--scalify-quantize")
    actual = run_stablehlo(opt(cast, EXPORT), x, w, v)[0]

    def quantised(a: np.ndarray, exponent: int) -> np.ndarray:
        data = np.clip(a / 2.0**exponent, -448, 448).astype(ml_dtypes.float8_e4m3fn)
        return data.astype(np.float64) * 2.0**exponent

    def in_bf16(a: np.ndarray) -> np.ndarray:
        return a.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)

    hidden = np.tanh(quantised(x, scales[0]) @ quantised(w, scales[1]))
    expected = in_bf16(hidden) @ in_bf16(v)
    assert_close([actual], [expected], 1e-5)
