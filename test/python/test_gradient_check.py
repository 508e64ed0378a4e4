"""Measured gradients correct the model that decides which dots are sensitive."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from rank_threads import on_meshes
from test_renewal import arguments, formats, loss, step, train

import scalify
from scalify._executable import compile_text
from scalify._gradient_check import (
    Excess,
    GradientCheck,
    _probe_options,
    _squares,
    excess,
    widened_for_small,
)
from scalify._renewal import DotFormats
from scalify.options import Distribution


def squares(*tensors: tuple[int, float, float]) -> list[list[float]]:
    """Returns rows of tensors given by elements, root mean square and relative error."""
    return [[count, count * size**2, count * (size * error) ** 2] for count, size, error in tensors]


def test_excess_is_over_the_limits() -> None:
    # The limits of a mean square are 0.08 for a tensor, and 0.04 for all together.
    assert excess(squares((10, 1.0, 0.2), (1000, 1.0, 0.0))) == pytest.approx(Excess(0.5))
    assert excess(squares((10, 1.0, 0.2))) == pytest.approx(Excess(1.0))


def test_small_tensors_count_apart_and_noise_does_not() -> None:
    tensors = squares((10, 1.0, 0.0), (10, 1e-4, 0.4), (10, 1e-7, 9.0))
    assert excess(tensors) == pytest.approx(Excess(0.16e-8 / 0.04, 2.0), rel=1e-3)


def test_gradients_that_are_zero_or_not_finite_have_no_excess() -> None:
    assert excess([]) is None
    assert excess(squares((4, 0.0, 0.0))) is None
    for row in ([4, math.nan, math.nan], [4, math.inf, math.nan]):
        assert excess([row]) is None
        assert excess([row, [4, 1.0, 0.0]]) is None
        assert excess([[4, 1.0, 0.0], row]) is None
    found = excess([[4, 1.0, math.nan]])
    assert found is not None and found.large == math.inf


def sharp() -> tuple[Any, ...]:
    """Returns arguments at which FP8 misses the limits, as attention is sharp."""
    params, x, y = arguments()
    return {name: 30 * w if name in "qk" else w for name, w in params.items()}, x, y


def check_of(args: tuple[Any, ...]) -> tuple[GradientCheck, dict[str, Any], list[np.ndarray]]:
    run = scalify.jit(step)
    bound = run._signature.bind(args, {})
    lowered = run._signature.lower(bound)
    options = run._compile_options(lowered, run._scales_for(bound))
    check = GradientCheck(lowered.text, 0, Distribution())
    return check, options, list(map(np.asarray, bound.leaves))


def chosen(options: dict[str, Any], correction: int, args: tuple[Any, ...]) -> scalify.Jit:
    """Returns the gradient by formats of a correction, with scales from amaxes."""
    recipe = scalify.Recipe.preset("fp8-current")
    run = scalify.jit(jax.grad(loss), recipe, numerics=scalify.Numerics(health="off"))
    run._options = run._options | {"noiseExponent": correction}
    run(*args)
    return run


def errors(run: scalify.Jit, args: tuple[Any, ...]) -> list[float]:
    exact = jax.tree.leaves(jax.grad(loss)(*args))
    found = jax.tree.leaves(run(*args))
    return [
        float(np.sum((np.asarray(a) - np.asarray(b)) ** 2) / np.sum(np.asarray(b) ** 2))
        for a, b in zip(found, exact, strict=True)
    ]


def test_formats_that_miss_the_limits_are_widened_until_they_hold() -> None:
    args = sharp()
    check, options, inputs = check_of(args)
    assert max(errors(chosen(options, -12, args), args)) > 0.08
    correction = check.corrected(options, options, inputs, -12)
    assert correction > -12
    assert max(errors(chosen(options, correction, args), args)) <= 0.08


def test_dots_return_to_fp8_where_gradients_do_not_need_more() -> None:
    args = arguments()
    check, options, inputs = check_of(args)
    wide = formats(chosen(options, 12, args))
    correction = check.corrected(options, options, inputs, 12)
    run = chosen(options, correction, args)
    assert sum("f8" in name for name in formats(run)) > sum("f8" in name for name in wide)
    assert max(errors(run, args)) <= 0.08


def test_a_check_that_only_widens_leaves_what_is_wide() -> None:
    args = arguments()
    check, options, inputs = check_of(args)
    assert check.corrected(options, options, inputs, 12, narrows=False) is None


def test_formats_that_hold_stay_whatever_sizes_predict() -> None:
    check, before, inputs = check_of(arguments())
    _, sharper, _ = check_of(sharp())
    after = chosen(sharper, 0, sharp())
    assert formats(after) != formats(chosen(before, 0, arguments()))
    assert check.corrected(before, sharper, inputs, 0) is None


def test_formats_with_larger_errors_do_not_replace_those_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All formats miss the limits: those for the sizes of now must not be worse."""
    check, before, inputs = check_of(sharp())
    _, now, _ = check_of(arguments())
    used = DotFormats(check._text, Distribution()).of(_probe_options(before), [0])[0]
    errors = iter([Excess(0.0), Excess(0.6), *[Excess(20.0)] * 20])
    monkeypatch.setattr(check, "_excess", lambda *_: next(errors))
    assert DotFormats(check._text, Distribution()).of(_probe_options(now), [0])[0] != used
    assert check.corrected(before, now, inputs, 0) is None


def test_a_check_without_memory_leaves_what_an_earlier_one_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check, before, inputs = check_of(arguments())
    assert check.corrected(before, before, inputs, 0) is None
    monkeypatch.setattr("scalify._gradient_check._available_bytes", lambda: 1000.0)
    assert check.corrected(before, before, inputs, 0) is None


