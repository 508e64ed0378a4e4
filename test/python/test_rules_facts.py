"""Predictions of the rules against computed values: one op at a time, on several distributions.

The scale that propagation gives a result is 2^round(log2 rms): its distance from the measured root
mean square is the rule's error, plus at most half a binade of rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scale_probe import measure_rms, result_exponents
from test_scaling import PROPAGATE, normal, normal_form, opt

# A binade and a half for the estimate; rules are to predict within a factor of 2, and their
# results are rounded to a power of two.
BOUND = 1.5

N = (64, 256)
X = normal(10, N)
Y = normal(11, N, 4.0)
SMALL = normal(12, N, 2.0**-12)
W = normal(13, (256, 128), 2.0**-6)
IMAGE = normal(14, (4, 16, 16, 8))
KERNEL = normal(15, (3, 3, 8, 16), 2.0**-3)
TOKENS = np.random.default_rng(16).integers(0, 256, (64,), dtype=np.int32)

# Distributions are made inside of the program, so that the analysis knows what an argument cannot
# declare: a sign, a share of zeros, a row that sums to one.
SOURCES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "normal": lambda x: x,
    "positive": lambda x: jnp.abs(x),
    "square": lambda x: x * x,
    "sparse": lambda x: jnp.where(x > 1.0, x, 0.0),
    "rectified": jax.nn.relu,
    "probabilities": lambda x: jax.nn.softmax(x, axis=-1),
}

UNARY: dict[str, Callable[[jax.Array], jax.Array]] = {
    "square": lambda x: x * x,
    "negate": lambda x: -x,
    "abs": jnp.abs,
    "tanh": jnp.tanh,
    "logistic": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "gelu_erf": lambda x: jax.nn.gelu(x, approximate=False),
    "relu": jax.nn.relu,
    "erf": lax.erf,
    "exp": jnp.exp,
    "decay": lambda x: jnp.exp(-2 * jax.nn.softplus(x)),
    "sine": jnp.sin,
    "cosine": jnp.cos,
    "expm1": jnp.expm1,
    "log1p_abs": lambda x: jnp.log1p(jnp.abs(x)),
    "sqrt_square": lambda x: jnp.sqrt(x * x),
    "rsqrt": lambda x: lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) + 0 * x,
    "cbrt": jnp.cbrt,
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "mean_square": lambda x: (x * x).mean(-1),
    "max": lambda x: x.max(-1),
    "cumsum": lambda x: jnp.cumsum(x, -1),
    "sort": lambda x: jnp.sort(x, -1),
    "top": lambda x: jnp.sort(x, -1)[:, -16:],
    "pad": lambda x: jnp.pad(x, ((0, 0), (0, 256))),
    "dot": lambda x: x @ W,
    "gram": lambda x: x @ x.T[:, ::-1],
    "rms_norm": lambda x: x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6),
    "layer_norm": lambda x: jax.nn.standardize(x, axis=-1),
    "softmax_of": lambda x: jax.nn.softmax(x, -1)[:, :128] * 1.0,
    "log_softmax": lambda x: jax.nn.log_softmax(x, -1),
    "twice": lambda x: x + x,
    "reverse": lambda x: x[::-1],
}

# Results that keep the facts of probabilities are scaled by their bound to the top of the format.
BY_BOUND = {"negate", "abs", "sum", "max", "sort", "top", "softmax_of", "pad", "reverse", "twice"}

# Where moments cannot say it: by source and name, with the reason.
LOOSE: dict[str, dict[str, float]] = {
    # exp of a chi-square has no moments: what is measured is its largest element.
    "square": {"exp": 6.0, "expm1": 6.0, "softmax_of": 4.0},
    # A softmax is predicted half-way from diffuse to sharp, and this one is diffuse.
    "probabilities": {"square": 5.0, "mean_square": 4.0, "sqrt_square": 4.0},
    # Five in six elements are zero; order statistics and roots assume a normal, or its mean.
    "sparse": {"top": 2.5, "sqrt_square": 2.0},
}


Case = tuple[Callable[..., Any], tuple[Any, ...]]


def drifts(cases: dict[str, Case]) -> dict[str, float]:
    """Returns log2(measured rms / scale) of each case's result: one program computes all."""
    starts = np.cumsum([0, *(len(arrays) for _, arrays in cases.values())])
    arrays = [array for _, some in cases.values() for array in some]

    def all_cases(*xs: jax.Array) -> list[jax.Array]:
        return [
            fn(*xs[start : start + len(some)])
            for start, (fn, some) in zip(starts, cases.values(), strict=False)
        ]

    exponents = result_exponents(
        opt(normal_form(all_cases, *arrays), PROPAGATE, "--scalify-quantize")
    )
    values = jax.jit(all_cases)(*arrays)
    return {
        name: float(np.log2(measure_rms(np.asarray(value)))) - exponent
        for name, value, exponent in zip(cases, values, exponents, strict=True)
    }


