"""Elementwise ops of special values: programs with all of them, and numpy's results.

A program has one op a result, of one element type: unary ops of each value, binary ones of each
pair of them. Operands are arguments, or constants that the compiler may fold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np

__all__ = [
    "DTYPES",
    "Op",
    "assert_near",
    "cases",
    "converted",
    "expected",
    "is_float",
    "program",
    "reduced",
    "spelling",
    "values",
]

SPELLINGS = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
    "bool": "i1",
}
FLOATS = [np.float64, np.float32, np.float16, jnp.bfloat16, jnp.float8_e4m3fn, jnp.float8_e5m2]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
DTYPES = [*FLOATS, *INTEGERS]


def is_float(dtype: Any) -> bool:
    return np.dtype(dtype).name.startswith(("float", "bfloat"))


def spelling(dtype: Any) -> str:
    """How MLIR spells the element type."""
    dtype = np.dtype(dtype)
    if dtype.name in SPELLINGS:
        return SPELLINGS[dtype.name]
    return ("ui" if dtype.kind == "u" else "i") + str(8 * dtype.itemsize)


def round_to(exact: np.ndarray, dtype: Any) -> np.ndarray:
    """F64 numbers in `dtype`, rounded once to nearest even; ml_dtypes goes through F32."""
    dtype = np.dtype(dtype)
    with np.errstate(all="ignore"):
        if dtype == np.float64 or dtype.kind == "f":
            return exact.astype(dtype)
        near = exact.astype(np.float32)
        # To odd: then the second rounding is as if it were the only one.
        bits = near.view(np.uint32)
        off = np.isfinite(exact) & (near.astype(np.float64) != exact)
        beyond = off & (np.abs(near.astype(np.float64)) > np.abs(exact))
        bits = np.where(off, (bits - beyond.astype(np.uint32)) | 1, bits).astype(np.uint32)
        return bits.view(np.float32).astype(dtype)


def values(dtype: Any) -> np.ndarray:
    """Zeros, subnormals, the ends of the range, infinities and NaN, halves, and a few others."""
    dtype = np.dtype(dtype)
    if not is_float(dtype):
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        near = [0, 1, 2, 3, 7, 8, 31, 63, 64, 100, 127, 128, 200, 255, 256, 32767, 32768, 65535]
        near += [high, high - 1, high // 2 + 1, low, low + 1, -1, -2, -3, -7, -128, -129]
        return np.unique(np.array([n for n in near if low <= n <= high], dtype))
    info = np.finfo(dtype) if dtype == np.float64 else ml_dtypes.finfo(dtype)
    tiny, normal, eps = (
        float(x) for x in (info.smallest_subnormal, info.smallest_normal, info.eps)
    )
    positive = [0.0, tiny, 3 * tiny, normal - tiny, normal, float(info.max), 0.5, 1.0, 1.5, 2.0]
    positive += [0.5 - eps / 4, 1 - eps / 2, 1 + eps, 2.5, 3.0, 0.1, 20.0, 1 / eps, 1 / eps + 1]
    # About where e^x, sines and logistics leave the range of F32 and of F16, and of F64.
    positive += [11.5, 17.0, 88.5, 104.0, 710.0, np.inf]
    positive = [x for x in positive if not np.isnan(float(round_to(np.float64(x), dtype)))]
    both = round_to(np.array([*positive, *(-x for x in positive), np.nan]), dtype)
    return np.concatenate([both[:-1], both[-1:]])


@dataclasses.dataclass(frozen=True)
class Op:
    """One op: its text, its reference on F64 or Python's integers, and its tolerance."""

    text: str
    arity: int
    exact: Callable[..., Any]
    ulps: int = 0
    attributes: str = ""
    to: Any = None
    """Element type of the result; that of the operands if None."""


def _sign(x: np.ndarray) -> np.ndarray:
    return np.where((x == 0) | np.isnan(x), x, np.copysign(1.0, x))


