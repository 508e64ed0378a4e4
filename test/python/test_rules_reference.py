"""Programs that the reference library cannot run, or runs wrong, in plain JAX.

Each program has an op that it rejects or mispredicts, or one of its known bugs. It runs with scales
beside it, in F32, in F16 under `fp16`, and under `fp8` where it has dots; plain JAX is the oracle.
There are no workarounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from stablehlo_run import run_stablehlo
from test_scaling import EXPORT, PROPAGATE, normal, normal_form, opt

import scalify

# What differs is how XLA contracts and reassociates two graphs.
RELATIVE = 5e-5

B, T, D, H, V = 2, 16, 32, 4, 64
X = normal(0, (B, T, D))
W = normal(1, (D, D), 0.05)
EMBEDDING = normal(2, (V, D), 0.05)
TOKENS = np.random.default_rng(3).integers(0, V, (B, T), dtype=np.int32)
CAUSAL = np.tril(np.ones((T, T), bool))

Fn = Callable[..., Any]


def rms_norm(x: jax.Array) -> jax.Array:
    mean_square = jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True)
    return (x * jax.lax.rsqrt(mean_square + 1e-5)).astype(x.dtype)


def rope(x: jax.Array) -> jax.Array:
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[-2])[:, None] * (1e4 ** (-jnp.arange(half) / half))
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def attention(x: jax.Array, fill: float = -jnp.inf) -> jax.Array:
    q = x.reshape(B, T, H, D // H)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, q) / np.sqrt(D // H).astype(x.dtype)
    scores = jnp.where(CAUSAL, scores, jnp.asarray(fill, scores.dtype))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), q).reshape(x.shape)


def cross_entropy(x: jax.Array, e: jax.Array, t: jax.Array) -> jax.Array:
    logits = x @ e.T
    return optax.softmax_cross_entropy_with_integer_labels(logits, t).mean()


def lowest(x: jax.Array) -> float:
    return float(jnp.finfo(x.dtype).min)


def optimise(optimizer: optax.GradientTransformation) -> Fn:
    def step(w: jax.Array, x: jax.Array) -> Any:
        state = optimizer.init(w)
        for _ in range(2):
            gradient = jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
            updates, state = optimizer.update(gradient, state, w)
            w = optax.apply_updates(w, updates)
        return w

    return step


ROWS: dict[str, tuple[Fn, tuple[np.ndarray, ...]]] = {
    "embedding": (lambda e, t: e[t], (EMBEDDING, TOKENS)),
    "embedding_gradient": (
        jax.grad(lambda e, t, x: (e[t] * x).sum()),
        (EMBEDDING, TOKENS, X),
    ),
    "rsqrt": (rms_norm, (X,)),
    "rsqrt_gradient": (jax.grad(lambda x, y: (rms_norm(x) * y).sum()), (X, X[::-1])),
    "rope": (rope, (X,)),
    "rope_gradient": (jax.grad(lambda x, y: (rope(x) * y).sum()), (X, X[::-1])),
    "attention": (attention, (X,)),
    "attention_gradient": (jax.grad(lambda x, y: (attention(x) * y).sum()), (X, X[::-1])),
    "mask_1e9": (lambda x: attention(x, -1e9), (X,)),
    "mask_3e4": (lambda x: attention(x, -3e4), (X,)),
    "mask_lowest": (lambda x: attention(x, lowest(x)), (X,)),
    "mask_whole_row": (
        lambda x: jax.nn.softmax(jnp.where(CAUSAL[:, ::-1] & CAUSAL, x @ x.mT, lowest(x)), -1),
        (X,),
    ),
    "mask_added": (
        lambda x: jax.nn.softmax(x @ x.mT + jnp.where(CAUSAL, 0, jnp.asarray(-1e4, x.dtype)), -1),
        (X,),
    ),
    "mask_multiplied": (
        lambda x: jax.nn.softmax(x @ x.mT + (1 - CAUSAL.astype(x.dtype)) * -3e4, -1),
        (X,),
    ),
    "log_softmax": (lambda x: jax.nn.log_softmax(x, -1), (X,)),
    "log_softmax_gradient": (
        jax.grad(lambda x, y: (jax.nn.log_softmax(x, -1) * y).sum()),
        (X, X[::-1]),
    ),
    "var": (lambda x: jnp.var(x, -1), (X,)),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, -1), (X,)),
    "mean_relu_square": (lambda x: jnp.mean(jax.nn.relu(x) ** 2, -1), (X,)),
    "silu": (jax.nn.silu, (X,)),
    "silu_gradient": (jax.grad(lambda x: jax.nn.silu(x).sum()), (X,)),
    "sigmoid": (jax.nn.sigmoid, (X,)),
    "gelu": (jax.nn.gelu, (X,)),
    "gelu_gradient": (jax.grad(lambda x: jax.nn.gelu(x).sum()), (X,)),
    "gelu_erf": (lambda x: jax.nn.gelu(x, approximate=False), (X,)),
    "integer_cross_entropy": (cross_entropy, (X, EMBEDDING, TOKENS)),
    "value_and_grad": (jax.value_and_grad(cross_entropy, (0, 1)), (X, EMBEDDING, TOKENS)),
    "sgd": (optimise(optax.sgd(0.1)), (W, X[0])),
    "adam": (optimise(optax.adam(1e-2)), (W, X[0])),
    "adamw": (optimise(optax.adamw(1e-2)), (W, X[0])),
    "scan": (lambda x, w: jax.lax.scan(lambda c, _: (c @ w, None), x, None, 3)[0], (X, W)),
    "checkpoint": (
        jax.grad(lambda x, w: jax.checkpoint(lambda x: jnp.sin(x @ w))(x).sum()),
        (X, W),
    ),
    "cond": (
        lambda x, t: jax.lax.cond(t[0, 0] > 9, jnp.sin, lambda y: y * 2, x),
        (X, TOKENS),
    ),
    "raw_operands": (
        lambda x: jnp.maximum(x + jnp.arange(D, dtype=x.dtype), X[0].astype(x.dtype)) - 1,
        (X,),
    ),
    # Known bugs and silent errors.
    "concatenate": (lambda x, w: jnp.concatenate([x[0], w]), (X, W)),
    "integer_cast": (lambda x: (x * 5).astype(jnp.int32), (X,)),
    "exp_of_zeros": (
        lambda x: [x + jnp.exp(0 * x), x * jnp.exp(jnp.zeros_like(x)), jnp.exp(jnp.zeros_like(x))],
        (X,),
    ),
    "zero_divisor": (lambda x: jnp.where(x > 9, 1 / jnp.zeros_like(x), x), (X,)),
    "reduce_prod": (lambda x: jnp.prod(1 + x[..., :8] / 64, -1), (X,)),
    "pad_with_one": (lambda x: jnp.pad(x, 1, constant_values=1), (X,)),
    "nan_to_num": (lambda x: jnp.nan_to_num(x), (X,)),
    "cumsum": (lambda x: jnp.cumsum(x, 1), (X,)),
    "sort": (lambda x: jnp.sort(x, -1), (X,)),
    "argmax": (lambda x: jnp.argmax(x, -1), (X,)),
    "functions": (
        lambda x: [jnp.tan(x / 4), jnp.cbrt(x), jnp.expm1(x), jnp.log1p(x * x), jnp.floor(x)],
        (X,),
    ),
    "remainder": (lambda x: jnp.remainder(x, 0.75), (X,)),
    "forward_cast": (
        jax.grad(lambda x, w: (x.astype(jnp.float8_e4m3fn).astype(x.dtype) @ w).sum(), 1),
        (X, W),
    ),
    "serial_adds": (lambda x: sum([x * 1] * 16), (X,)),
}


def results(fn: Fn, arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Returns the results of `fn` with scales on its values."""
    return run_stablehlo(opt(normal_form(fn, *arrays), PROPAGATE, EXPORT), *arrays)