def drift(fn: Callable[..., Any], *arrays: np.ndarray) -> float:
    """Returns log2(measured rms / scale) of `fn`'s result."""
    return drifts({"": (fn, arrays)})[""]


def beyond(found: dict[str, float], bounds: dict[str, float]) -> dict[str, float]:
    """Returns the drifts beyond their bound, and those that no longer need a bound of their own."""
    return {
        name: x
        for name, x in found.items()
        if not (BOUND if name in bounds else 0) <= abs(x) <= bounds.get(name, BOUND)
    }


@pytest.mark.parametrize("source", SOURCES)
def test_one_operand(source: str) -> None:
    """The result of each op on each kind of data has the size that its rule predicts."""

    def case(name: str) -> Case:
        return lambda x: UNARY[name](SOURCES[source](x)), (X,)

    skipped = BY_BOUND if source == "probabilities" else set()
    found = drifts({name: case(name) for name in UNARY if name not in skipped})
    assert not beyond(found, LOOSE.get(source, {}))


BINARY: dict[str, Case] = {
    "add": (lambda x, y: x + y, (X, Y)),
    "subtract": (lambda x, y: x - y, (X, Y)),
    "multiply": (lambda x, y: x * y, (X, Y)),
    "divide": (lambda x, y: x / (1.0 + y * y), (X, SMALL)),
    "divide_by_exp": (lambda x, y: x / jnp.exp(y[:, :1]), (X, X)),
    "divide_by_large_exp": (lambda x, y: x / jnp.exp(0.35 * y), (X, Y)),
    "maximum": (jnp.maximum, (X, Y)),
    "atan2": (jnp.arctan2, (X, Y)),
    "select": (lambda x, y: jnp.where(x > 0, x, y), (X, Y)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y]), (X, Y)),
    "update": (lambda x, y: lax.dynamic_update_slice(x, y[:32], (3, 0)), (X, Y)),
    "gather": (lambda x, t: x.T[t], (X, TOKENS)),
    "scatter_add": (lambda x, t: jnp.zeros((256, 256)).at[t].add(x), (X, TOKENS)),
    "one_hot": (lambda t, w: jax.nn.one_hot(t, 256) @ w, (TOKENS, W)),
    "convolution": (
        lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        (IMAGE, KERNEL),
    ),
    "convolution_strided": (
        lambda x, k: lax.conv_general_dilated(
            x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        (IMAGE, KERNEL),
    ),
    "max_pool": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        (IMAGE,),
    ),
    "average_pool": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"),
        (IMAGE,),
    ),
    "argmax_value": (lambda x: jnp.take_along_axis(x, jnp.argmax(x, -1)[:, None], -1), (X,)),
}


def test_several_operands() -> None:
    """As above, for ops of two operands, windows and indices."""
    # The rule of a gather cannot know that the indices are those of the maximum.
    assert not beyond(drifts(BINARY), {"argmax_value": 2.5})


LIMITED: dict[str, Case] = {
    "minimum": (lambda x: jnp.minimum(x, -0.5), (X,)),
    "clip": (lambda x: jnp.clip(4 * x, -1.0, 0.5), (X,)),
    "clamp": (lambda x: lax.clamp(np.float32(-1), 4 * x, np.float32(0.5)), (X,)),
    "relu_of_a_mean": (lambda x: jax.nn.relu(x - 2.0), (X,)),
    "relu6": (lambda x: jax.nn.relu6(8 * x), (X,)),
    "exp_of_minimum": (lambda x: jnp.exp(jnp.minimum(20 * x, 8.0)), (X,)),
    "exp_of_clip": (lambda x: jnp.exp(jnp.clip(8 * x, -20.0, 2.0)), (X,)),
    "straight_through": (lambda x, y: y + (2.0**-6 * x - y), (X, Y)),
    "restored": (lambda x, y: y - (y - 2.0**-6 * x), (X, Y)),
}


