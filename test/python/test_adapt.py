"""The policy "adapt": steps that switch from constant scales to scales that move."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify

RECIPE = '#scalify.recipe<"fp8", head = true>'
POLICY = scalify.HealthPolicy("adapt", every=2)
W = np.ones((32, 32), np.float32)


def matmul(x: Any, w: Any, flag: bool = False) -> Any:
    return (x @ w) * (2.0 if flag else 1.0)


def made(recipe: str = RECIPE, **numerics: Any) -> scalify.Jit:
    # Else the steps themselves move scales, and nothing is left to adapt.
    numerics = {"scales": [0, 0], "cast_scales": "static"} | numerics
    return scalify.jit(matmul, recipe, static_argnums=2, numerics=scalify.Numerics(**numerics))


def clipping(rows: int = 32) -> Any:
    x = np.ones((rows, 32), np.float32)
    x[:, :2] = 2.0**15
    return x


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "cast")
        yield


def adapted() -> Any:
    fn = made(health=POLICY)
    for _ in range(3):
        fn(clipping(), W)
    assert fn.executable().cast_scales is not None
    return fn.state()


@pytest.mark.parametrize(("columns", "looks"), [(2, 20), (4, 1)])
def test_a_step_that_loses_a_tenth_of_a_cast_is_looked_at_at_once(columns: int, looks: int) -> None:
    """Of 32 columns, 2 are 6 %, which waits for the next due check, and 4 are 12 %."""
    fn = made(health=scalify.HealthPolicy("adapt", every=20))
    x = np.ones((32, 32), np.float32)
    x[:, :columns] = 2.0**15
    for _ in range(looks):
        fn(x, W)
        assert fn.executable().cast_scales is None
    fn(x, W)
    assert fn.executable().cast_scales is not None


def test_a_nan_is_named_at_once() -> None:
    fn = made(health=scalify.HealthPolicy("report", every=20))
    with pytest.warns(UserWarning, match="read NaN or infinities, first cast 'c0: x'"):
        fn(np.full((32, 32), np.nan, np.float32), W)


@pytest.mark.parametrize("action", ["rescale", "adapt"])
def test_a_cast_whose_scale_cannot_move_is_named(action: Any) -> None:
    """A cast in a loop, whose scale the policy would move but cannot."""

    def total(xs: Any, w: Any) -> Any:
        return jax.lax.scan(lambda sums, x: (sums + x @ w, None), jnp.zeros_like(w), xs)[0]

    policy = scalify.HealthPolicy(action)
    numerics = scalify.Numerics(scales=[0, 0], cast_scales="static", health=policy)
    fn = scalify.jit(total, RECIPE, numerics=numerics)
    with pytest.warns(UserWarning, match="its scale does not move: casts in loops") as found:
        for _ in range(4):
            fn(np.stack([clipping(), clipping()]), W)
    assert {one.filename for one in found} == {__file__}


def test_a_scale_that_is_far_too_high_is_looked_at_at_once() -> None:
    """After a batch that raised the scale, all values of the next one would become zero."""
    fn = made(health=scalify.HealthPolicy("rescale", every=20))
    large = np.full((32, 32), 2.0**30, np.float32)
    small = np.ones((32, 32), np.float32)
    for _ in range(8):
        fn(large, W)
    for _ in range(10):
        out = np.asarray(fn(small, W))
    # Ones, a power of two, are exact once they are not zero.
    np.testing.assert_array_equal(out, np.full((32, 32), 32.0))


@pytest.mark.parametrize(("largest", "is_sick"), [(2.0**-12, True), (448.0, False)])
def test_a_cast_of_which_nothing_is_left_is_sick(largest: float, is_sick: bool) -> None:
    """Under the default policy, for which flushed tails are healthy."""
    fn = made()
    x = np.full((32, 32), 2.0**-12, np.float32)
    x[0, 0] = largest
    for _ in range(21):
        fn(x, W)
    assert (fn.executable().cast_scales is not None) == is_sick


def test_each_shape_and_static_value_is_looked_at() -> None:
    fn = made(health=POLICY)
    for _ in range(2):
        fn(np.ones((32, 32), np.float32), W, False)
        fn(clipping(), W, True)
    fn(clipping(), W, True)
    assert fn.executable().cast_scales is not None


def test_a_resume_keeps_scales_that_the_caller_moves() -> None:
    first = made(adaptive_scales=True)
    first(clipping(), W)
    second = made(adaptive_scales=True)
    second.restore(first.state())
    for _ in range(25):
        second(clipping(), W)
    assert second.executable().cast_scales.tolist() == first.executable().cast_scales.tolist()


def test_every_shape_goes_on_after_a_resume() -> None:
    fn = made(health=POLICY)
    fn.restore(adapted())
    with pytest.warns(UserWarning, match="starts anew for these arguments"):
        fn(np.ones((8, 32), np.float32), W)
    for _ in range(4):
        fn(clipping(), W)
        fn(np.ones((8, 32), np.float32), W)


@pytest.mark.parametrize("recipe", ["fp8-delayed", "fp8-current", "none"])
def test_another_recipe_does_not_adapt_after_a_resume(recipe: str) -> None:
    fn = made(health=POLICY, recipe=recipe, scales=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fn.restore(adapted())
        for _ in range(4):
            fn(clipping(), W)
    assert fn.executable().cast_scales is None


def test_what_is_asked_between_two_compilations_is_answered() -> None:
    fn = made(health=POLICY)
    for _ in range(2):
        fn(clipping(), W)
    before = fn.health()
    assert any(row["saturated"] for row in before)
    assert fn.report(clipping(), W).casts()  # compiles, and runs nothing
    # Kernels, and so rows, of the two may be in another order.
    assert sorted(fn.health(), key=str) == sorted(before, key=str)
    state = fn.state()
    assert (state.steps, state.adapts) == (2, True)


def test_a_compilation_that_fails_leaves_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    fn = made(health=POLICY)
    for _ in range(2):
        fn(clipping(), W)

    def fails(*_: Any) -> None:
        raise RuntimeError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(fn, "_compile", fails)
        with pytest.raises(RuntimeError, match="no memory"):
            fn(clipping(), W)
    assert fn.state().steps == 2
    out = jax.tree.leaves([fn(clipping(), W) for _ in range(8)])[-1]
    assert float(out[0, 0]) == 2.0**16 + 30
