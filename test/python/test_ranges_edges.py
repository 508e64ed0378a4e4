"""Bounds at the edges of arithmetic: signed zeros, flushes, wraps, lossy forms of patterns.

Each program runs under XLA with every value as a result; none may leave its bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from ranges_run import observe, observe_text, violations

import scalify

BF16 = ml_dtypes.bfloat16
Range = dict[str, float]


def most(largest: float) -> Range:
    return {"max": largest}


def between(least: float, largest: float) -> Range:
    return {"min": least, "max": largest}


def full(shape: tuple[int, ...], value: float) -> np.ndarray:
    return np.full(shape, value, np.float32)


def narrow(x: Any) -> Any:
    """Rounds to BF16 and back."""
    return x.astype(jnp.bfloat16).astype(jnp.float32)


def of_rows(row: Any, x: Any) -> Any:
    return lax.broadcast_in_dim(row, x.shape, (0,))


def share_of_another_width(v: Any) -> Any:
    wide, slim = (jnp.exp(lax.broadcast_in_dim(v, (4, n), (0,))) for n in (16, 8))
    return wide / of_rows(jnp.sum(slim, 1), wide)


def share_of_rounded(x: Any) -> Any:
    return jnp.exp(x) / of_rows(jnp.sum(jnp.exp(narrow(x)), 1), x)


def share_of_rounded_sum(x: Any) -> Any:
    e = jnp.exp(x)
    return e / of_rows(narrow(jnp.sum(e, 1)), x)


def norm_of_rounded_mean(x: Any) -> Any:
    return x * of_rows(lax.rsqrt(narrow(jnp.mean(x * x, 1) + 1e-6)), x)


def minus_rounded_max(x: Any) -> Any:
    return x - of_rows(narrow(jnp.max(x, 1)), x)


def minus_whole_max(x: Any) -> Any:
    return x - of_rows(jnp.max(x, 1).astype(jnp.int32).astype(jnp.float32), x)


def fused_product_minus_max(x: Any) -> Any:
    """XLA's CPU fuses the product into the difference and not into the maximum."""
    y = x * np.float32(1e4 / 3)
    return y - of_rows(jnp.max(y, 1), y)


def softmax_from_zero(x: Any) -> Any:
    largest = lax.reduce(x, np.float32(0), lax.max, (1,))
    return jnp.sum(jnp.exp(x - of_rows(largest, x)), 1)


def max_under_wrapped_mask(x: Any) -> Any:
    row = lax.broadcasted_iota(jnp.int32, x.shape, 0)
    return jnp.max(jnp.where(row + np.int32(2**31 - 1) > 0, x, -jnp.inf), 1)


def scatter_into_one(x: Any, updates: Any) -> Any:
    return x.at[jnp.zeros(updates.shape, jnp.int32)].add(updates)


TINY = between(1e-40, 1e-39)
BIG = np.concatenate([full((2048,), 3e38), full((2048,), -3e38)])
SCORES = np.random.default_rng(0).normal(size=(64, 16)).astype(np.float32)
STEPS = np.linspace(-3, 1.7, 12, dtype=np.float32).reshape(3, 4)

