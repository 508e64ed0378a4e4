"""Formats of dots are decided again as training moves the sizes of weights."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rank_threads import on_meshes

import scalify
from scalify import checkpoint
from scalify._jit_state import _labels as executable_labels
from scalify._kept import CARRIED_SCALES
from scalify._renewal import DotFormats, is_renewal_due
from scalify.mesh import Mesh
from scalify.numerics import cosine
from scalify.options import Distribution

WIDTH = 32


def loss(params: Any, x: Any, y: Any) -> Any:
    q, k, v = (x @ params[name] for name in "qkv")
    weights = jax.nn.softmax(q @ k.T, -1)
    h = jnp.tanh(weights @ v @ params["o"])
    return -jnp.mean(jax.nn.softmax(y) * jax.nn.log_softmax(h @ params["out"]))


def step(params: Any, x: Any, y: Any) -> Any:
    """Trains, and lets queries and keys grow by a fifth, as they do over long training."""
    value, gradient = jax.value_and_grad(loss)(params, x, y)
    params = jax.tree.map(lambda w, g: w - 1e-3 * g, params, gradient)
    return {name: w * 1.2 if name in "qk" else w for name, w in params.items()}, value


def arguments() -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Returns weights with which attention is diffuse, and a batch."""
    rng = np.random.default_rng(0)
    params = {
        name: rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32)
        for name in ("q", "k", "v", "o", "out")
    }
    params |= {name: 0.1 * params[name] for name in "qk"}
    x, y = (rng.normal(0, 1, (64, WIDTH)).astype(np.float32) for _ in range(2))
    return params, x, y


def formats(run: scalify.Jit) -> list[str]:
    return [row["format"] for row in run.report().dots()]


def train(run: scalify.Jit, params: Any, steps: int) -> Any:
    _, x, y = arguments()
    value = None
    with warnings.catch_warnings():
        # No other warning may come with it, such as of state that is lost.
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "'step' is compiled once more|(of )?cast ")
        for _ in range(steps):
            params, value = run(params, x, y)
    return params, value


def test_formats_are_those_of_a_compilation_for_the_sizes_of_now() -> None:
    run = scalify.jit(step, donate_argnums=0)
    params, x, y = arguments()
    for _ in range(19):
        params, _ = run(params, x, y)
    first = formats(run)
    with pytest.warns(UserWarning, match=r"compiled once more.*sizes have moved"):
        params, _ = run(params, x, y)
    fresh = scalify.jit(step)
    fresh(jax.tree.map(np.array, params), x, y)
    run(params, x, y)
    assert formats(run) == formats(fresh)
    assert formats(run) != first


@pytest.mark.parametrize(
    "numerics",
    [
        {"health": "off"},
        {"health": scalify.HealthPolicy("widen", flushed=1.0)},
        {"cast_scales": "static"},
        {"calibration": None},
    ],
    ids=str,
)
def test_formats_stay_where_the_user_wants_no_change(numerics: dict[str, Any]) -> None:
    run = scalify.jit(step, donate_argnums=0, numerics=scalify.Numerics(**numerics))
    params, _ = train(run, arguments()[0], 1)
    first = formats(run)
    train(run, params, 21)
    assert formats(run) == first
    # They hold from the start for weights that have grown, as those of an artefact.
    assert any("once weights have grown" in row["reason"] for row in run.report().dots())


def test_carried_scales_of_casts_that_remain_are_kept() -> None:
    run = scalify.jit(step, donate_argnums=0)
    params, _ = train(run, arguments()[0], 20)
    old, new = run.executable(), run.executable(params, *arguments()[1:])
    assert new is not old
    rows = [
        dict(
            zip(
                executable_labels(one)[CARRIED_SCALES],
                one.kept[CARRIED_SCALES].tolist(),
                strict=True,
            )
        )
        for one in (old, new)
    ]
    assert 0 < len(rows[1]) < len(rows[0])
    both = rows[0].keys() & rows[1].keys()
    assert {name: rows[1][name] for name in both} == {name: rows[0][name] for name in both}
    # Some have moved: predicted scales are zeros.
    assert any(rows[1][name] for name in both)


def test_a_resumed_run_decides_at_the_same_steps(tmp_path: pathlib.Path) -> None:
    whole = scalify.jit(step, donate_argnums=0)
    end, value = train(whole, arguments()[0], 45)
    for at in (19, 20, 33):
        run = scalify.jit(step, donate_argnums=0)
        params, _ = train(run, arguments()[0], at)
        checkpoint.save(tmp_path / str(at), params, at, jit=run)
        resumed = scalify.jit(step, donate_argnums=0)
        _, params = checkpoint.load(tmp_path / str(at), arguments()[0], jit=resumed)
        resumed_end, resumed_value = train(resumed, params, 45 - at)
        assert float(resumed_value) == float(value)
        for name, expected in end.items():
            np.testing.assert_array_equal(np.asarray(resumed_end[name]), np.asarray(expected))


def test_each_shape_has_formats_of_its_own() -> None:
    run = scalify.jit(step, donate_argnums=0)
    params, x, y = arguments()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(arguments()[0], x[:32], y[:32])
        params, _ = train(run, params, 21)
        renewed = formats(run)
        run(jax.tree.map(np.array, params), x[:32], y[:32])
        assert formats(run) != renewed
        for _ in range(18):
            run(jax.tree.map(np.array, params), x[:32], y[:32])
        run(params, x[:32], y[:32])
    assert formats(run) == renewed


