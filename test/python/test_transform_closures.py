"""Transformed functions that close over values which JAX traces, against those that take them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify

RNG = np.random.default_rng(0)
W = jnp.asarray(RNG.normal(0, 0.2, (64, 64)), jnp.float32)
XS = jnp.asarray(RNG.normal(size=(3, 16, 64)), jnp.float32)
KEY = jax.random.key(0)


def loss(w: Any, x: Any, key: Any, scale: Any) -> Any:
    kept = jax.random.bernoulli(key, 0.9, x.shape)
    return scale * jnp.mean(jnp.tanh(jnp.where(kept, x, 0) @ w) ** 2)


def closing(x: Any, key: Any, scale: Any, recipe: str = "fp8", **options: Any) -> Any:
    """A user's function: its weights are its argument, and the rest is around it."""
    return scalify.transform(lambda w: jax.grad(loss)(w, x, key, scale), recipe, **options)


def taking(w: Any, x: Any, key: Any, scale: Any, recipe: str = "fp8") -> Any:
    return scalify.transform(jax.grad(loss), recipe)(w, x, key, scale)


def equal(own: Any, other: Any) -> None:
    assert own.shape == other.shape
    np.testing.assert_allclose(own, other, rtol=2e-2, atol=1e-5 * float(jnp.abs(other).max()))


pytestmark = pytest.mark.filterwarnings("ignore:.*traced without values")


@pytest.mark.parametrize("recipe", ["none", "fp8", "fp8-current", "bf16"])
def test_under_jit(recipe: str) -> None:
    """An array, random keys, an integer: each is an argument of the module."""
    wanted = jax.jit(lambda *args: taking(*args, recipe))(W, XS[0], KEY, 2)
    equal(jax.jit(lambda w, *args: closing(*args, recipe)(w))(W, XS[0], KEY, 2), wanted)


def test_in_a_scan_a_while_loop_and_a_branch() -> None:
    def run(one: Any) -> Any:
        def body(w: Any, x: Any) -> Any:
            return w - one(w, x), None

        def until(carry: Any) -> Any:
            return carry[0] - one(carry[0], XS[carry[1]]), carry[1] + 1

        w, _ = jax.lax.scan(body, W, XS)
        w, _ = jax.lax.while_loop(lambda carry: carry[1] < 3, until, (w, 0))
        return jax.lax.cond(w[0, 0] > 9, lambda: w, lambda: one(w, XS[0]))

    equal(
        jax.jit(lambda: run(lambda w, x: closing(x, KEY, 1.0)(w)))(),
        jax.jit(lambda: run(lambda w, x: taking(w, x, KEY, 1.0)))(),
    )


@pytest.mark.parametrize("outer", [lambda fn: fn, jax.jit])
def test_vmap_over_what_is_closed_over(outer: Any) -> None:
    keys = jax.random.split(KEY, 3)
    wanted = outer(jax.vmap(lambda x, key: taking(W, x, key, 1.0)))(XS, keys)
    equal(outer(jax.vmap(lambda x, key: closing(x, key, 1.0)(W)))(XS, keys), wanted)
    twice = outer(jax.vmap(lambda w: jax.vmap(lambda x: closing(x, KEY, 1.0)(w))(XS)))
    equal(twice(jnp.stack([W, W]))[1], outer(jax.vmap(lambda x: taking(W, x, KEY, 1.0)))(XS))


def test_given_scales_a_state_and_a_report() -> None:
    numerics = scalify.Numerics(scales=scalify.measure((W,)))

    @jax.jit
    def outer(w: Any, x: Any) -> Any:
        fn = closing(x, KEY, 1.0, numerics=numerics)
        grads = fn(w)
        assert [row["scaling"] for row in fn.report().measured_arguments()] == ["measured"]
        return grads

    equal(outer(W, XS[0]), taking(W, XS[0], KEY, 1.0))
    state = scalify.transform(jax.grad(loss)).init_state(W, XS[0], KEY, 1.0)

    @jax.jit
    def kept(w: Any, x: Any, state: Any) -> Any:
        return closing(x, KEY, 1.0)(w, state=state)

    grads, after = kept(W, XS[0], state)
    equal(grads, taking(W, XS[0], KEY, 1.0))
    assert after.shape == state.shape


def test_what_cannot_be_done_says_so() -> None:
    refused = "closes over values that JAX traces around it: give them to it as arguments"
    with pytest.raises(TypeError, match=refused):
        jax.jit(lambda w, x: closing(x, KEY, 1.0).init_state(w))(W, XS[0])
    with pytest.raises(TypeError, match=refused):
        jax.jit(lambda w, x: scalify.jit(lambda w: x @ w).call(w))(W, XS[0])
    with pytest.raises(TypeError, match="no derivative once it is transformed"):
        jax.grad(lambda w: scalify.transform(lambda x: jnp.sum(x @ w))(XS[0]))(W)
