"""Every elementwise op at every special value and every pair of them, against numpy."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import scipy.special
from cpu_run import compile_text
from interpreter import interpret
from special_values import (
    DTYPES,
    Op,
    assert_near,
    cases,
    converted,
    expected,
    is_float,
    program,
    reduced,
    spelling,
    values,
)

import scalify


@functools.cache
def points(dtype: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All values, and all pairs of them."""
    x = values(dtype)
    pairs = np.meshgrid(x, x)
    return x, pairs[0].ravel(), pairs[1].ravel()


def operands(dtype: Any) -> tuple[list[Op], list[Sequence[np.ndarray]]]:
    x, left, right = points(dtype)
    ops = cases(dtype)
    return ops, [(x,) if op.arity == 1 else (left, right) for op in ops]


def check(ops: Sequence[Op], given: Sequence[Sequence[np.ndarray]], results: Any) -> None:
    faults = []
    for op, group, result in zip(ops, given, results, strict=True):
        name = f"{op.text} {op.attributes} {group[0].dtype}"
        try:
            assert_near(np.asarray(result), expected(op, group), op.ulps, name, group)
        except AssertionError as fault:
            faults.append(str(fault))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("dtype", DTYPES, ids=spelling)
def test_of_arguments(dtype: Any) -> None:
    ops, given = operands(dtype)
    text, arrays = program(ops, given)
    check(ops, given, compile_text(text).run(arrays))


@pytest.mark.parametrize("dtype", DTYPES, ids=spelling)
def test_of_constants(dtype: Any) -> None:
    """Folded results equal those of kernels."""
    ops, given = operands(dtype)
    # The folder leaves larger constants alone.
    given = [[x[:1000] for x in group] for group in given]
    shared = {x.tobytes(): x for group in given for x in group}
    given = [[shared[x.tobytes()] for x in group] for group in given]
    text, arrays = program(ops, given, constants=True)
    check(ops, given, compile_text(text).run(arrays))


@pytest.mark.parametrize("dtype", DTYPES, ids=spelling)
def test_agrees_with_the_reference_interpreter(dtype: Any) -> None:
    # It divides integers by zero, and its logistic overflows on the way.
    left_out = {"logistic"} if is_float(dtype) else {"divide", "remainder", "power"}
    if np.dtype(dtype).kind == "u":
        left_out.add("sign")  # none in StableHLO
    both = zip(*operands(dtype), strict=True)
    ops, given = zip(*(each for each in both if each[0].text not in left_out), strict=True)
    text, arrays = program(ops, given)
    faults = []
    for op, group, own, want in zip(
        ops,
        given,
        compile_text(text).run(arrays),
        interpret(program(ops, given, constants=True)[0]),
        strict=True,
    ):
        own = np.asarray(own)
        try:
            assert_near(own, want.astype(own.dtype), op.ulps, op.text, group)
        except AssertionError as fault:
            faults.append(str(fault))
    assert not faults, "\n".join(faults)


def test_within_jit() -> None:
    """XLA flushes subnormal numbers around the step; neither the step nor its threads do."""
    x = np.tile(values(np.float32), 1000)
    y = np.roll(x, 1)

    def run(x: Any, y: Any) -> Any:
        return jnp.arctan2(x, y), jnp.power(x, y), x * y, jnp.log(x), x < y, x.astype(jnp.float16)

    step = scalify.jit(run, "none")
    for own, want in zip(step(jnp.asarray(x), jnp.asarray(y)), step(x, y), strict=True):
        np.testing.assert_array_equal(np.asarray(own), want)
    np.testing.assert_array_equal(step(x, y)[4], x < y)
    at = jnp.float32([1e-40]), jnp.float32([0])
    np.testing.assert_array_equal(step(*at)[0], np.float32(np.pi / 2))


@pytest.mark.parametrize("dtype", DTYPES, ids=spelling)
def test_clamp(dtype: Any) -> None:
    x = values(dtype)
    x = x[np.isfinite(x.astype(np.float64))]
    low, high = np.resize(x[:5], x.shape), np.resize(x[-7:], x.shape)
    text = program([Op("clamp", 3, abs)], [(low, x, high)])[0]
    own = np.asarray(compile_text(text).run([low, x, high])[0])
    np.testing.assert_array_equal(own, np.minimum(np.maximum(x, low), high))


@pytest.mark.parametrize("dtype", [jnp.int4, jnp.uint4])
def test_arithmetic_shifts_of_four_bits(dtype: Any) -> None:
    """The upper bit is a sign, also of an unsigned integer, as in wider ones."""
    code, count = (each.ravel() for each in np.meshgrid(np.arange(16), np.arange(8)))
    x = code.astype(np.int8).astype(dtype)
    own = scalify.jit(jax.lax.shift_right_arithmetic, "none")(
        x, count.astype(np.int8).astype(dtype)
    )
    want = (code - 16 * (code > 7)) >> count
    np.testing.assert_array_equal(np.asarray(own).astype(int) & 15, want & 15)


@pytest.mark.parametrize("size", [7, 64])
def test_quotients_of_f16(size: int) -> None:
    """One element at a time, LLVM rounded the sign of a remainder from F64 to F16 by a call."""
    x = np.linspace(-9, 9, size).astype(np.float16)
    own = scalify.jit(jnp.floor_divide, "none")(x, x + np.float16(0.25))
    np.testing.assert_array_equal(own, np.floor_divide(x, x + np.float16(0.25)))


def assert_equal(results: Any, wanted: Sequence[np.ndarray], x: np.ndarray, name: str) -> None:
    for result, want in zip(results, wanted, strict=True):
        assert_near(np.asarray(result), want, 0, f"{name} to {want.dtype}", [x])


