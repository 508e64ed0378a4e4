"""The bound among a value's facts holds for every element, and its scale can be inverted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scale_probe import measure_rms

from scalify import _compiler

RECIPE = '#scalify.recipe<"fp8", head = true>'
X = np.random.default_rng(0).normal(0, 1, (64, 64)).astype(np.float32)


def report(text: str) -> list[dict[str, Any]]:
    """Returns the full report's rows with scales that are known before the step."""
    options = {"recipe": RECIPE, "declaredScales": True}
    return json.loads(_compiler.report(text, json.dumps(options)))["rows"]


def two_sums(x: Any) -> Any:
    def add(a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] * b[1]

    zero = np.float32(0)
    return lax.reduce((x + 3, x), (zero, zero), add, (1,))[0]


def convolve(x: Any) -> Any:
    kernel = jnp.ones((1, 1, 64, 64), jnp.float32)
    return lax.conv_general_dilated(jax.nn.sigmoid(x + 9)[None, None], kernel, (1, 1), "SAME")


def scatter_product(x: Any) -> Any:
    start = lax.broadcast_in_dim(jax.nn.sigmoid(x[0, 0]) + 1, (64,), ())
    return start.at[jnp.zeros(64, jnp.int32)].multiply(jax.nn.sigmoid(x[0]) + 1.5)


def norm(factor: float) -> Callable[[Any], Any]:
    def fn(x: Any) -> Any:
        spike = jnp.where(lax.broadcasted_iota(jnp.int32, x.shape, 1) == 3, x, 0)
        return spike * lax.rsqrt((spike * spike).sum(1, keepdims=True) * np.float32(factor))

    return fn


def large_norm(x: Any) -> Any:
    return x * lax.rsqrt((x * x).mean(1, keepdims=True) * np.float32(1e-4))


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "cumulative sum": lambda x: lax.cumsum(jax.nn.sigmoid(x + 8), 1),
    "convolution": convolve,
    "maximum": lambda x: jnp.maximum(jax.nn.sigmoid(x), 5.0),
    "minimum": lambda x: jnp.minimum(-jax.nn.sigmoid(x), -5.0),
    "clamp": lambda x: lax.clamp(np.float32(2), jax.nn.sigmoid(x), np.float32(3)),
    "clamp by a value": lambda x: lax.clamp(jnp.abs(x), jax.nn.sigmoid(x), x * 0 + 9),
    "power": lambda x: jax.nn.sigmoid(x) ** (-jnp.abs(x) - 2),
    "power of a constant": lambda x: lax.pow(jnp.full(x.shape, -2.0, x.dtype), jnp.round(x) * 4),
    "product by scatter": scatter_product,
    "norm of a sum": norm(1.0),
    "norm of a part of the mean": norm(2.0**-10),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_bounds_hold_of_every_element(name: str) -> None:
    fn = PROGRAMS[name]
    row = report(jax.jit(fn).lower(X).as_text())[-1]
    # Bounds are of real numbers.
    assert np.abs(np.asarray(fn(X))).max() <= row.get("bound", np.inf) * (1 + 1e-6)


@pytest.mark.parametrize("name", ["maximum", "minimum", "clamp", "two sums", "norm"])
def test_scales_follow_limits_sums_and_norms(name: str) -> None:
    fn = {"two sums": two_sums, "norm": large_norm}.get(name) or PROGRAMS[name]
    rows = report(jax.jit(fn).lower(X).as_text())
    row = next(row for row in rows if row["op"] == "reduce") if fn is two_sums else rows[-1]
    assert abs(row["scale"] - np.log2(measure_rms(fn(X)))) <= 1


def test_the_scale_of_tiny_probabilities_has_an_inverse() -> None:
    def fn(x: Any) -> Any:
        return (jax.nn.softmax(x) * np.float32(1e-38)) @ x

    rows = report(jax.jit(fn).lower(X).as_text())
    scales = [row["scale"] for row in rows if row["op"] == "quantize"]
    assert scales and min(scales) >= -120


def test_a_sum_over_devices_that_are_not_counted_keeps_its_size() -> None:
    text = """
    func.func public @main(%x: tensor<4x4xf32> {scalify.scale = 3 : i32}) -> tensor<4x4xf32> {
      %0 = "stablehlo.all_reduce"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) {replica_groups = dense<> : tensor<0x0xi64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      return %0 : tensor<4x4xf32>
    }"""
    assert report(text)[-1]["scale"] == 3