def test_a_new_shape_starts_with_the_correction_of_the_last() -> None:
    run = scalify.jit(step)
    params, x, y = arguments()
    run(params, x, y)
    run._corrections.set(run._last_key, 12)
    run(params, x[:32], y[:32])
    assert run._corrections.of(run._last_key) == 12
    assert not any("f8" in name for name in formats(run))


def test_a_failed_renewal_loses_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("scalify._corrections.Corrections.renewal", fail)
    run = scalify.jit(step, donate_argnums=0)
    params, _ = train(run, arguments()[0], 19)
    first = formats(run)
    with pytest.warns(UserWarning, match=r"keeps its formats.*MemoryError: no room"):
        params, value = run(params, *arguments()[1:])
    assert np.isfinite(float(value)) and np.all(np.isfinite(params["q"]))
    train(run, params, 2)
    assert formats(run) == first


def test_a_warning_made_an_error_has_the_results_of_the_step() -> None:
    run = scalify.jit(step, donate_argnums=0)
    params, _ = train(run, arguments()[0], 19)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="compiled once more") as raised:
            run(params, *arguments()[1:])
    params, value = raised.value.results  # type: ignore[attr-defined]
    assert np.isfinite(float(value))
    train(run, params, 2)


def test_parameters_that_are_not_finite_keep_their_size() -> None:
    run = scalify.jit(step, donate_argnums=0)
    params, x, y = arguments()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(20):
            params, _ = run(params, np.full_like(x, np.nan), y)
        first = run.executable()
        run(params, x, y)
    assert run.executable() is first


@pytest.mark.parametrize("factor", [48, 64])
def test_values_beyond_a_format_are_looked_at_after_the_first_step(factor: int) -> None:
    """One row is 2^17 or 2^18 times the others, as of massive activations; a norm makes them alike.

    By the smaller factor amax scaling keeps enough of the others, and carried scales do not.
    """

    def massive(params: Any, x: Any, y: Any) -> Any:
        def value(params: Any) -> Any:
            w, v, head = params
            h = jnp.maximum(x @ w, 0) ** 3 @ v
            h = h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-9)
            return jnp.mean((h @ head - y) ** 2)

        loss, found = jax.value_and_grad(value)(params)
        return jax.tree.map(lambda w, g: w - 1e-6 * g, params, found), loss, found

    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(256, WIDTH)).astype(np.float32) for _ in range(2))
    x[0] *= factor
    params = tuple(rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32) for _ in range(3))
    exact = jax.jit(massive)(params, x, y)[2]
    run = scalify.jit(massive)
    with pytest.warns(UserWarning, match="compiled once more"):
        run(params, x, y)
    found = run(params, x, y)[2]
    for one, other in zip(found, exact, strict=True):
        # The bar of a worst tensor; with the formats of the first step one has 0.94 or 0.6.
        assert cosine([np.asarray(one)], [np.asarray(other)]) >= 0.95


def test_renewals_become_rarer() -> None:
    due = [steps for steps in range(1, 400) if is_renewal_due(steps, 20)]
    assert due == [20, 40, 60, 80, 100, 120, 140, 160, 180, 200, 220, 240, 260, 300, 320, 340, 380]
    early = [steps for steps in range(1, 20) if is_renewal_due(steps, 1)]
    assert early == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 19]


@pytest.mark.filterwarnings("ignore:'step' is compiled once more")
def test_ranks_decide_as_one_process_does() -> None:
    spec = jax.sharding.PartitionSpec("data")

    def run(mesh: Mesh) -> tuple[float, list[str], list[str]]:
        step_on = scalify.jit(
            step,
            distribution=mesh,
            in_shardings=(None, spec, spec),
            donate_argnums=0,
            numerics=scalify.Numerics(health=scalify.HealthPolicy("report", every=15)),
        )
        params, x, y = arguments()
        params, _ = step_on(params, x, y)
        first = formats(step_on)
        for _ in range(15):
            params, value = step_on(params, x, y)
        return float(np.asarray(value)), first, formats(step_on)

    alone = run(scalify.make_mesh(data=2))
    assert alone[1] != alone[2]
    for found in on_meshes({"data": 2}, run):
        assert found == alone


@pytest.mark.parametrize("recipe", ["none", "bf16", "fp8", "fp8-delayed", "fp8-block"])
def test_formats_are_decided_as_a_compilation_decides_them(recipe: str) -> None:
    run = scalify.jit(step, recipe)
    args = arguments()
    report = [row["format"].split(" -> ")[0] for row in run.executable(*args).report().dots()]
    bound = run._signature.bind(args, {})
    lowered = run._signature.lower(bound)
    options = run._compile_options(lowered, run._scales_for(bound))
    found = DotFormats(lowered.text, Distribution()).of(options, [0, 12])
    assert list(found[0]) == report
    run._options = run._options | {"noiseExponent": 12}
    run.clear_cache()
    wide = [row["format"].split(" -> ")[0] for row in run.executable(*args).report().dots()]
    assert list(found[1]) == wide
