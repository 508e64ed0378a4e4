"""The actions of health policies on casts that clip, and casts that are left wide."""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalify
from scalify import Numerics

HEAD = '#scalify.recipe<"fp8", head = true>'


def matmul(x: Any, w: Any) -> Any:
    return x @ w


def by_head(fn: Any, **numerics: Any) -> scalify.Jit:
    return scalify.jit(fn, HEAD, numerics=Numerics(**numerics))


def test_health_policy_reports_and_rescales() -> None:
    x = np.full((32, 32), 2.0**15, np.float32)
    w = np.ones((32, 32), np.float32)
    policy = scalify.HealthPolicy("report")
    fn = by_head(matmul, scales=[0, 0], health=policy)
    with pytest.warns(UserWarning, match=r"cast 'c0: x' to f8E4M3FN at .*1024 saturated"):
        fn(x, w)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fn(x, w)  # Said once.
        policy = scalify.HealthPolicy("rescale", every=2, at_once=1)
        fn = by_head(matmul, scales=[0, 0], health=policy, adaptive_scales=True)
        for _ in range(2):
            before = fn(x, w)
        assert fn.executable().cast_scales.tolist() == [256.0, 1.0]
        for _ in range(6):
            after = fn(x, w)
    assert float(before[0, 0]) == 32 * 448
    assert float(after[0, 0]) == 32 * 2.0**15
    with pytest.raises(ValueError, match="needs adaptive_scales"):
        scalify.jit(
            matmul, numerics=Numerics(health=scalify.HealthPolicy("rescale"), adaptive_scales=False)
        )
    fn = by_head(matmul, scales=[0, 0], health="rescale")
    fn(x, w)
    assert fn.executable().cast_scales.tolist() == [256.0, 1.0]
    with pytest.raises(ValueError, match="unknown action 'panic'"):
        scalify.HealthPolicy("panic")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected a share, 0 to 1"):
        scalify.HealthPolicy(at_once=1.5)


def test_a_step_without_a_policy_is_looked_at_every_20_steps() -> None:
    x, w = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32)
    x[0, 0] = 2.0**15  # of 1,024 values: below the limit
    fn = by_head(matmul, scales=[0, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(40):
            fn(x, w)
    x[0, 0] = np.nan
    with pytest.warns(UserWarning, match="1 casts read NaN or infinities, first cast 'c0: x'"):
        for _ in range(20):
            fn(x, w)
    x[0, :2] = 2.0**15
    quiet = by_head(matmul, scales=[0, 0], health="off")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20):
            quiet(x, w)
    constant = by_head(matmul, scales=[0, 0], cast_scales="static", adaptive_scales=False)
    with pytest.warns(UserWarning, match=r"cast 'c0: x'.* 2 saturated.*health='rescale'") as said:
        constant(x, w)
    assert said[0].filename == __file__
    assert constant.executable().cast_scales is None


def test_constant_scales_that_clip_are_left_for_scales_that_move() -> None:
    x, w = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32)
    x[0, :2] = 2.0**15  # 2 of 1,024 values, twice the limit
    policy = scalify.HealthPolicy("adapt", every=20)
    fn = by_head(matmul, scales=[0, 0], cast_scales="static", health=policy)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(19):
            before = fn(x, w)
    with pytest.warns(UserWarning, match=r"cast 'c0: x'.* 2 saturated.*compiled once more") as said:
        fn(x, w)
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(40):
            after = fn(x, w)
    assert float(before[0, 0]) == 2 * 448 + 30
    assert float(after[0, 0]) == 2.0**16 + 30
    scales = fn.executable().cast_scales
    assert scales is not None
    assert scales[0] >= 2.0**15 / 448


def test_packed_state_keeps_its_scales() -> None:
    adam = optax.adam(1e-3)
    recipe = scalify.Recipe.preset("fp8-lm-o2").replace(scales="propagated")

    def step(p: Any, state: Any, x: Any) -> tuple[Any, Any, Any]:
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(p)
        updates, state = adam.update(gradient, state, p)
        return optax.apply_updates(p, updates), state, loss

    policy = scalify.HealthPolicy("adapt")
    fn = scalify.jit(
        step,
        recipe,
        donate_argnums=(0, 1),
        numerics=Numerics(scales={}, cast_scales="static", health=policy),
    )
    p = np.ones((64, 64), np.float32)
    state = adam.init(p)
    with pytest.warns(UserWarning, match="saturated and .* became zero. health='rescale'"):
        for _ in range(3):
            p, state, _ = fn(p, state, np.full((64, 64), 2.0**20, np.float32))
    assert isinstance(p, scalify.ScaledArray)
    assert fn.executable().cast_scales is None