@pytest.mark.parametrize("dtype", [*DTYPES, np.bool_], ids=spelling)
def test_conversions(dtype: Any) -> None:
    x = values(dtype)
    others = [np.dtype(to) for to in (*DTYPES, np.bool_) if np.dtype(to) != np.dtype(dtype)]
    ops = [Op("convert", 1, lambda x: x, to=to) for to in others]
    wanted = [converted(x, to) for to in others]
    for constants in (False, True):
        text, arrays = program(ops, [(x,)] * len(ops), constants)
        assert_equal(compile_text(text).run(arrays), wanted, x, f"convert {spelling(dtype)}")


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=spelling)
def test_reduced_precision(dtype: Any) -> None:
    x = values(dtype)
    x = np.concatenate(
        [x, np.float64([65504, 65520, 6.1e-5, 6.09e-5, 1e-6, 448, 464]).astype(dtype)]
    )
    formats = [(5, 10), (5, 2), (4, 3), (8, 7), (6, 1), (5, 23)]
    ops = [Op("reduce_precision", 1, abs, attributes=f"format = e{e}m{m}") for e, m in formats]
    text, arrays = program(ops, [(x,)] * len(ops))
    got = compile_text(text).run(arrays)
    for (e, m), result in zip(formats, got, strict=True):
        assert_near(np.asarray(result), reduced(x, e, m), 0, f"e{e}m{m}", [x])


def odd(fn: Any) -> Any:
    """An odd function from SciPy's, which loses the sign of a zero."""
    return lambda v: np.where(v == 0, v, fn(v))


CHLO: dict[str, Any] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "bessel_i1e": odd(scipy.special.i1e),
    "cosh": np.cosh,
    "erf": scipy.special.erf,
    "erf_inv": odd(scipy.special.erfinv),
    "erfc": scipy.special.erfc,
    "sinh": np.sinh,
    "square": np.square,
    "tan": np.tan,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=spelling)
def test_functions_of_chlo(dtype: Any) -> None:
    x = values(dtype)

    ops = [Op(f"chlo.{name}", 1, fn) for name, fn in CHLO.items()]
    text, arrays = program(ops, [(x,)] * len(ops))
    # Each is several ops, rounded one by one: XLA's own are this far off.
    for op, result in zip(ops, compile_text(text).run(arrays), strict=True):
        assert_near(np.asarray(result), expected(op, [x]), 16, op.text, [x])


def test_log_gamma_at_poles_and_near_them() -> None:
    at = [0.0, -0.0, 1e-45, -1e-45, 4e-45, 1e-30, -2.0, -8388609.0, -3e38, np.inf, np.nan]
    x = np.array(at, np.float32)
    text, arrays = program([Op("chlo.lgamma", 1, abs)], [(x,)])
    want = scipy.special.gammaln(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(np.asarray(compile_text(text).run(arrays)[0]), want, rtol=2e-7)


def test_digamma_and_zeta_at_poles() -> None:
    x = np.array([-1.0, -2.0, -8388609.0, -(2.0**60), -1.5, 1.0], np.float32)
    want = [np.nan] * 4 + [0.7031566406452432, -0.5772156649015329]
    own = scalify.jit(jax.lax.digamma, "none")(x)
    np.testing.assert_allclose(own, want, rtol=1e-6)
    order = np.array([1, 3, 4, 4, np.inf, 1, np.nan, 0.5], np.float32)
    at = np.array([-11.5, -0.0, -3, -np.inf, -2, 2, -1, 0], np.float32)
    own = scalify.jit(jax.lax.zeta, "none")(order, at)
    np.testing.assert_array_equal(own, [np.inf] * 6 + [np.nan] * 2)


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        (np.float32, np.float32),
        (np.float16, np.float16),
        (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
        (np.float16, np.float32),
        (np.float32, np.float64),
    ],
)
def test_selections_keep_the_sign_of_zero(dtype: Any, wide: Any) -> None:
    """As in ELU, in the type or a wider one: a function of the smaller of a value and zero."""
    x = np.array([-0.0, 0.0, -1.0, 2.0] * 8, dtype)

    def run(x: Any) -> Any:
        y = x.astype(wide)
        least = jnp.where(y > 0, jnp.zeros_like(y), y).astype(dtype)
        return jnp.where(y > 0, y, (2 * least).astype(wide)).astype(dtype)

    with jax.enable_x64(wide is np.float64):
        own = np.asarray(scalify.jit(run, "none")(x)).astype(np.float32)
    np.testing.assert_array_equal(np.signbit(own), [True, False, True, False] * 8)
    np.testing.assert_array_equal(own, [0, 0, -2, 2] * 8)


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2"])
def test_total_order_of_fp8(name: str) -> None:
    """Its key had the width of a byte for values that registers hold as F32."""
    dtype = getattr(ml_dtypes, "float8_" + name[2:].lower())
    codes = np.arange(256, dtype=np.uint8)
    codes = codes[~np.isnan(codes.view(dtype).astype(np.float32))]
    left, right = np.repeat(codes, len(codes)), np.tile(codes, len(codes))
    tensor = f"tensor<{len(left)}x{name}>"
    text = f"""func.func public @main(%x: {tensor}, %y: {tensor}) -> tensor<{len(left)}xi1> {{
      %r = stablehlo.compare LT, %x, %y, TOTALORDER : ({tensor}, {tensor}) -> tensor<{len(left)}xi1>
      return %r : tensor<{len(left)}xi1>
    }}"""
    (found,) = scalify.compile(text, "none")(left.view(dtype), right.view(dtype))

    def key(code: np.ndarray) -> np.ndarray:
        signed = code.view(np.int8).astype(np.int32)
        return np.where(signed < 0, signed ^ 0x7F, signed)

    np.testing.assert_array_equal(np.asarray(found), key(left) < key(right))
