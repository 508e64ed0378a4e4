"""Variances that a program computes from means of squares by dots, against jax.jit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify

COMPONENTS, SIZE, COUNT = 8, 16, 512
RNG = np.random.default_rng(7)
CENTERS = RNG.normal(0, 3, (COMPONENTS, SIZE)).astype(np.float32)


def batch(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    points = CENTERS[rng.integers(0, COMPONENTS, COUNT)] + rng.normal(0, 0.5, (COUNT, SIZE))
    return jnp.asarray(points, jnp.float32)


def diagonal(means: Any, variances: Any, x: Any) -> tuple[Any, Any]:
    """EM of a mixture with diagonal covariances: the next means and variances."""
    distances = (x[:, None] - means) ** 2 / variances + jnp.log(variances)
    share = jax.nn.softmax(-0.5 * distances.sum(-1), axis=1)
    count = share.sum(0)[:, None] + 1e-6
    means = share.T @ x / count
    return means, share.T @ x**2 / count - means**2 + 1e-6


def add_part(means: Any, variances: Any, part: Any, sums: Any) -> Any:
    """Adds the weights, weighted sums and sums of squares of a part of the data."""
    share = jax.nn.softmax(
        -0.5 * ((part[:, None] - means) ** 2 / variances + jnp.log(variances)).sum(-1), axis=1
    )
    count, first, second = sums
    return count + share.sum(0)[:, None], first + share.T @ part, second + share.T @ part**2


def scanned(means: Any, variances: Any, x: Any) -> tuple[Any, Any]:
    """The first, with sums over parts of the data in a loop."""
    zeros = jnp.zeros((COMPONENTS, SIZE))
    (count, first, second), _ = jax.lax.scan(
        lambda carry, part: (add_part(means, variances, part, carry), None),
        (1e-6 + zeros[:, :1], zeros, zeros),
        x.reshape(4, -1, SIZE),
    )
    return first / count, second / count - (first / count) ** 2 + 1e-6


def unrolled(means: Any, variances: Any, x: Any) -> tuple[Any, Any]:
    """The same, without a loop."""
    sums: Any = (1e-6, 0, 0)
    for part in x.reshape(4, -1, SIZE):
        sums = add_part(means, variances, part, sums)
    count, first, second = sums
    return first / count, second / count - (first / count) ** 2 + 1e-6


def full(means: Any, covariances: Any, x: Any) -> tuple[Any, Any]:
    """The same with full covariances, by einsum."""
    root = jnp.linalg.cholesky(covariances)
    apart = jax.vmap(
        lambda one, mean: jax.scipy.linalg.solve_triangular(one, (x - mean).T, lower=True)
    )(root, means)
    logs = -0.5 * (apart**2).sum(1) - jnp.log(jnp.diagonal(root, axis1=1, axis2=2)).sum(1)[:, None]
    share = jax.nn.softmax(logs, axis=0)
    count = share.sum(1) + 1e-6
    means = share @ x / count[:, None]
    squares = jnp.einsum("kn,ni,nj->kij", share, x, x) / count[:, None, None]
    return means, squares - means[:, :, None] * means[:, None] + 1e-3 * jnp.eye(SIZE)


@pytest.mark.filterwarnings("ignore:recipe .* leaves")
@pytest.mark.parametrize("recipe", ["fp8", "fp8-current", "fp16", "bf16"])
@pytest.mark.parametrize("step", [diagonal, full, scanned, unrolled])
def test_mixtures_keep_positive_variances(step: Any, recipe: str) -> None:
    """Logarithms and roots of variances read them: negative ones were NaN from the second step."""
    spread = 4 * (
        np.eye(SIZE) + np.zeros((COMPONENTS, SIZE, SIZE))
        if step is full
        else np.ones((COMPONENTS, SIZE))
    )
    state = exact = CENTERS + RNG.normal(size=CENTERS.shape).astype(np.float32), spread.astype("f4")
    compiled, plain = scalify.jit(step, recipe=recipe), jax.jit(step)
    for seed in range(4):
        state, exact = compiled(*state, batch(seed)), plain(*exact, batch(seed))
    for own, other in zip(state, exact, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-3)
    assert {row["wide"] for row in compiled.report().dots()} == {True}


@pytest.mark.filterwarnings("ignore:recipe .* leaves")
def test_a_product_that_is_subtracted_is_no_moment() -> None:
    """Gates and recurrences subtract products too, of other operands."""

    def gated(a: Any, b: Any, c: Any, x: Any) -> Any:
        return x @ a - (x @ b) * (x @ c)

    weights = [jnp.asarray(RNG.normal(0, 0.2, (64, 64)), jnp.float32) for _ in range(3)]
    recipe = scalify.Recipe.preset("fp8").replace(sensitive=True, head=True)
    step = scalify.jit(gated, recipe=recipe)
    step(*weights, jnp.ones((32, 64)))
    assert {row["wide"] for row in step.report().dots()} == {False}
