"""scalify.jit: against jax.jit, and against the same rewrite run by XLA."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import scalify

Tree = dict[str, Any]


def forward(params: Tree, x: Any) -> Any:
    hidden = jnp.tanh(x @ params["a"])
    hidden = hidden * jax.nn.sigmoid(hidden @ params["b"])
    return hidden @ params["c"]


def step(params: Tree, moments: Tree, x: Any, y: Any) -> tuple[Tree, Tree, Any]:
    def loss(params: Tree) -> Any:
        return jnp.mean((forward(params, x) - y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, grads)
    return jax.tree.map(lambda p, m: p - 0.1 * m, params, moments), moments, value


def state() -> tuple[Tree, Tree]:
    rng = np.random.default_rng(0)
    shapes = {"a": (64, 96), "b": (96, 96), "c": (96, 32)}
    params = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    return params, jax.tree.map(np.zeros_like, params)


def batches(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    shapes = ((16, 64), (16, 32))
    return [
        tuple(rng.normal(size=shape).astype(np.float32) for shape in shapes)  # type: ignore[misc]
        for _ in range(count)
    ]


def losses(run: Callable[..., Any], count: int) -> list[float]:
    params, moments = state()
    found = []
    for x, y in batches(count):
        params, moments, loss = run(params, moments, x, y)
        found.append(float(loss))
    return found


def test_recipe_none_follows_jax_over_20_steps() -> None:
    ours = losses(scalify.jit(step, recipe="none", donate_argnums=(0, 1)), 20)
    np.testing.assert_allclose(ours, losses(jax.jit(step), 20), rtol=1e-4)


def test_fp8_follows_the_same_rewrite_run_by_xla() -> None:
    params, moments = state()
    x, y = batches(1)[0]
    numerics = scalify.Numerics(scales=scalify.measure((params, moments, x, y)))
    options: dict[str, Any] = {"recipe": "fp8", "numerics": numerics, "donate_argnums": (0, 1)}
    ours = losses(scalify.jit(step, strict=True, **options), 10)
    np.testing.assert_allclose(ours, losses(scalify.transform(step, **options), 10), rtol=1e-3)
    assert ours != losses(jax.jit(step), 10)


def test_donated_state_stays_in_its_memory() -> None:
    run = scalify.jit(step, recipe="none", donate_argnums=(0, 1))
    given, moments = state()
    x, y = batches(1)[0]
    before = given["a"].copy()
    params, moments, _ = run(given, moments, x, y)
    np.testing.assert_array_equal(given["a"], before)
    assert isinstance(params["a"], jax.Array)

    def address(array: Any) -> int:
        return int(array.unsafe_buffer_pointer())

    first = {name: address(array) for name, array in params.items()}
    old = params
    for _ in range(3):
        params, moments, _ = run(params, moments, x, y)
    assert {name: address(array) for name, array in params.items()} == first
    assert old["a"].is_deleted()
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        run(old, moments, x, y)


def test_an_array_is_not_donated_and_read_at_once() -> None:
    run = scalify.jit(lambda a, b: (a + b, a * b), recipe="none", donate_argnums=0)
    x = np.ones(8, np.float32)
    array, _ = run(x, x)
    with pytest.raises(RuntimeError, match="previously donated in the same call"):
        run(array, array)
    assert run(array, x)[1].tolist() == [2.0] * 8


def test_what_goes_in_comes_out() -> None:
    run = scalify.jit(lambda x: {"y": x + 1}, recipe="none")
    assert isinstance(run(np.ones(3, np.float32))["y"], np.ndarray)
    assert isinstance(run(jnp.ones(3))["y"], jax.Array)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32, np.bool_])
def test_element_types(dtype: Any) -> None:
    x = np.arange(24).reshape(4, 6).astype(dtype)
    got = scalify.jit(lambda x: (x.T, jnp.where(x > 0, x, x)), recipe="none")(x)
    assert got[0].dtype == x.dtype
    np.testing.assert_array_equal(got[0], x.T)
    np.testing.assert_array_equal(got[1], x)


def test_wider_types_of_numpy_and_numbers_are_what_jax_makes_of_them() -> None:
    run = scalify.jit(lambda x, n: x * n, recipe="none")
    got = run(np.float64([1.5, 2.5]), 3)
    assert got.dtype == np.float32 and got.tolist() == [4.5, 7.5]
    assert run(np.float64([1.5, 2.5]), 4).tolist() == [6.0, 10.0]


def test_static_arguments_keywords_and_caching(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    original = scalify._compiler.compile

    def counted(text: str, options: str) -> Any:
        compiled.append(options)
        return original(text, options)

    monkeypatch.setattr(scalify._compiler, "compile", counted)

    def f(x: Any, repeat: int, *, sign: Any, double: bool = False) -> Any:
        for _ in range(repeat):
            x = x + sign
        return x * 2 if double else x

    run = scalify.jit(f, recipe="none", static_argnums=1, static_argnames=("double", "repeat"))
    x = np.zeros(3, np.float32)
    assert run(x, 2, sign=np.float32(1)).tolist() == [2.0] * 3
    assert run(x, repeat=2, sign=np.float32(1)).tolist() == [2.0] * 3
    assert run(x, 2, sign=np.float32(-1)).tolist() == [-2.0] * 3
    assert run(x, 3, sign=np.float32(1), double=True).tolist() == [6.0] * 3
    assert run(x[:2], 2, sign=np.float32(1)).tolist() == [2.0] * 2
    # The two ways to give `repeat` are two traces, as in JAX.
    assert len(compiled) == 4
    with pytest.raises(TypeError, match="hashable"):
        run(x, [2], sign=np.float32(1))


def test_scales_are_measured_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    original = scalify.measure

    def counted(tree: Any) -> Any:
        measured.append(tree)
        return original(tree)

    monkeypatch.setattr("scalify._jit.measure", counted)
    run = scalify.jit(step, recipe="fp8", donate_argnums=(0, 1))
    losses(run, 3)
    x, y = batches(1)[0]
    run(*state(), x[:8], y[:8])
    assert len(measured) == 1
    kept = run.scales()
    assert kept.exponents == original((*state(), *batches(1)[0])).exponents
    assert kept.names[0] == "params['a']"

    # Resuming with them gives the same bytes, whatever the values are by then.
    again = scalify.jit(
        step, recipe="fp8", numerics=scalify.Numerics(scales=kept), donate_argnums=(0, 1)
    )
    params = jax.tree.map(lambda p: p * 16, state()[0])
    first = run.lower(*state(), x, y).compile()
    assert again.lower(params, state()[1], x, y).compile()._artefact == first._artefact
    assert len(measured) == 1


def test_health_counts_what_saturates_and_what_is_flushed() -> None:
    recipe = '#scalify.recipe<"fp8", head = true>'
    x = np.ones((8, 16), np.float32)
    x[0, :3] = [1e5, -np.inf, 500]
    x[1, :2] = [1e-9, -1e-8]
    run = scalify.jit(lambda x, w: x @ w, recipe=recipe, numerics=scalify.Numerics(scales=[0, 0]))
    run(x, np.ones((16, 4), np.float32))
    found = {row["cast"].split(": ")[1]: row for row in run.health()}
    assert (found["x"]["saturated"], found["x"]["flushed"]) == (2, 2)
    assert (found["w"]["saturated"], found["w"]["flushed"]) == (0, 0)
    assert found["x"]["elements"] == 128 and found["x"]["format"] == "f8E4M3FN"
    assert (found["x"]["zeros"], found["x"]["nans"]) == (0, 1)
    # The counts are of the last step.
    run(np.ones_like(x), np.ones((16, 4), np.float32))
    assert all(row["saturated"] == row["flushed"] == 0 for row in run.health())


@pytest.mark.parametrize("recipe", ["fp8", "fp16", "bf16"])
def test_health_counts_zeros_and_nans(recipe: str) -> None:
    x = np.ones((5, 37), np.float32)
    x[0, :3] = [0, -0.0, np.nan]
    x[4, 36] = -np.nan
    w = np.zeros((37, 4), np.float32)
    text = f'#scalify.recipe<"{recipe}", head = true>'
    run = scalify.jit(
        lambda x, w: x @ w, recipe=text, numerics=scalify.Numerics(scales=[0, 0], health="report")
    )
    with pytest.warns(
        UserWarning, match=r"1 casts read NaN or infinities, first cast 'c0: x' .*: 2 of 185"
    ):
        run(x, w)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(x, w)  # Said once.
    found = {row["cast"].split(": ")[1]: row for row in run.health()}
    counts = ("saturated", "flushed", "zeros", "nans")
    assert tuple(found["x"][key] for key in counts) == (0, 0, 2, 2)
    assert tuple(found["w"][key] for key in counts) == (0, 0, 148, 0)


@pytest.mark.parametrize("scales", ["current", "propagated"])
def test_health_has_the_scale_of_each_cast_and_how_far_it_moved(scales: str) -> None:
    x = np.linspace(0.5, 1, 185, dtype=np.float32).reshape(5, 37)
    w = np.ones((37, 4), np.float32)
    text = f'#scalify.recipe<"fp8", head = true, scales = {scales}>'
    run = scalify.jit(lambda x, w: x @ w, recipe=text)

    def row() -> dict[str, Any]:
        return {row["cast"].split(": ")[1]: row for row in run.health()}["x"]

    run(x, w)
    first = row()
    assert first["moved"] == 0 and first["saturated"] == 0
    run(2.0**20 * x, w)
    if scales == "propagated":
        assert (row()["scale"], row()["moved"]) == (first["scale"], 0)
        assert row()["saturated"] == 185
        return
    # The scale puts the amax, 1, at 448 or within a binade below it.
    assert first["scale"] * (1 + 2**-7) >= 1 / 448
    assert first["scale"] <= 2 / 448
    assert row()["scale"] == 2.0**20 * first["scale"]
    assert (row()["moved"], row()["saturated"]) == (20, 0)
    run(0 * x, w)
    run(x, w)
    assert row()["scale"] == first["scale"]


def test_blocks_have_no_scale_of_the_cast() -> None:
    run = scalify.jit(
        lambda x, w: x @ w, recipe='#scalify.recipe<"fp8-block", head = true, sensitive = true>'
    )
    for factor in (1, 2.0**20):
        run(factor * np.ones((128, 256), np.float32), np.ones((256, 128), np.float32))
    assert run.health()
    assert all((row["scale"], row["moved"]) == (None, 0) for row in run.health())


def test_report_comes_with_the_artefact(tmp_path: Any) -> None:
    run = scalify.jit(step, recipe="fp8", report="full")
    with pytest.raises(RuntimeError, match="has not been called"):
        run.report()
    x, y = batches(1)[0]
    run(*state(), x, y)
    report = run.report()
    assert report.summary() == scalify.transform(step).report(*state(), x, y).summary()
    assert len(report.casts()) == len(run.health())
    report.save(tmp_path / "scales.html")
    run.executable().save(tmp_path / "step.scalify")
    assert list(scalify.load(tmp_path / "step.scalify").report()) == list(report)


def test_results_do_not_depend_on_threads() -> None:
    found = [losses(scalify.jit(step, recipe="fp8", threads=n), 3) for n in (1, 2, 3)]
    assert found[0] == found[1] == found[2]


def test_random_keys_go_in_and_come_out() -> None:
    run = scalify.jit(lambda key, x: (key, x + 1), recipe="none")
    key, x = run(jax.random.key(3), np.ones(2, np.float32))
    assert jax.random.key_data(key).tolist() == jax.random.key_data(jax.random.key(3)).tolist()
    assert x.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("numerics", "text"),
    [
        ({"wide": ["c0"]}, r"'c0' in wide= is not a WideCast"),
        ({"calibration": 3}, r"calibration=3: expected a Calibration"),
        ({"roles": 3}, r"roles=3: expected a mapping"),
    ],
)
def test_numerics_of_the_wrong_kind(numerics: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        scalify.Numerics(**numerics)


def test_an_unknown_cpu_is_an_error() -> None:
    with pytest.raises(scalify.CompileError, match=r"unknown CPU 'fast'.*x86-64-v3"):
        scalify.jit(lambda x: x @ x, mcpu="fast")(np.ones((8, 8), np.float32))