PROGRAMS: dict[str, tuple[Callable[..., Any], list[np.ndarray], list[Range]]] = {
    "one over negative zero": (lambda x: 1 / -jnp.minimum(x, 0), [full((4,), 3)], [most(4)]),
    "root of negative zero": (lambda x: lax.rsqrt(-jnp.minimum(x, 0)), [full((4,), 3)], [most(4)]),
    "or of integers": (
        lambda x: lax.reduce(x, np.int32(0), lax.bitwise_or, (0,)),
        [np.array([1, 2], np.int32)],
        [between(0, 2)],
    ),
    "dot of integers": (
        lax.dot,
        [np.ones(3, np.int32), np.ones(3, np.int32)],
        [between(0, 1), between(0, 1)],
    ),
    "scatter that cancels": (
        scatter_into_one,
        [full((1,), -1e6), full((10000,), 99.99)],
        [between(-1e6, -1e6), between(0, float(np.float32(99.99)))],
    ),
    "sums of both infinities": (lax.cumsum, [BIG], [most(3e38)]),
    "comparison of a denormal": (lambda x: x > 0, [full((4,), 1e-40)], [TINY]),
    "sign of a denormal": (jnp.sign, [full((4,), 1e-40)], [TINY]),
    "product of a denormal": (lambda x: x * 1e38, [full((4,), 1e-40)], [TINY]),
    "quotient of a denormal": (lambda x: x / 1e-30, [full((4,), 1e-40)], [TINY]),
    "power of a denormal": (
        lax.pow,
        [full((4,), 1e-40), full((4,), -0.5)],
        [TINY, between(-0.5, -0.5)],
    ),
    "share of another width": (share_of_another_width, [full((4,), 0.7)], [between(0, 1)]),
    "share of rounded terms": (share_of_rounded, [full((2, 16), 79.7)], [most(80)]),
    "share of a rounded sum": (share_of_rounded_sum, [full((1, 257), 0)], [most(4)]),
    "norm of a rounded mean": (norm_of_rounded_mean, [full((2, 4), 1.0038**0.5)], [most(4)]),
    "minus a rounded maximum": (minus_rounded_max, [full((1, 4), 1.003)], [most(4)]),
    "minus a whole maximum": (minus_whole_max, [STEPS], [most(4)]),
    "fused product minus its maximum": (fused_product_minus_max, [SCORES], [most(8)]),
    "softmax from zero": (softmax_from_zero, [full((4, 8), -5)], [most(5)]),
    "maximum under a wrapped mask": (max_under_wrapped_mask, [full((4, 8), 0.5)], [most(1)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_value_leaves_its_bound(name: str) -> None:
    fn, arrays, ranges = PROGRAMS[name]
    assert violations(observe(fn, arrays, ranges)) == []


LOGISTIC = "%0 = stablehlo.logistic %x : tensor<4096xbf16>"
# As jax.nn.silu of JAX 0.10 writes it.
QUOTIENT = """
      %one = stablehlo.constant dense<1.0> : tensor<4096xbf16>
      %minus = stablehlo.negate %x : tensor<4096xbf16>
      %exp = stablehlo.exponential %minus : tensor<4096xbf16>
      %sum = stablehlo.add %exp, %one : tensor<4096xbf16>
      %0 = stablehlo.divide %one, %sum : tensor<4096xbf16>"""


@pytest.mark.parametrize("logistic", [LOGISTIC, QUOTIENT], ids=["op", "quotient"])
def test_silu_rounds_in_bf16(logistic: str) -> None:
    text = f"""
    func.func public @main(%x: tensor<4096xbf16> {{scalify.range = {{max = 4.0}}}})
        -> tensor<4096xbf16> {{
      {logistic}
      %1 = stablehlo.multiply %x, %0 : tensor<4096xbf16>
      return %1 : tensor<4096xbf16>
    }}"""
    observed = observe_text(text, [np.linspace(-2, -0.8, 4096).astype(BF16)])
    assert violations(observed) == []
    assert observed[-1].bounds["lo"] > -0.3


def test_precision_of_fewer_exponent_bits_overflows() -> None:
    text = """
    func.func public @main(%x: tensor<2xf64> {scalify.range = {max = 1.0e300}}) -> tensor<2xf64> {
      %0 = stablehlo.reduce_precision %x, format = e8m23 : tensor<2xf64>
      return %0 : tensor<2xf64>
    }"""
    with jax.enable_x64(True):
        assert violations(observe_text(text, [np.full(2, 1e300)])) == []


def bounds_of(text: str, op: str) -> tuple[float, float, bool]:
    """Returns the bounds of the result of the last such op."""
    text = scalify.opt(text, "scalify-analyse-ranges{annotate=all}")
    line = [line for line in text.splitlines() if f"{op} " in line][-1]
    numbers = {}
    for key in ("lo", "hi"):
        number = re.search(rf"\b{key} = (\S+) : f64", line)
        assert number
        infinite = {"0x7FF0000000000000": np.inf, "0xFFF0000000000000": -np.inf}
        numbers[key] = infinite.get(number[1]) or float(number[1])
    return numbers["lo"], numbers["hi"], "nan = true" in line


def test_the_executable_keeps_denormals_and_starts_sums_at_the_initial_value() -> None:
    # Where XLA flushes, kernels of the CPU target do not: the logarithm is NaN and not -inf.
    text = """
    func.func public @main(%x: tensor<8xf32> {scalify.range = {min = -1.0e-39, max = 1.0e-39}})
        -> tensor<8xf32> {
      %0 = stablehlo.log %x : tensor<8xf32>
      return %0 : tensor<8xf32>
    }"""
    logs = scalify.jit(jnp.log, recipe="none")(full((8,), -1e-40))
    assert np.isnan(logs).all()
    assert bounds_of(text, "stablehlo.log")[2]
    text = """
    func.func public @main(%x: tensor<10000x4xf32> {scalify.range = {max = 0.04}})
        -> tensor<4xf32> {
      %c = stablehlo.constant dense<1.0e6> : tensor<f32>
      %0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0]
        : (tensor<10000x4xf32>, tensor<f32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    run = scalify.jit(lambda x: lax.reduce(x, np.float32(1e6), lax.add, (0,)), recipe="none")
    total = np.asarray(run(full((10000, 4), 0.04)))
    low, high, _ = bounds_of(text, "stablehlo.reduce(%arg0")
    assert low <= total.min() <= total.max() <= high


@pytest.mark.parametrize(
    ("groups", "channel", "devices"),
    [
        ("> : tensor<0x0xi64>", "", np.inf),
        ("[[0]]> : tensor<1x1xi64>", "handle = 1", np.inf),
        ("[[0, 1]]> : tensor<1x2xi64>", "handle = 1 global", 2),
        ("[[0, 1]]> : tensor<1x2xi64>", "", 2),
    ],
)
def test_a_sum_over_devices_counts_them_all(groups: str, channel: str, devices: float) -> None:
    attributes = f"replica_groups = dense<{groups}"
    if channel:
        attributes += ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>"
    if "global" in channel:
        attributes += ", use_global_device_ids"
    text = f"""
    func.func public @main(%x: tensor<4xf32> {{scalify.range = {{max = 4.0}}}}) -> tensor<4xf32> {{
      %0 = "stablehlo.all_reduce"(%x) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }}) {{{attributes}}} : (tensor<4xf32>) -> tensor<4xf32>
      %1 = stablehlo.negate %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }}"""
    _, high, _ = bounds_of(text, "stablehlo.negate")
    assert high == pytest.approx(4 * devices, rel=1e-5)


# log2 of the hint's scale, log2 of the cast's (none: measured), format.
CASTS: dict[str, tuple[int, int | None, str]] = {
    '#scalify.recipe<"fp8", linear = f8E5M2>': (0, 0, "float8_e5m2"),
    '#scalify.recipe<"fp8", where = {"w" = f8E5M2}>': (0, 0, "float8_e5m2"),
    '#scalify.recipe<"fp8-plain">': (-20, 0, "float8_e4m3fn"),
    '#scalify.recipe<"fp8-current">': (-20, None, "float8_e4m3fn"),
    '#scalify.recipe<"fp8">': (-4, -4, "float8_e4m3fn"),
}


@pytest.mark.parametrize("recipe", CASTS)
@pytest.mark.parametrize("largest", [1.13, 0.0011, 2.0**-9.9])
def test_what_a_cast_makes_of_a_value_is_within_its_bound(recipe: str, largest: float) -> None:
    hint, exponent, name = CASTS[recipe]
    text = f"""
    module attributes {{scalify.recipe = {recipe}}} {{
      func.func public @main(%x: tensor<4xf32> {{scalify.range = {{max = {largest:.17e}}}}})
          -> tensor<4xf32> {{
        %s = stablehlo.constant dense<{2.0**hint}> : tensor<f32>
        %0 = stablehlo.negate %x {{scalify.phase = #scalify.phase<forward>}} : tensor<4xf32>
        %1 = scalify.scale_hint %0, %s {{scalify.phase = #scalify.phase<forward>}} : tensor<4xf32>
        return %1 : tensor<4xf32>
      }}
    }}"""
    _, high, _ = bounds_of(text, "scalify.scale_hint")
    kind = np.dtype(getattr(ml_dtypes, name))
    top = float(ml_dtypes.finfo(kind).max)
    values = np.geomspace(largest * 2**-24, largest, 4096)
    if exponent is None:
        exponent = int(np.ceil(np.log2(largest / top)))
    scaled = np.clip(values / 2.0**exponent, -top, top).astype(np.float32)
    assert (scaled.astype(kind).astype(np.float64) * 2.0**exponent).max() <= high


def test_what_the_forward_saves_is_read_as_it_was_rounded() -> None:
    text = """
    module attributes {scalify.recipe = #scalify.recipe<"fp8", saved = f8E5M2>} {
      func.func public @main(%x: tensor<4xf32> {scalify.range = {max = 430.0}}) -> tensor<4xf32> {
        %0 = stablehlo.abs %x {scalify.phase = #scalify.phase<forward>} : tensor<4xf32>
        %1 = stablehlo.negate %0 {scalify.phase = #scalify.phase<backward>} : tensor<4xf32>
        return %1 : tensor<4xf32>
      }
    }"""
    low, high, _ = bounds_of(text, "stablehlo.negate")
    assert low <= -float(np.float32(430).astype(ml_dtypes.float8_e5m2)) and high == 0
    # The forward itself reads what it computed.
    assert bounds_of(text.replace("backward", "forward"), "stablehlo.negate")[0] == -430


def test_slices_of_what_a_loop_saved_are_read_as_they_were_rounded() -> None:
    text = """
    module attributes {scalify.recipe = #scalify.recipe<"fp8", saved = f8E5M2>} {
      func.func public @main(%x: tensor<3x4xf32> {scalify.range = {max = 430.0}}, %i: tensor<i32>)
          -> tensor<1x4xf32> {
        %0 = stablehlo.abs %x {scalify.phase = #scalify.phase<backward>} : tensor<3x4xf32>
        %1 = stablehlo.dynamic_slice %0, %i, %i, sizes = [1, 4]
            {scalify.phase = #scalify.phase<backward>}
            : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
        %2 = stablehlo.negate %1 {scalify.phase = #scalify.phase<backward>} : tensor<1x4xf32>
        return %2 : tensor<1x4xf32>
      }
    }"""
    low, high, _ = bounds_of(text, "stablehlo.negate")
    assert low <= -float(np.float32(430).astype(ml_dtypes.float8_e5m2)) and high == 0
