"""Double precision: scalars of optimizers under x64, and steps that are wide altogether."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import special

import scalify

RNG = np.random.default_rng(0)


def loss(params: Any, x: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ params["in"]) @ params["out"] - x[:, :4]) ** 2)


def make_step(optimizer: Any) -> Any:
    def step(params: Any, state: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return step


OPTIMIZERS = {
    "adamw": optax.adamw(1e-2),
    "schedule": optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 1e-2, 3, 9)),
    "lamb": optax.lamb(1e-2),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_train_under_x64(name: str, dtype: Any) -> None:
    with jax.enable_x64(True):
        step = make_step(OPTIMIZERS[name])
        params = {"in": RNG.normal(0, 0.3, (8, 16)), "out": RNG.normal(0, 0.3, (16, 4))}
        params = {name: leaf.astype(dtype) for name, leaf in params.items()}
        x = RNG.normal(size=(32, 8)).astype(dtype)
        got = want = (params, OPTIMIZERS[name].init(params))
        ours, theirs = scalify.jit(step, recipe="none"), jax.jit(step)
        for _ in range(4):
            *got, value = ours(*got, x)
            *want, other = theirs(*want, x)
            # A step's sums of 32 terms in another order, and Adam's quotients of them.
            rtol = 1e-4 if dtype == np.float32 else 1e-12
            np.testing.assert_allclose(np.asarray(value), other, rtol=rtol)
        for mine, yours in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            assert np.asarray(mine).dtype == yours.dtype
            np.testing.assert_allclose(np.asarray(mine), yours, rtol=rtol, atol=rtol * 1e-2)


def test_recipes_leave_f64_wide() -> None:
    with jax.enable_x64(True):
        step = make_step(OPTIMIZERS["adamw"])
        params = {"in": RNG.normal(0, 0.3, (8, 16)), "out": RNG.normal(0, 0.3, (16, 4))}
        state, x = OPTIMIZERS["adamw"].init(params), RNG.normal(size=(32, 8))
        got = scalify.jit(step, recipe="fp8")(params, state, x)
        for mine, yours in zip(
            jax.tree.leaves(got), jax.tree.leaves(jax.jit(step)(params, state, x)), strict=True
        ):
            np.testing.assert_allclose(np.asarray(mine), yours, rtol=1e-12, atol=1e-14)


def test_products_and_sums_are_wide() -> None:
    def fn(x: Any, y: Any) -> Any:
        return x @ y, (x * 1e200).sum(1), jnp.linalg.norm(x), jax.nn.softmax(y, 0), x.max(), x.std()

    with jax.enable_x64(True):
        x, y = RNG.normal(size=(7, 50)), RNG.normal(size=(50, 5))
        got = scalify.jit(fn, recipe="none")(x, y)
        for mine, yours in zip(got, jax.jit(fn)(x, y), strict=True):
            # Sums of 350 terms of size 1 in another order.
            np.testing.assert_allclose(np.asarray(mine), yours, rtol=1e-12, atol=1e-13)


LINE = np.concatenate([np.linspace(-6.5, 6.5, 400), [0.0, 1e-300, -1e-20, 0.5, -0.47, 1e-8]])
INNER = np.tanh(LINE)
POSITIVE = np.abs(LINE) + 0.1
ENDS = np.sign(LINE) * (1 - np.exp(-2 - np.abs(LINE * 5)))  # up to a last place from 1
SPECIAL: dict[str, tuple[Any, Any, Any]] = {
    "erf": (jax.lax.erf, special.erf, LINE),
    "erfc": (jax.lax.erfc, special.erfc, LINE * 4),
    "erf_inv": (jax.lax.erf_inv, special.erfinv, INNER),
    "erf_inv at the ends": (jax.lax.erf_inv, special.erfinv, ENDS),
    "asin": (jnp.arcsin, np.arcsin, INNER),
    "acos": (jnp.arccos, np.arccos, INNER),
    "atan": (jnp.arctan, np.arctan, LINE),
    "sinh": (jnp.sinh, np.sinh, LINE),
    "cosh": (jnp.cosh, np.cosh, LINE),
    "asinh": (jnp.arcsinh, np.arcsinh, LINE * 1e8),
    "acosh": (jnp.arccosh, np.arccosh, POSITIVE + 1),
    "atanh": (jnp.arctanh, np.arctanh, INNER),
    "lgamma": (jax.lax.lgamma, special.gammaln, POSITIVE + 3),
    "digamma": (jax.lax.digamma, special.digamma, POSITIVE + 2),
    "zeta": (lambda s: jax.lax.zeta(s, s * 0 + 2), lambda s: special.zeta(s, 2), POSITIVE + 1),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_have_all_their_bits(name: str) -> None:
    fn, exact, x = SPECIAL[name]
    with jax.enable_x64(True):
        got = np.asarray(scalify.jit(fn, recipe="none")(x))
    # Arguments of exponentials, up to a hundred in magnitude, are rounded.
    np.testing.assert_allclose(got, exact(x), rtol=1e-13, atol=1e-300)


def test_normal_numbers_are_those_of_jax() -> None:
    def draw(key: Any) -> Any:
        return jax.random.normal(key, (500,))

    with jax.enable_x64(True):
        key = jax.random.key(0)
        got, want = scalify.jit(draw, recipe="none")(key), jax.jit(draw)(key)
        # The error of XLA's erf_inv is 1e-10 at 6 deviations.
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-11)