def test_what_limits_leave() -> None:
    """Constants that cut a value off, exponentials of such a value, and sums that cancel."""
    assert not beyond(drifts(LIMITED), {})


def entries(x: jax.Array) -> jax.Array:
    """Returns cumulative sums of 1 to 256 terms of 1 or more, whose inverses have moments."""
    return jnp.cumsum(1 + jnp.abs(x), -1)


ALONG_SUMS: dict[str, Case] = {
    "inverse": (lambda x: 1 / entries(x), (X,)),
    "inverse_square": (lambda x: 1 / (entries(x) * entries(x)), (X,)),
    "inverse_root": (lambda x: lax.rsqrt(entries(x)), (X,)),
    "mean_so_far": (lambda x: entries(x * x) / entries(x), (X,)),
    "weighted_mean_so_far": (lambda x, y: jnp.cumsum(y, -1) / entries(x), (X, Y)),
    "of_rows": (
        lambda x, w: (
            1 / jnp.square(jnp.cumsum((1 + jnp.abs(x))[..., None] * jnp.abs(w), 1) @ jnp.ones(8))
        ),
        (X, normal(20, (64, 256, 8))),
    ),
    "quotient_of_quotient": (lambda x, y: (y / entries(x)) / entries(x), (X, Y)),
}


def test_divisions_by_cumulative_sums() -> None:
    """Entries sum one term to all: the first ones dominate the result of a division."""
    assert not beyond(drifts(ALONG_SUMS), {})


def conv_loss(x: jax.Array, k: jax.Array, g: jax.Array, stride: int) -> jax.Array:
    y = lax.conv_general_dilated(
        x, k, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return (y * g[:, : y.shape[1], : y.shape[2]]).sum()


def test_gradients_of_convolutions() -> None:
    """Dilated and transposed convolutions: only taps on real elements count."""
    gradient = normal(17, (4, 16, 16, 16), 2.0**-8)

    def case(stride: int, argument: int) -> Case:
        def fn(x: jax.Array, k: jax.Array, g: jax.Array) -> jax.Array:
            return jax.grad(conv_loss, argument)(x, k, g, stride)

        return fn, (IMAGE, KERNEL, gradient)

    found = drifts({f"{s}, {a}": case(s, a) for s in (1, 2) for a in (0, 1)})
    assert not beyond(found, {})


def test_gradient_of_max_pool() -> None:
    """select_and_scatter: one in four elements receives one."""

    def fn(x: jax.Array, g: jax.Array) -> jax.Array:
        def pool(x: jax.Array) -> jax.Array:
            return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

        return jax.vjp(pool, x)[1](g)[0]

    assert abs(drift(fn, IMAGE, normal(18, (4, 8, 8, 8), 2.0**-5))) <= BOUND


@pytest.mark.parametrize("terms", [1, -1])
def test_serial_sums_grow(terms: int) -> None:
    """64 additions of equal scale: the scale follows, by 64 or 8 (the reference: 1)."""
    arrays = [normal(100 + i, (32, 32)) for i in range(64)]

    def fn(*xs: jax.Array) -> jax.Array:
        total = jnp.zeros((32, 32))
        for x in xs:
            total = total + (jnp.abs(x) if terms == 1 else x)
        return total

    assert abs(drift(fn, *arrays)) <= 0.6


def test_random_numbers() -> None:
    """Bits under the exponent of one are uniform; their inverse error function is normal."""

    def uniform(bits: jax.Array) -> jax.Array:
        return lax.bitcast_convert_type((bits >> 9) | np.uint32(0x3F800000), np.float32) - 1.0

    def gaussian(bits: jax.Array) -> jax.Array:
        return np.float32(np.sqrt(2)) * lax.erf_inv(uniform(bits) * 2.0 - 1.0)

    bits = np.random.default_rng(19).integers(1, 2**32, (64, 64), dtype=np.uint32)
    assert abs(drift(uniform, bits)) <= 1
    assert abs(drift(gaussian, bits)) <= 1
    assert abs(drift(lambda b, x: jnp.where(uniform(b) < 0.1, x, 0.0), bits, X[:, :64])) <= 1