def together(names: list[str], dtype: Any) -> tuple[Fn, tuple[np.ndarray, ...], list[str]]:
    """Returns one program of many rows, its arrays, and the row of each of its results.

    One compilation instead of fifty: the rows share no value.
    """
    arrays = [a.astype(dtype) if a.dtype == np.float32 else a for n in names for a in ROWS[n][1]]
    counts = [len(ROWS[n][1]) for n in names]
    starts = np.cumsum([0, *counts])

    def fn(*xs: jax.Array) -> Any:
        return [ROWS[n][0](*xs[i : i + c]) for n, i, c in zip(names, starts, counts, strict=False)]

    leaves = jax.eval_shape(fn, *arrays)
    owners = [n for n, some in zip(names, leaves, strict=True) for _ in jax.tree.leaves(some)]
    return fn, tuple(arrays), owners


def error(a: Any, b: Any) -> float:
    """Returns the largest error relative to the largest magnitude; infinite where not finite."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert np.isfinite(b).all()
    worst = np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)
    return float(worst) if np.isfinite(a).all() else np.inf


def test_f32() -> None:
    """In F32 the program with scales is the plain one."""
    fn, arrays, owners = together(list(ROWS), np.float32)
    expected = jax.tree.leaves(jax.jit(fn)(*arrays))
    actual = results(fn, arrays)
    errors = [error(a, b) for a, b in zip(actual, expected, strict=True)]
    assert not {n: e for n, e in zip(owners, errors, strict=True) if e > RELATIVE}


# An F16 update of Adam has no eps, the rest is at the border of the type or steps.
F32_ONLY = {"adam", "adamw", "nan_to_num", "zero_divisor", "integer_cast", "argmax", "functions"}


def test_f16() -> None:
    """A program in F16 is under `fp16` as near to F32 as the plain F16 program is."""
    names = sorted(set(ROWS) - F32_ONLY)
    fn, narrow, owners = together(names, np.float16)
    wide = tuple(a.astype(np.float32) if a.dtype == np.float16 else a for a in narrow)
    expected = jax.tree.leaves(jax.jit(fn)(*wide))
    plain = jax.tree.leaves(jax.jit(fn)(*narrow))
    scaled = jax.tree.leaves(scalify.transform(fn, recipe="fp16")(*narrow))
    # Two roundings of an 11-bit significand on top of twice what plain F16 loses.
    assert not {
        n: (error(a, c), error(b, c))
        for n, a, b, c in zip(owners, scaled, plain, expected, strict=True)
        if error(a, c) > 2 * error(b, c) + 2.0**-9
    }


DOTS = {
    *("attention", "attention_gradient", "mask_1e9", "mask_lowest", "value_and_grad"),
    *("sgd", "checkpoint", "forward_cast"),
}


def test_fp8() -> None:
    """Under `fp8`, with every dot cast, results point where those of F32 do."""
    fn, arrays, owners = together(sorted(DOTS), np.float32)
    recipe = 'attributes {scalify.recipe = #scalify.recipe<"fp8", attention = true, head = true>} '
    text = opt(normal_form(fn, *arrays), PROPAGATE)
    head, brace, tail = text.partition("{\n")
    head = head.partition("attributes")[0]
    decide = "--scalify-decide-formats=remarks=0"
    text = opt(head + recipe + brace + tail, decide, "--scalify-quantize", EXPORT)
    assert "f8E4M3FN" in text
    expected = jax.tree.leaves(jax.jit(fn)(*arrays))
    for name, x, y in zip(owners, run_stablehlo(text, *arrays), expected, strict=True):
        a, b = np.asarray(x, np.float64).ravel(), np.asarray(y, np.float64).ravel()
        # The bar of the project for gradients' worst tensor; E5M2 alone costs about 0.003.
        assert a @ b >= 0.95 * np.linalg.norm(a) * np.linalg.norm(b), name


def test_f16_long_dot_does_not_overflow() -> None:
    """65,536 products of 2 and 2: plain F16 gives infinity, `fp16` the true value."""
    x = np.full((2, 65536), 2, np.float16)

    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return (x @ y) * jnp.float16(2**-10)

    assert np.isinf(np.asarray(jax.jit(fn)(x, x.T))).all()
    scaled = scalify.transform(fn, recipe="fp16")(x, x.T)
    np.testing.assert_array_equal(scaled, np.full((2, 2), 256, np.float16))


def test_eps_dominates_tiny_rows() -> None:
    """A norm's eps keeps its meaning on rows far below it, beside rows far above."""
    x = normal(5, (16, 64)) * np.exp2(np.arange(-30, 2, 2, dtype=np.float32))[:, None]
    (actual,) = results(rms_norm, (x,))
    np.testing.assert_allclose(actual, np.asarray(jax.jit(rms_norm)(x)), rtol=1e-5)