@pytest.mark.parametrize(
    ("recipe", "numerics", "advice"),
    [
        ("fp8", {"cast_scales": "static"}, "health='rescale'"),
        ("fp8", {}, "Its scale is carried"),
        ("fp8", {"adaptive_scales": True}, r"Jit\.rescale\(\) between"),
        ("fp8-delayed", {}, "A larger `margin`"),
    ],
)
def test_the_advice_fits_the_recipe(recipe: str, numerics: dict[str, Any], advice: str) -> None:
    x, w = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32)
    given = Numerics(scales=[0, 0], health="report", **numerics)
    fn = scalify.jit(matmul, recipe, numerics=given)
    with pytest.warns(UserWarning, match=f"saturated and 0 became zero. {advice}"):
        for step in range(3):
            fn(x * 2.0 ** (15 * step), w)


def two_matmuls(x: Any, w: Any, v: Any) -> tuple[Any, Any]:
    """Both products read w; the second is healthy."""
    return x @ w, v @ w


def sick_arguments() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(5)
    x, w, v = (rng.normal(size=(32, 32)).astype(np.float32) for _ in range(3))
    return 2.0**15 * x, w, v


def dots(report: Any) -> list[str]:
    return [row["reason"] for row in report if row["op"] == "dot_general"]


def test_a_cast_that_stays_sick_is_left_wide_at_the_next_compile() -> None:
    x, w, v = sick_arguments()
    want = x.astype(np.float64) @ w
    policy = scalify.HealthPolicy("widen", every=2, patience=3)
    fn = by_head(two_matmuls, scales=[0, 0, 0], cast_scales="static", health=policy)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            fn(x, w, v)
        # A healthy step between starts the count anew.
        for scale in (0, 0, 1, 1, 1, 1, 1):
            fn(x * np.float32(scale), w, v)
        assert fn.widened() == ()
    with pytest.warns(UserWarning, match=r"of cast 'c\d: x'.* saturated at 3 checks in a row"):
        before, _ = fn(x, w, v)
    (cast,) = fn.widened()
    assert re.fullmatch(r"c\d: x", cast.cast) and cast.elements == 32 * 32
    # Until it is compiled anew nothing changes.
    first = fn.executable()
    again, _ = fn(x, w, v)
    assert fn.executable() is first and np.array_equal(before, again)
    fn.recompile()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after, healthy = fn(x, w, v)
    assert fn.executable() is not first
    np.testing.assert_allclose(after, want, rtol=1e-4, atol=1e-3 * np.abs(want).max())
    assert np.linalg.norm(before - want) > 0.5 * np.linalg.norm(want)
    # The other dot, which shares w, stays narrow, and its casts keep their names.
    assert 0 < np.linalg.norm(healthy - v @ w) < 0.1 * np.linalg.norm(healthy)
    names = [[row["cast"] for row in exe.report().casts()] for exe in (first, fn.executable())]
    assert {*names[1]} == {*names[0]} - {cast.cast} and len(names[1]) == 2
    (reason,) = (reason for reason in dots(fn.report()) if "health" in reason)
    assert reason.startswith(f"stays wide: health: of cast '{cast.cast}', ")
    assert re.search(r"\d % of the values saturated", reason)
    messages = [remark["message"] for remark in fn.executable().diagnostics]
    assert any("dot stays wide: health" in message for message in messages)


