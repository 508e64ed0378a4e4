"""Optimisers and models that factor matrices train without XLA, and under FP8 as without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linalg_steps import STEPS, batches, gaussian_process, points, start

import scalify

# A step changes the loss by 5 to 20 %. Casts of the dots, each 0.026 in the root mean square,
# change a step by as much.
FP8 = 0.02
# F32 sums in another order, carried through eight steps.
ROUNDING = 1e-5


def losses(step: Callable[..., Any], state: Any) -> list[float]:
    params, found = start(), []
    for batch in batches(8):
        params, state, loss = step(params, state, *batch)
        found.append(float(loss))
    return found


@pytest.mark.parametrize(("recipe", "bound"), [("none", ROUNDING), ("fp8", FP8)])
@pytest.mark.parametrize("name", STEPS)
def test_trains_as_jax(name: str, recipe: str, bound: float) -> None:
    fn, state = STEPS[name]
    step = scalify.jit(fn, recipe=recipe, donate_argnums=(0, 1))
    found, expected = losses(step, state()), losses(jax.jit(fn), state())
    assert not step.report().calls()
    assert expected[-1] < 0.9 * expected[0]
    np.testing.assert_allclose(found, expected, rtol=bound)
    assert recipe == "none" or len(step.health()) >= 4  # casts


@pytest.mark.parametrize("name", STEPS)
def test_the_first_update_under_fp8(name: str) -> None:
    fn, state = STEPS[name]
    batch = batches(1)[0]
    ours = scalify.jit(fn, recipe="fp8")(start(), state(), *batch)[0]
    theirs = jax.jit(fn)(start(), state(), *batch)[0]
    for key, begin in start().items():
        mine, want = np.asarray(ours[key]) - begin, np.asarray(theirs[key]) - begin
        cosine = np.vdot(mine, want) / np.linalg.norm(mine) / np.linalg.norm(want)
        assert cosine > 1 - FP8, (key, cosine)


@pytest.mark.parametrize(("recipe", "bound"), [("none", 1e-4), ("fp8", FP8)])
def test_gaussian_process(recipe: str, bound: float) -> None:
    x, y = points()
    params: Any = {
        "w": np.eye(3, dtype=np.float32),
        **{name: np.float32(v) for name, v in (("length", 0), ("height", 0), ("noise", -2))},
    }
    step, plain = scalify.jit(gaussian_process, recipe=recipe), jax.jit(gaussian_process)
    ours = theirs = params
    for _ in range(5):
        (ours, mine), (theirs, want) = step(ours, x, y), plain(theirs, x, y)
        np.testing.assert_allclose(float(mine), float(want), rtol=bound, atol=bound)
    for key, value in theirs.items():
        np.testing.assert_allclose(
            np.asarray(ours[key]), np.asarray(value), rtol=bound, atol=bound, err_msg=key
        )
    assert not step.report().calls()


def orthogonal(w: Any, x: Any) -> Any:
    """A recurrence by the exponential of a skew matrix, which sums multiples of the identity."""
    matrix = jax.scipy.linalg.expm(w - w.T)
    for _ in range(3):
        x = jnp.tanh(x @ matrix)
    return jnp.mean((x - 0.5) ** 2)


def diagonal(w: Any, x: Any) -> Any:
    """A product with a prior precision of 1e4."""
    precision = 1e4 * jnp.eye(32) + w @ w.T
    return jnp.mean((jnp.tanh(x @ w) @ precision * 1e-4 - 0.5) ** 2)


@pytest.mark.parametrize("loss", [orthogonal, diagonal])
def test_the_first_gradients_beside_large_diagonals(loss: Callable[..., Any]) -> None:
    rng = np.random.default_rng(3)
    w, x = (rng.normal(0, size, (32, 32)).astype(np.float32) for size in (0.1, 1))
    fn = jax.grad(loss)
    ours, theirs = (np.asarray(f(w, x)) for f in (scalify.jit(fn, recipe="fp8"), jax.jit(fn)))
    cosine = np.vdot(ours, theirs) / np.linalg.norm(ours) / np.linalg.norm(theirs)
    assert cosine > 1 - FP8


def filtered(p: Any, z: Any) -> Any:
    """The likelihood of observations under a Kalman filter that starts without knowledge."""
    noise = jnp.eye(8)

    def update(carry: Any, y: Any) -> Any:
        mean, cov = carry
        mean, cov = p["f"] @ mean, p["f"] @ cov @ p["f"].T + noise
        spread = p["h"] @ cov @ p["h"].T + jnp.eye(16)
        gain = jnp.linalg.solve(spread, p["h"] @ cov).T
        error = y - p["h"] @ mean
        likelihood = error @ jnp.linalg.solve(spread, error) + jnp.linalg.slogdet(spread)[1]
        return (mean + gain @ error, cov - gain @ p["h"] @ cov), likelihood

    return jax.lax.scan(update, (jnp.zeros(8), 1e4 * noise), z)[1].mean()


@pytest.mark.filterwarnings("ignore:recipe .* leaves")
@pytest.mark.parametrize(
    "recipe", ["fp8", "fp8-current", "fp8-delayed", "fp8-lm-o1", "bf16", "fp16"]
)
def test_gradients_of_a_kalman_filter(recipe: str) -> None:
    """Their terms are 10^4 times as large, and were rounded: the cosine was 0 in 16 bits too."""
    rng = np.random.default_rng(5)
    p = {
        "f": (0.9 * np.eye(8) + rng.normal(0, 0.05, (8, 8))).astype(np.float32),
        "h": rng.normal(0, 0.4, (16, 8)).astype(np.float32),
    }
    z = rng.normal(0, 1, (20, 16)).astype(np.float32)
    found, exact = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(fn(p, z))])
        for fn in (scalify.jit(jax.grad(filtered), recipe=recipe), jax.jit(jax.grad(filtered)))
    )
    # Products of the filter are F32's, in another order: with a condition number of 10^4 that is
    # 10^4 of 2^-24 per sum, and a thousand sums.
    assert np.linalg.norm(found - exact) < 1e-2 * np.linalg.norm(exact)


def test_the_bits_of_a_step_do_not_depend_on_the_run() -> None:
    fn, state = STEPS["soap"]
    batch = batches(1)[0]
    results = [
        jax.tree.leaves(scalify.jit(fn, recipe="fp8")(start(), state(), *batch)) for _ in range(2)
    ]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