@pytest.mark.parametrize("size", [1e-10, 1e-4, 1e4])
def test_eps_of_adam(size: float) -> None:
    """Adam's eps of 1e-8 against gradients of 1e-10: updates are small, not of unit size."""

    def update(m: jax.Array, v: jax.Array, g: jax.Array) -> jax.Array:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return (m / 0.1) / (jnp.sqrt(v / 0.001) + 1e-8)

    g = normal(6, (32, 32), size)
    zero = np.zeros_like(g)
    (actual,) = results(update, (zero, zero, g))
    expected = np.asarray(jax.jit(update)(zero, zero, g))
    # v is subnormal at the smallest size, where XLA:CPU flushes some of its terms.
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-7)
    if size == 1e-10:
        assert np.abs(expected).max() < 0.1


def test_nan_and_infinite_inputs_stay() -> None:
    """A NaN or an infinity in the data appears in its own result, and nowhere else."""
    x = X[0].copy()
    x[1, 2], x[3, 4] = np.nan, np.inf
    (actual,) = results(lambda x: x * 3.0 + 1.0, (x,))
    # XLA contracts the product and the sum: the sum may cancel.
    np.testing.assert_allclose(actual, np.asarray(x * 3 + 1), rtol=1e-6, atol=1e-6)


def test_scales_are_powers_of_two() -> None:
    """After a square root as well (the reference: sqrt(2))."""
    fn, arrays = lambda x, y: jnp.sqrt(x * x + 1) @ y, (X[0] * np.float32(1.4), W)
    text = opt(normal_form(fn, *arrays), PROPAGATE, "--scalify-validate-scales")
    assert "scalify.scale_hint" in text