def test_small_tensors_get_16_bits_and_only_where_these_help() -> None:
    formats = {0: ("f8",) * 4, 2: ("f8", "f8", "bf16", "bf16"), 4: ("bf16",) * 4, 6: ("f32 ",) * 4}
    others = {each: found for each, found in formats.items() if each}

    def measured(*small: float) -> Callable[[int], tuple[tuple[str, ...], Excess]]:
        errors = dict(zip(formats, small, strict=True))

        def measure(correction: int) -> tuple[tuple[str, ...], Excess]:
            asked.append(correction)
            return formats[correction], Excess(0.1, errors[correction])

        return measure

    asked: list[int] = []
    assert widened_for_small(measured(2.0, 1.9, 0.4, 0.0), others, 0) == 4
    assert widened_for_small(measured(2.0, 0.5, 0.4, 0.0), others, 0) == 2
    # Of formats without F32, none is run but those with most 16 bits.
    asked.clear()
    assert widened_for_small(measured(2.0, 1.9, 1.8, 0.0), others, 0) == 0
    assert set(asked) == {0, 4}


def test_a_correction_that_changes_no_format_stays() -> None:
    check, options, inputs = check_of(arguments())
    assert check.corrected(options, options, inputs, 0) is None


def test_a_step_without_gradients_is_not_corrected() -> None:
    run = scalify.jit(lambda x, w: x @ w)
    args = (np.ones((64, 64), np.float32), np.ones((64, 64), np.float32))
    bound = run._signature.bind(args, {})
    lowered = run._signature.lower(bound)
    options = run._compile_options(lowered, run._scales_for(bound))
    check = GradientCheck(lowered.text, 0, Distribution())
    assert check.corrected(options, options, bound.leaves, 4) == 4


def test_a_run_corrects_its_model_and_a_checkpoint_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scalify._renewal._FIRST_NARROWING", 4)
    numerics = scalify.Numerics(health=scalify.HealthPolicy("report", every=5))
    run = scalify.jit(step, donate_argnums=0, numerics=numerics)
    params, _ = train(run, arguments()[0], 19)
    run._corrections.set(run._last_key, 12)
    run.recompile()
    _, x, y = arguments()
    before = None
    for _ in range(2):
        params, _ = run(params, x, y)
        before = before or formats(run)
    assert sum("f8" in name for name in formats(run)) > sum("f8" in name for name in before)
    state = run.state()
    assert state is not None and state.correction < 12
    resumed = scalify.jit(step, donate_argnums=0, numerics=numerics)
    resumed.restore(state)
    resumed(jax.tree.map(np.array, params), x, y)
    assert formats(resumed) == formats(run)


def test_a_check_needs_memory_and_a_remark_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    args = sharp()
    check, options, inputs = check_of(args)
    monkeypatch.setattr("scalify._gradient_check._available_bytes", lambda: 1000.0)
    assert check.corrected(options, options, inputs, -12) == -12
    numerics = scalify.Numerics(health=scalify.HealthPolicy("report", every=1))
    run = scalify.jit(step, numerics=numerics)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            executable = run.executable(*args)
            run(*args)
    assert any("gradients are not measured" in row["message"] for row in executable.diagnostics)


def test_no_rank_waits_for_one_whose_check_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(exact: np.ndarray, found: np.ndarray) -> list[float]:
        if threading.current_thread() in second:
            raise MemoryError("no room")
        return _squares(exact, found)

    second: list[threading.Thread] = []
    monkeypatch.setattr("scalify._gradient_check._squares", fail)
    monkeypatch.setattr(GradientCheck, "_has_memory", lambda *_: True)
    spec = jax.sharding.PartitionSpec("data")
    numerics = scalify.Numerics(health=scalify.HealthPolicy("report", every=1))

    def run(mesh: scalify.Mesh) -> float:
        if mesh.rank == 1:
            second.append(threading.current_thread())
        step_on = scalify.jit(
            step, distribution=mesh, in_shardings=(None, spec, spec), numerics=numerics
        )
        params, x, y = arguments()
        for _ in range(5):
            params, value = step_on(params, x, y)
        return float(np.asarray(value))

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        values = on_meshes({"data": 2}, run)
    assert values[0] == values[1]
    kept = [str(each.message) for each in said if "keeps its formats" in str(each.message)]
    assert sorted("rank 1 failed: MemoryError" in text for text in kept) == [False, True]


def test_clear_cache_frees_the_programs_of_checks() -> None:
    numerics = scalify.Numerics(health=scalify.HealthPolicy("report", every=1))
    run = scalify.jit(step, numerics=numerics)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            run(*arguments())
    assert run._corrections._checks
    run.clear_cache()
    assert not run._corrections._checks


def test_what_else_a_loop_computes_is_no_gradient() -> None:
    """Losses and activations of micro-batches, and parameters that a loop updates, are none."""

    def summed(params: Any, xs: Any, ys: Any) -> Any:
        def one(total: Any, batch: Any) -> Any:
            gradient = jax.grad(loss)(params, *batch)
            return jax.tree.map(jax.numpy.add, total, gradient), batch[0] @ params["out"]

        zeros = jax.tree.map(jax.numpy.zeros_like, params)
        total, outputs = jax.lax.scan(one, zeros, (xs, ys))
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, total), outputs

    def steps(params: Any, xs: Any, ys: Any) -> Any:
        return jax.lax.scan(lambda now, batch: step(now, *batch), params, (xs, ys))

    params, x, y = arguments()
    args = params, np.stack([x, x]), np.stack([y, y])
    for function, count in ((summed, len(params)), (steps, 0)):
        run = scalify.jit(function)
        bound = run._signature.bind(args, {})
        text = run._signature.lower(bound).text
        options = {"recipe": "none", "returnGradients": True}
        assert len(compile_text(text, options).results) == count
