"""Casts that health leaves wide are matched after a compilation, in every form and recipe."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify

LAYERS, WIDTH, BATCH = 3, 16, 8
FORMS = ("unrolled", "remat", "scan", "scan_remat", "fori")
# Presets with casts of several kinds of scales, and state that is stored narrow.
RECIPES = ("fp8", "fp16", "fp8-current", "fp8-block", "fp8-delayed", "fp8-lm-o2", "fp8-plain")


def step_of(form: str) -> Any:
    def layer(x: Any, w: Any) -> Any:
        return x + jnp.tanh(x @ w["a"]) @ w["b"]

    one = jax.checkpoint(layer) if "remat" in form else layer

    def forward(p: Any, x: Any) -> Any:
        if "scan" in form:
            return jax.lax.scan(lambda x, w: (one(x, w), None), x, p)[0]
        if form == "fori":
            return jax.lax.fori_loop(
                0, LAYERS, lambda i, x: one(x, jax.tree.map(lambda s: s[i], p)), x
            )
        for i in range(LAYERS):
            x = one(x, jax.tree.map(lambda s, i=i: s[i], p))
        return x

    def step(p: Any, x: Any) -> Any:
        grads = jax.grad(lambda p: jnp.mean(jnp.square(forward(p, x))))(p)
        return jax.tree.map(lambda p, g: p - 0.01 * g, p, grads)

    return step


def arguments() -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.3, (2, LAYERS, WIDTH, WIDTH)).astype(np.float32)
    return dict(zip("ab", weights, strict=True)), rng.normal(size=(BATCH, WIDTH)).astype(np.float32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_what_was_sick_stays_wide(recipe: str, form: str) -> None:
    params, x = arguments()
    # Every cast is too unhealthy for a limit below nothing: the whole list has to be found again.
    policy = scalify.HealthPolicy("widen", patience=1, saturated=-1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = scalify.jit(step_of(form), recipe, numerics=scalify.Numerics(health=policy))
        step(params, x)
        listed = step.widened()
        assert listed
        assert {cast.cast for cast in listed} == {row["cast"] for row in step.health()}
        step.recompile()
        got = step(params, x)
    # What is left are casts that only were there because of others.
    names = {cast.cast for cast in listed}
    assert not names & {row["cast"] for row in step.health()}
    wanted = jax.jit(step_of(form))(params, x)
    for own, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        # Nothing is cast: F32 sums in another order.
        np.testing.assert_allclose(np.asarray(own), other, rtol=1e-4, atol=1e-6)
