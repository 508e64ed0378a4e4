"""Complex numbers inside a step: values and gradients against jax.jit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import scalify

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 8)).astype(np.float32)
Y = RNG.normal(size=(3, 8)).astype(np.float32)
# Some ten roundings of F32, and of XLA's own functions.
ROUNDING = 5e-6

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": jnp.exp,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "expm1": jnp.expm1,
    "sqrt": jnp.sqrt,
    "rsqrt": lax.rsqrt,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tan": jnp.tan,
    "tanh": jnp.tanh,
    "sinh": jnp.sinh,
    "cosh": jnp.cosh,
    "arctan": jnp.arctan,
    "arctanh": jnp.arctanh,
    "logistic": lax.logistic,
    "abs": jnp.abs,
    "conj": jnp.conj,
    "negate": lambda z: -z,
    "square": jnp.square,
    "reciprocal": lambda z: 1 / z,
    "quotient": lambda z: z / (z.T @ z)[0, 0],
    "power": lambda z: z ** (0.5 + 1j),
    "cube": lambda z: z**3,
    "sum": lambda z: z.sum(0),
    "mean": lambda z: z.mean(),
    "product": lambda z: z.prod(1),
    "cumulative sum": lambda z: jnp.cumsum(z, 1),
    "transpose": lambda z: z.T,
    "dot": lambda z: z @ z.conj().T,
    "einsum": lambda z: jnp.einsum("ij,kj->ik", z, z),
    "gather": lambda z: z[jnp.array([2, 0])],
    "set": lambda z: z.at[1].set(2j),
    "add": lambda z: z.at[jnp.array([0, 0])].add(z[:2]),
    "where": lambda z: jnp.where(z.real > 0, z, 0),
    "concatenate": lambda z: jnp.concatenate([z, z * 1j]),
    "roll": lambda z: jnp.roll(z, 1, 1),
    "pad": lambda z: jnp.pad(z, 1),
    "scan": lambda z: lax.scan(lambda c, r: (c * jnp.exp(1j * r), c), jnp.ones(8) + 0j, z)[0],
    "cond": lambda z: lax.cond(z.real.sum() > 0, lambda z: z * 2j, lambda z: z - 1, z),
}
# Without a derivative, or with one of zero.
FORWARD: dict[str, Callable[[Any], Any]] = {
    "sort": lambda z: jnp.sort(z, axis=1),
    "equal": lambda z: (z == z.conj()).astype(jnp.float32),
    "sign": jnp.sign,
    "angle": jnp.angle,
    "while": lambda z: lax.while_loop(
        lambda c: jnp.abs(c).max() < 10, lambda c: c * (1.1 + 0.3j), z
    ),
}


def parts(fn: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(x: Any, y: Any) -> Any:
        z = jnp.asarray(fn(x + 1j * y))
        return jnp.real(z), jnp.imag(z)

    return apply


def assert_close(mine: Any, theirs: Any) -> None:
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        scale = np.abs(np.asarray(b)).max()
        np.testing.assert_allclose(
            np.asarray(a), np.asarray(b), rtol=ROUNDING, atol=ROUNDING * scale + 1e-12
        )


@pytest.mark.parametrize("name", FUNCTIONS | FORWARD)
def test_values(name: str) -> None:
    fn = parts((FUNCTIONS | FORWARD)[name])
    assert_close(scalify.jit(fn, "none")(X, Y), jax.jit(fn)(X, Y))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name: str) -> None:
    fn = parts(FUNCTIONS[name])

    def loss(x: Any, y: Any) -> Any:
        re, im = fn(x, y)
        weights = jnp.cos(jnp.arange(re.size, dtype=jnp.float32)).reshape(re.shape)
        return (re * weights).sum() + (im * weights).sum() / 2

    gradient = jax.grad(loss, (0, 1))
    assert_close(scalify.jit(gradient, "none")(X, Y), jax.jit(gradient)(X, Y))


def test_special_values() -> None:
    """Zeros, large and small magnitudes: no overflow of squares, and exact zeros."""
    x = np.array([0, 0, 1e30, 1e-30, -1, 3, 0, -4], np.float32)
    y = np.array([0, 2, 1e30, 1e-30, 0, 4, -1, 0], np.float32)
    for fn in (jnp.abs, jnp.sqrt, jnp.log1p, lambda z: z / (3e30 + 4e30j), jnp.sign):
        mine, theirs = scalify.jit(parts(fn), "none")(x, y), jax.jit(parts(fn))(x, y)
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=ROUNDING, atol=1e-37)


def test_the_range_of_magnitudes_and_quotients() -> None:
    x = np.array([0, np.inf, 3e38, 1e-30, 3, 0, np.nan], np.float32)
    y = np.array([0, 1, 1e38, 1e-30, 0, 4, 1], np.float32)

    def step(x: Any, y: Any) -> Any:
        z = lax.complex(x, y)
        return jnp.abs(z), jnp.real((z * 2) / z)

    size, ratio = scalify.jit(step, recipe="none")(x, y)
    np.testing.assert_allclose(
        np.asarray(size), np.hypot(x.astype(np.float64), y), rtol=4 * np.finfo(np.float32).eps
    )
    np.testing.assert_allclose(np.asarray(ratio)[3:6], 2, rtol=1e-6)


@pytest.mark.parametrize("recipe", ["none", "fp8"])
def test_attention_with_complex_rotations(recipe: str) -> None:
    """Rotary embeddings as LLaMA's reference writes them: a product of complex numbers.

    The cosine's bound is that of a layer, .98; without casts gradients are those of jax.jit.
    """
    heads, width, length = 2, 16, 24
    rng = np.random.default_rng(1)
    params = {
        name: (rng.normal(size=(heads * width, heads * width)) / 6).astype(np.float32)
        for name in "qkvo"
    }
    x = rng.normal(size=(2, length, heads * width)).astype(np.float32)
    angles = np.outer(np.arange(length), 1e-2 ** (np.arange(width // 2) / (width // 2)))
    turns = np.exp(1j * angles).astype(np.complex64)

    def rotate(v: Any) -> Any:
        z = lax.complex(v[..., ::2], v[..., 1::2]) * turns[:, None]
        return jnp.stack([z.real, z.imag], -1).reshape(v.shape)

    def loss(params: Any, x: Any) -> Any:
        q, k, v = ((x @ params[n]).reshape(2, length, heads, width) for n in "qkv")
        scores = jnp.einsum("bqhd,bkhd->bhqk", rotate(q), rotate(k)) / width**0.5
        out = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
        return jnp.mean((out.reshape(x.shape) @ params["o"] - x) ** 2)

    gradient = jax.grad(loss)
    found, expected = scalify.jit(gradient, recipe)(params, x), jax.jit(gradient)(params, x)
    for name in params:
        a, b = np.asarray(found[name]).ravel(), np.asarray(expected[name]).ravel()
        cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        assert cosine > (0.98 if recipe == "fp8" else 1 - 1e-6), name