def test_what_is_widened_is_kept_for_other_compilations() -> None:
    x, w, v = sick_arguments()
    fn = by_head(two_matmuls, scales=[0, 0, 0], cast_scales="static", health="widen")
    with pytest.warns(UserWarning, match="at 3 checks in a row"):
        for _ in range(3):
            fn(x, w, v)
    kept = [scalify.WideCast(**json.loads(json.dumps(dataclasses.asdict(c)))) for c in fn.widened()]
    fn.recompile()
    want, _ = fn(x, w, v)
    other = by_head(two_matmuls, scales=[0, 0, 0], wide=kept)
    np.testing.assert_array_equal(other(x, w, v)[0], want)
    got, _ = scalify.transform(
        two_matmuls, recipe=HEAD, numerics=Numerics(scales=[0, 0, 0], wide=kept)
    )(x, w, v)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
    # With a calibration of the program as it was before.
    calibration = scalify.calibrate(two_matmuls, x, w, v, recipe=HEAD, scales=[0, 0, 0])
    fn = by_head(two_matmuls, calibration=calibration, wide=kept)
    fn(x, w, v)
    exponents = {cast.cast: cast.exponent for cast in calibration.casts}
    assert len(fn.report().casts()) == len(exponents) - 1 == 2
    assert all(row["scale"] == exponents[row["cast"]] for row in fn.report().casts())
    # A second cast of the program that has one wide already.
    twice = [*kept, scalify.WideCast.of(scalify_row(fn, ": v"))]
    both = by_head(two_matmuls, scales=[0, 0, 0], wide=twice)
    np.testing.assert_array_equal(both(x, w, v)[1], scalify.jit(two_matmuls, "none")(x, w, v)[1])
    assert not both.report().casts()
    with pytest.raises(scalify.CompileError, match=r"has no cast 'c\d: x' of 1024 elements"):
        by_head(matmul, scales=[0, 0], wide=kept)(x[:16], w)


def scalify_row(fn: Any, name: str) -> dict[str, Any]:
    (row,) = (row for row in fn.health() if row["cast"].endswith(name))
    return row


def test_moved_scales_survive_a_new_compilation() -> None:
    x, w, v = sick_arguments()
    fn = by_head(two_matmuls, scales=[0, 0, 0], health="rescale")
    for _ in range(5):
        moved = fn(x, w, v)
    scales = fn.executable().cast_scales
    assert max(scales) > 1
    fn.recompile()
    again = fn(x, w, v)
    for a, b in zip(again, moved, strict=True):
        np.testing.assert_array_equal(a, b)


def test_scales_that_steps_move_survive_that_a_cast_is_widened() -> None:
    """By cast: the steps carry them, and casts that are left wide have none."""
    x, w, v = sick_arguments()
    fn = by_head(two_matmuls, health="widen")
    fn(x, w, v)
    # No scale keeps all of x. v grows by more than FP8 has, so that its scale moves.
    x = np.where(np.arange(32) < 24, np.float32(2.0**-30), np.float32(1)) * np.ones_like(x)
    with pytest.warns(UserWarning, match=r"of cast 'c\d: x'.* became zero at 3 checks in a row"):
        for factor in (1, 2**10, 2**20, 2**20):
            fn(x, w, v * np.float32(factor))

    def carried() -> Any:
        ((rows, array),) = (
            (rows, fn.state().arrays[name])
            for name, rows in fn.state().labels.items()
            if name != "counters"
        )
        return dict(zip(rows, array, strict=True))

    before = carried()
    fn.recompile()
    # An array of zeros moves nothing.
    fn(x, w, np.zeros_like(v))
    after = carried()
    assert len(after) == len(before) - 1
    assert after == {name: before[name] for name in after}
    assert max(after.values()) >= 2.0**10


def test_saved_values_and_state_stay_wide_too() -> None:
    def step(params: Any, x: Any) -> tuple[Any, Any]:
        def loss(p: Any) -> Any:
            return jnp.mean(jnp.exp(x @ p) ** 2)

        value, grad = jax.value_and_grad(loss)(params)
        return params - 2.0**30 * grad, value

    rng = np.random.default_rng(6)
    params = rng.normal(0, 0.1, (32, 16)).astype(np.float32)
    x = rng.normal(size=(64, 32)).astype(np.float32)
    recipe = '#scalify.recipe<"fp16", head = true>'

    def make(**numerics: Any) -> scalify.Jit:
        given = Numerics(scales=[-3, 0], **numerics)
        return scalify.jit(step, recipe, numerics=given, donate_argnums=0)

    fn = make(health="widen")
    with pytest.warns(UserWarning, match="at 3 checks in a row"):
        for _ in range(3):
            fn(params, x)
    wide = fn.widened()
    state = {row["cast"] for row in fn.report().casts() if row["reason"].startswith("state")}
    assert state & {cast.cast for cast in wide}
    got, _ = make(wide=wide)(params, x)
    assert np.abs(np.asarray(got)).max() > 2.0 * 65504 * 2.0**-3
    # Every cast of the program may be left wide; then it is the program in F32.
    everything = [scalify.WideCast.of(row) for row in fn.health()]
    exact = scalify.jit(step, "none", donate_argnums=0)
    for a, b in zip(make(wide=everything)(params, x), exact(params, x), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
