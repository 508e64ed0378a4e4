"""Calibration on the first batch: scales that depend on priors follow what casts see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify
from scalify import _runtime
from scalify._kept import KeptState

# The scale of an array of zeros: a prior gives such a parameter a size.
ZERO = -127
HEAD = scalify.Recipe.preset("fp8").replace(head=True)


def step(p: Any, x: Any) -> tuple[Any, Any]:
    def loss(p: Any) -> Any:
        h = jnp.tanh(x @ p["a"])
        return jnp.mean(jnp.square(h @ p["b"])) * 1e-3

    value, gradient = jax.value_and_grad(loss)(p)
    return jax.tree.map(lambda w, g: w - 0.1 * g, p, gradient), value


def arguments() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns weights and a batch; `b` is 2^13 times as large as a prior says of zeros."""
    rng = np.random.default_rng(0)
    a, b, x = (
        rng.normal(0, 1, shape).astype(np.float32) for shape in ((32, 32), (32, 32), (64, 32))
    )
    return {"a": a / 6, "b": 128 * b}, x


def compiled(
    calibration: Literal["first-batch"] | None, convert: Callable[[Any], Any], **numerics: Any
) -> tuple[scalify.Jit, Any]:
    """Returns a step compiled for zeros in `b`, and its first results."""
    options = scalify.Numerics(scales=[-3, ZERO, 0], calibration=calibration, **numerics)
    run = scalify.jit(step, HEAD, donate_argnums=0, numerics=options)
    return run, run(*jax.tree.map(convert, arguments()))


@pytest.mark.parametrize("convert", [np.array, jnp.array])
def test_the_first_step_casts_by_what_it_sees(convert: Callable[[Any], Any]) -> None:
    updated, exact = jax.jit(step)(*arguments())
    run, (_, predicted) = compiled(None, convert)
    assert "c3: p['b']" in [row["cast"] for row in run.report().prior_casts()]
    # Values beyond 2^-6 x 448 saturate in the first step.
    assert float(predicted) < 0.01 * float(exact)
    run, (params, seen) = compiled("first-batch", convert)
    # E4M3 has 3 bits of mantissa: a mean of 2,048 squares is within 2 %.
    assert float(seen) == pytest.approx(float(exact), rel=0.02)
    # One update, not one for each run on the first batch. E5M2 has 2 bits of mantissa: gradients
    # are within an eighth, and the updates of `a` are of its size.
    for name, before in arguments()[0].items():
        moved, wanted = np.asarray(params[name]) - before, np.asarray(updated[name]) - before
        assert np.linalg.norm(moved - wanted) < 0.2 * np.linalg.norm(wanted)


def test_the_solution_of_a_system_is_calibrated() -> None:
    """No rule knows its size: at 2^0, most values of its cast became zero."""

    def solved(w: Any, m: Any, x: Any) -> Any:
        # A triangular solve, whose solution is 2^14 times as small as its right-hand side.
        y = jax.scipy.linalg.solve_triangular(m, x.T, lower=True).T
        return jnp.mean(jnp.square(y @ w)) * 2.0**28

    rng = np.random.default_rng(1)
    w, x = (rng.normal(0, 1, shape).astype(np.float32) for shape in ((32, 64), (64, 32)))
    m = np.tril(rng.normal(0, 0.01, (32, 32)) + np.eye(32)).astype(np.float32) * 2**14
    run = scalify.jit(jax.grad(solved), HEAD)
    found, exact = np.asarray(run(w, m, x)), np.asarray(jax.grad(solved)(w, m, x))
    assert run.report().prior_casts()
    assert all(row["flushed"] < row["elements"] / 64 for row in run.health())
    # A rounding to E5M2 is off by a 20th (root mean square), one to E4M3 by a 41st. There are one
    # and three: together 0.065.
    assert np.linalg.norm(found - exact) < 0.075 * np.linalg.norm(exact)


def test_it_leaves_the_callers_arrays_and_other_state_alone() -> None:
    weights, x = arguments()
    given = jax.tree.map(jnp.array, weights)
    numerics = scalify.Numerics(scales=[-3, ZERO, 0])
    run = scalify.jit(step, HEAD, numerics=numerics)
    run(given, jnp.array(x))
    for name, value in given.items():
        np.testing.assert_array_equal(value, weights[name])
    once = [row["elements"] for row in run.health()]
    assert once == [row["elements"] for row in run.report().casts()]


def test_static_scales_and_casts_without_priors_are_not_calibrated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[int] = []
    move_scales = KeptState.move_scales

    def counted(self: KeptState, arrays: Any) -> None:
        runs.append(len(arrays))
        move_scales(self, arrays)

    monkeypatch.setattr(KeptState, "move_scales", counted)
    x = np.ones((8, 8), np.float32)
    plain = scalify.jit(lambda w, x: x @ w, HEAD)
    plain(x, x)
    assert not plain.report().prior_casts()
    assert not runs
    compiled("first-batch", np.array)
    assert runs
    runs.clear()
    run, _ = compiled("first-batch", np.array, cast_scales="static", health="off")
    assert not runs
    messages = [entry["message"] for entry in run.executable().diagnostics]
    assert any("the constant scales of" in message for message in messages)


