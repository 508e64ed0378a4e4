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


def test_the_bits_of_a_step_do_not_depend_on_the_run() -> None:
    fn, state = STEPS["soap"]
    batch = batches(1)[0]
    results = [
        jax.tree.leaves(scalify.jit(fn, recipe="fp8")(start(), state(), *batch)) for _ in range(2)
    ]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
