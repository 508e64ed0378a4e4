"""A step of other shapes continues with the last one's kept state; equal types share a step."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify

WIDTH = 64
ROWS = (32, 32, 16, 32, 16, 8)


def init() -> dict[str, Any]:
    draw = np.random.default_rng(0)
    return {name: jnp.asarray(draw.normal(0, 0.1, (WIDTH, WIDTH)), jnp.float32) for name in "ab"}


def loss(params: Any, x: Any) -> Any:
    return jnp.mean(jnp.square(jnp.tanh(x @ params["a"]) @ params["b"] - x))


def step(params: Any, x: Any) -> Any:
    value, grads = jax.value_and_grad(loss)(params, x)
    # Weights grow, so that each step has another amax.
    return jax.tree.map(lambda w, g: 1.1 * w - 0.1 * g, params, grads), value


def batch(rows: int) -> Any:
    return jnp.asarray(np.random.default_rng(rows).normal(size=(rows, WIDTH)), jnp.float32)


def test_a_history_of_amaxes_goes_along_by_name() -> None:
    recipe = scalify.Recipe.preset("fp8-delayed").replace(head=True, sensitive=True)
    run, params, seen = scalify.jit(step, recipe, donate_argnums=0), init(), []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for rows in ROWS:
            seen.append(float(np.abs(params["a"]).max()))
            params, _ = run(params, batch(rows))
    executable = run.executable()
    argument = next(arg for arg in executable.manifest["args"] if "casts" in arg)
    (row,) = [i for i, cast in enumerate(argument["casts"]) if cast.endswith(": params['a']")]
    np.testing.assert_array_equal(executable.amax_history[row, -len(ROWS) :], np.float32(seen))
    lines = [str(one.message) for one in said if "carried over by name" in str(one.message)]
    assert len(lines) == 2, "one for each new shape"
    assert "x of type float32[16, 64] where it was float32[32, 64]" in lines[0]


def test_scales_that_move_go_along_by_name() -> None:
    run, params = (
        scalify.jit(step, "fp8", numerics=scalify.Numerics(adaptive_scales=True), donate_argnums=0),
        init(),
    )
    params, _ = run(params, batch(32))
    moved = 4 * run.executable().cast_scales
    run.executable().cast_scales = moved
    with pytest.warns(UserWarning, match="carried over by name"):
        params, _ = run(params, batch(16))
    np.testing.assert_array_equal(run.executable().cast_scales, moved)


def test_scales_that_transform_keeps_go_along() -> None:
    params = init()
    recipe = scalify.Recipe.preset("fp8").replace(head=True, sensitive=True)
    run = scalify.transform(
        step, recipe, numerics=scalify.Numerics(scales=scalify.measure((params, batch(32))))
    )
    for _ in range(60):  # 8 binades
        params, _ = run(params, batch(32))
    before = run.state
    assert (before != 0).any(), "weights that grow have left their predictions"
    with pytest.warns(UserWarning, match="casts are kept"):
        run(params, batch(16))
    # One that has moved is no longer zero, which stands for the prediction.
    np.testing.assert_array_equal(run.state != 0, before != 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(params, batch(16))
        run(params, batch(32))


@pytest.mark.parametrize("donated", [None, 0])
@pytest.mark.parametrize("kind", [jnp.asarray, np.asarray])
def test_weak_types_are_traced_once(kind: Any, donated: int | None) -> None:
    traces = []

    def count(state: Any, x: Any) -> Any:
        traces.append(1)
        return {"n": state["n"] + 1, "w": state["w"] + x, "rate": 0.5 * state["rate"]}

    run = scalify.jit(count, "none", donate_argnums=donated)
    state = {"n": 0, "w": kind(np.ones(3, np.float32)), "rate": 1.0}
    for _ in range(4):
        state = run(state, kind(np.ones(3, np.float32)))
    assert len(traces) == 1
    assert (int(state["n"]), float(state["rate"])) == (4, 0.0625)
    # As JAX has them: a weak integer leaves a narrower type as it is.
    assert (jnp.ones(2, jnp.int8) + state["n"]).dtype == jnp.int8
    assert (jnp.ones(2, jnp.bfloat16) * state["rate"]).dtype == jnp.bfloat16