def _away(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    up = np.abs(x - whole) >= 0.5
    return np.copysign(np.where(up, np.abs(whole) + 1, np.abs(whole)), x)


def _extreme(take: Callable[..., Any], of_zeros: Callable[..., Any]) -> Callable[..., Any]:
    """IEEE 754's maximum and minimum: NaN if one is, and -0 is less than 0."""

    def extreme(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        zeros = (x == 0) & (y == 0)
        signs = of_zeros(np.signbit(x), np.signbit(y))
        return np.where(zeros, np.where(signs, -0.0, 0.0), take(x, y))

    return extreme


def _logistic(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


def _total(x: np.ndarray) -> np.ndarray:
    """Numbers in the total order of floats."""
    bits = x.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


DIRECTIONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}

# Of the functions beyond IEEE 754's operations: XLA's own bounds on CPUs are of this size.
NEAR = 4

FLOAT_OPS = [
    Op("abs", 1, np.abs),
    Op("cbrt", 1, np.cbrt, NEAR),
    Op("ceil", 1, np.ceil),
    Op("cosine", 1, np.cos, NEAR),
    Op("exponential", 1, np.exp, NEAR),
    Op("exponential_minus_one", 1, np.expm1, NEAR),
    Op("floor", 1, np.floor),
    Op("is_finite", 1, np.isfinite, to=bool),
    Op("log", 1, np.log, NEAR),
    Op("log_plus_one", 1, np.log1p, NEAR),
    Op("logistic", 1, _logistic, NEAR),
    Op("negate", 1, np.negative),
    Op("round_nearest_afz", 1, _away),
    Op("round_nearest_even", 1, np.rint),
    Op("rsqrt", 1, lambda x: 1 / np.sqrt(x), 1),
    Op("sign", 1, _sign),
    Op("sine", 1, np.sin, NEAR),
    Op("sqrt", 1, np.sqrt),
    Op("tan", 1, np.tan, NEAR),
    Op("tanh", 1, np.tanh, NEAR),
    Op("add", 2, np.add),
    Op("atan2", 2, np.arctan2, NEAR),
    Op("divide", 2, np.divide),
    Op("maximum", 2, _extreme(np.maximum, np.logical_and)),
    Op("minimum", 2, _extreme(np.minimum, np.logical_or)),
    Op("multiply", 2, np.multiply),
    Op("power", 2, np.power, NEAR),
    Op("remainder", 2, np.fmod),
    Op("subtract", 2, np.subtract),
    *(Op("compare", 2, fn, attributes=f"{by}, FLOAT", to=bool) for by, fn in DIRECTIONS.items()),
]


def _wrapped(fn: Callable[..., int]) -> Callable[..., Any]:
    return lambda *x: np.frompyfunc(fn, len(x), 1)(*x)


def _power(x: int, y: int) -> int:
    if y >= 0:
        return pow(x, y, 2**64) if x >= 0 else pow(x % 2**64, y, 2**64)
    return 1 if x == 1 else (1 - 2 * (y % 2) if x == -1 else 0)


def _quotient(x: int, y: int) -> int:
    """Rounded towards zero; -1 by zero."""
    return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _remainder(x: int, y: int) -> int:
    return x if y == 0 else x - y * _quotient(x, y)


def integer_ops(dtype: Any) -> list[Op]:
    """The ops of integers, on Python's; results are of their width, wrapped around."""
    dtype = np.dtype(dtype)
    width = 8 * dtype.itemsize
    mask = 2**width - 1

    def shift(fn: Callable[[int, int], int], beyond: Callable[[int], int]) -> Callable[..., Any]:
        return _wrapped(lambda x, y: fn(x, y) if 0 <= y < width else beyond(x))

    def extended(x: int) -> int:
        """The upper bit as a sign, also of an unsigned integer."""
        return (x & mask ^ 1 << width - 1) - (1 << width - 1)

    order = "SIGNED" if dtype.kind == "i" else "UNSIGNED"
    signed = [
        Op("abs", 1, _wrapped(abs)),
        Op("negate", 1, _wrapped(lambda x: -x)),
    ]
    return [
        *(signed if dtype.kind == "i" else []),
        Op("count_leading_zeros", 1, _wrapped(lambda x: width - (x & mask).bit_length())),
        Op("not", 1, _wrapped(lambda x: ~x)),
        Op("popcnt", 1, _wrapped(lambda x: bin(x & mask).count("1"))),
        Op("sign", 1, _wrapped(lambda x: (x > 0) - (x < 0))),
        Op("add", 2, _wrapped(lambda x, y: x + y)),
        Op("and", 2, _wrapped(lambda x, y: x & y)),
        Op("divide", 2, _wrapped(_quotient)),
        Op("maximum", 2, _wrapped(max)),
        Op("minimum", 2, _wrapped(min)),
        Op("multiply", 2, _wrapped(lambda x, y: x * y)),
        Op("or", 2, _wrapped(lambda x, y: x | y)),
        Op("power", 2, _wrapped(_power)),
        Op("remainder", 2, _wrapped(_remainder)),
        Op("shift_left", 2, shift(lambda x, y: x << y, lambda x: 0)),
        Op(
            "shift_right_arithmetic",
            2,
            shift(lambda x, y: extended(x) >> y, lambda x: extended(x) >> width),
        ),
        Op("shift_right_logical", 2, shift(lambda x, y: (x & mask) >> y, lambda x: 0)),
        Op("subtract", 2, _wrapped(lambda x, y: x - y)),
        Op("xor", 2, _wrapped(lambda x, y: x ^ y)),
        *(
            Op("compare", 2, fn, attributes=f"{by}, {order}", to=bool)
            for by, fn in DIRECTIONS.items()
        ),
    ]


def cases(dtype: Any) -> list[Op]:
    """The ops of an element type."""
    return FLOAT_OPS if is_float(dtype) else integer_ops(dtype)


def wide(x: np.ndarray) -> np.ndarray:
    """The numbers as F64 or, of integers, as Python's."""
    return x.astype(np.float64) if is_float(x.dtype) else x.astype(object)


def expected(op: Op, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Returns numpy's result of the op, rounded once to the result's type."""
    to = np.dtype(op.to or operands[0].dtype)
    with np.errstate(all="ignore"):
        exact = np.asarray(op.exact(*(wide(x) for x in operands)))
    if to.kind == "b":
        return exact.astype(bool)
    if is_float(to):
        return round_to(exact, to)
    width = 8 * to.itemsize
    wrapped = np.array([int(x) & (2**width - 1) for x in exact.flat], f"u{to.itemsize}")
    return wrapped.view(to).reshape(exact.shape)


def _near(number: int) -> float:
    """An integer as F64, to odd where it is rounded: then any rounding may follow."""
    shift = max(abs(number).bit_length() - 53, 0)
    whole, rest = divmod(abs(number), 1 << shift)
    return float((whole | (rest != 0)) << shift) * (-1 if number < 0 else 1)


def converted(x: np.ndarray, dtype: Any) -> np.ndarray:
    """The numbers in another type: rounded once, integers of integers wrapped around.

    A number outside the type's range becomes the nearest integer of the type, and NaN becomes 0.
    """
    to = np.dtype(dtype)
    numbers = wide(x)
    if to.kind == "b":
        return numbers != 0
    if is_float(to):
        if is_float(x.dtype):
            return round_to(numbers, to)
        nearest = float if to == np.float64 else _near
        return round_to(np.array([nearest(int(n)) for n in numbers.flat]), to)
    if is_float(x.dtype):
        low, high = np.iinfo(to).min, np.iinfo(to).max
        ends = {np.inf: high, -np.inf: low}
        whole = [
            0 if np.isnan(n) else ends[n] if np.isinf(n) else min(max(int(n), low), high)
            for n in numbers.flat
        ]
        return np.array(whole, to)
    width = 8 * to.itemsize
    wrapped = [int(n) & (2**width - 1) for n in numbers.flat]
    return np.array(wrapped, f"u{to.itemsize}").view(to)


def reduced(x: np.ndarray, exponent: int, mantissa: int) -> np.ndarray:
    """F32 or F64 of so many bits; what is below the normal numbers is zero."""
    with np.errstate(all="ignore"):
        part, power = np.frexp(x.astype(np.longdouble))
        scale = 2.0 ** (mantissa + 1)
        value = np.ldexp(np.rint(part * scale) / scale, power)
        bias = 2 ** (exponent - 1) - 1
        value = np.where(np.abs(value) < 2.0 ** (1 - bias), 0.0, value)
        value = np.where(np.abs(value) >= np.ldexp(np.longdouble(1), bias + 1), np.inf, value)
        value = np.where(np.isfinite(x), value, np.abs(x))
        return np.copysign(value, x).astype(x.dtype)


def blob(x: np.ndarray) -> str:
    """A tensor's elements as an attribute."""
    x = np.ascontiguousarray(x)
    if x.dtype == bool:
        return "dense<[" + ", ".join("true" if e else "false" for e in x.flat) + "]>"
    return f'dense<"0x{x.tobytes().hex().upper()}">'


def program(
    ops: Sequence[Op], operands: Sequence[Sequence[np.ndarray]], constants: bool = False
) -> tuple[str, list[np.ndarray]]:
    """Returns the text of one function with a result for each op, and its arguments.

    Args:
        ops: what is computed.
        operands: of each op; the same array stands for the same argument.
        constants: write operands into the text, so that no argument is left.
    """
    names: dict[int, str] = {}
    arrays: list[np.ndarray] = []
    for group in operands:
        for x in group:
            if id(x) not in names:
                names[id(x)] = f"%x{len(arrays)}"
                arrays.append(x)

    def type_of(x: np.ndarray, dtype: Any = None) -> str:
        shape = "".join(f"{n}x" for n in x.shape)
        return f"tensor<{shape}{spelling(dtype or x.dtype)}>"

    lines, results, types = [], [], []
    if constants:
        for x in arrays:
            lines.append(f"{names[id(x)]} = stablehlo.constant {blob(x)} : {type_of(x)}")
    for i, (op, group) in enumerate(zip(ops, operands, strict=True)):
        result = type_of(group[0], op.to)
        given = ", ".join(names[id(x)] for x in group)
        inputs = ", ".join(type_of(x) for x in group)
        head, tail = op.attributes.split(", ", 1) if op.text == "compare" else ("", op.attributes)
        if op.text.startswith("chlo."):
            lines.append(f"%r{i} = {op.text} {given} : {inputs} -> {result}")
        else:
            lines.append(
                f"%r{i} = stablehlo.{op.text} {head + ', ' if head else ''}{given}"
                f"{', ' + tail if tail else ''} : ({inputs}) -> {result}"
            )
        results.append(f"%r{i}")
        types.append(result)
    arguments = "" if constants else ", ".join(f"{names[id(x)]}: {type_of(x)}" for x in arrays)
    body = "\n    ".join(lines)
    text = (
        f"module {{\n  func.func @main({arguments}) -> ({', '.join(types)}) {{\n    {body}\n"
        f"    return {', '.join(results)} : {', '.join(types)}\n  }}\n}}\n"
    )
    return text, [] if constants else arrays


def _places(x: np.ndarray) -> np.ndarray:
    """Floats as integers in their order, neighbours one apart; both zeros are 0."""
    bits = x.view(f"i{x.dtype.itemsize}").astype(object)
    top = 1 << (8 * x.dtype.itemsize - 1)
    return np.where(bits < 0, -(bits + top), bits)


def assert_near(
    got: np.ndarray, want: np.ndarray, ulps: int, op: str, operands: Sequence[np.ndarray]
) -> None:
    """Asserts that a result is near its reference, with the same NaNs and signs of zeros.

    Raises:
        AssertionError: names operands, result and what was expected, of the first ten.
    """
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, want.dtype)
    if not is_float(want.dtype):
        wrong = got != want
    else:
        g, w = got.astype(np.float64), want.astype(np.float64)
        wrong = np.isnan(g) != np.isnan(w)
        both = ~np.isnan(g) & ~np.isnan(w)
        zeros = both & (g == 0) & (w == 0)
        # In units of the last place, so that infinity is one beyond the largest number.
        away = np.abs(_places(got) - _places(want)) > ulps
        wrong |= np.where(zeros, np.signbit(g) != np.signbit(w), both & away.astype(bool))
        wrong |= both & (np.isinf(g) != np.isinf(w)) & (ulps == 0)
    if wrong.any():
        found = [
            f"{op}({', '.join(str(x[i]) for x in operands)}) = {got[i]}, not {want[i]}"
            for i in np.flatnonzero(wrong)[:10]
        ]
        raise AssertionError(f"{int(wrong.sum())} of {wrong.size}: " + "; ".join(found))