def test_a_checkpoint_goes_on_by_its_scales() -> None:
    run, (params, _) = compiled("first-batch", np.array)
    state = run.state()
    copy = jax.tree.map(np.array, params)
    later = run(params, arguments()[1])[1]
    again, _ = compiled("first-batch", np.array)
    again.restore(state)
    assert again(copy, arguments()[1])[1] == later


def test_an_unknown_calibration_is_an_error() -> None:
    with pytest.raises(TypeError, match="'first-batch' or None"):
        scalify.Numerics(calibration="first")  # type: ignore[arg-type]


def test_what_compiles_a_step_early_changes_nothing() -> None:
    """Reports, dropped code and compiling ahead leave the first batch to calibrate."""
    exact = float(jax.jit(step)(*arguments())[1])
    options = scalify.Numerics(scales=[-3, ZERO, 0])

    def looked_at() -> Any:
        run = scalify.jit(step, HEAD, donate_argnums=0, numerics=options)
        run.report(*arguments())
        return run

    def dropped() -> Any:
        run = looked_at()
        run.recompile()
        return run

    def ahead() -> Any:
        return scalify.jit(step, HEAD, numerics=options).lower(*arguments()).compile()

    def interrupted() -> Any:
        run = looked_at()
        executable = run.executable(*arguments())
        move_scales = executable.move_scales

        def stop(inputs: Any) -> Any:
            executable.move_scales = move_scales
            raise KeyboardInterrupt

        executable.move_scales = stop
        with pytest.raises(KeyboardInterrupt):
            run(*arguments())
        return run

    for make in (looked_at, dropped, ahead, interrupted):
        assert float(make()(*arguments())[1]) == pytest.approx(exact, rel=0.02), make.__name__


@pytest.mark.parametrize("options", [{"health": "rescale"}, {"adaptive_scales": True}])
def test_scales_that_counts_move_are_calibrated_too(options: Any) -> None:
    exact = float(jax.jit(step)(*arguments())[1])
    _, (_, seen) = compiled("first-batch", np.array, **options)
    # A scale moves 8 binades a step at most, and three steps are not enough for all casts; the
    # weight's, which a prior puts 2^13 too low, is right after two.
    assert float(seen) == pytest.approx(exact, rel=0.05)


def test_arrays_of_our_own_calibrate() -> None:
    """Donated ones too: a trial takes nothing over."""
    exact = float(jax.jit(step)(*arguments())[1])
    _, (_, seen) = compiled("first-batch", _runtime.array)
    assert float(seen) == pytest.approx(exact, rel=0.02)


def test_a_step_that_calls_back_says_that_it_is_not_calibrated() -> None:
    def loud(p: Any, x: Any) -> Any:
        jax.debug.callback(lambda value: None, x[0, 0])
        return step(p, x)

    options = scalify.Numerics(scales=[-3, ZERO, 0])
    run = scalify.jit(loud, HEAD, numerics=options)
    run(*arguments())
    messages = [entry["message"] for entry in run.executable().diagnostics]
    assert any("the first batch does not calibrate them: it calls" in one for one in messages)


def whitened(x: Any) -> Any:
    """Newton's iterations (IterNorm), whose products the rules take to grow."""
    h = x - x.mean(0)
    covariance = h.T @ h / len(h) + 1e-3 * jnp.eye(32)
    trace = jnp.trace(covariance)
    root = jnp.eye(32)
    for _ in range(5):
        root = 0.5 * (3 * root - root @ root @ root @ (covariance / trace))
    return h @ root / jnp.sqrt(trace)


@pytest.mark.parametrize(("recipe", "bound"), [("fp8", 0.98), ("fp16", 0.9995)])
def test_iterations_that_converge_are_cast_by_what_the_first_step_sees(
    recipe: str, bound: float
) -> None:
    rng = np.random.default_rng(1)
    x, a, b = (
        rng.normal(0, size, shape).astype(np.float32)
        for size, shape in ((1, (64, 24)), (0.2, (24, 32)), (0.2, (32, 32)))
    )

    def loss(p: Any, x: Any) -> Any:
        h = jax.nn.relu(whitened(x @ p[0]))
        return jnp.mean((jax.nn.relu(whitened(h @ p[1])) - 0.5) ** 2)

    fn = jax.grad(loss)
    found, exact = (f((a, b), x) for f in (scalify.jit(fn, recipe=recipe), jax.jit(fn)))
    for ours, theirs in zip(map(np.asarray, found), map(np.asarray, exact), strict=True):
        cosine = np.vdot(ours, theirs) / np.linalg.norm(ours) / np.linalg.norm(theirs)
        assert cosine > bound
