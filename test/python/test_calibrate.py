"""scalify.calibrate: measured scales of casts, kept, loaded, and refused by another program."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify
from scalify import _compiler

HEAD = '#scalify.recipe<"fp8", head = true, sensitive = false>'


def loss(params: Any, x: Any) -> Any:
    # The rules cannot know that the mean of |cos| of large numbers is not that of its input.
    hidden = jnp.cos(x @ params["a"]) * 2.0**-12
    return jnp.mean((hidden @ params["b"]) ** 2)


def step(params: Any, x: Any) -> Any:
    value, grads = jax.value_and_grad(loss)(params, x)
    return grads, value


def arguments() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    params = {
        "a": rng.normal(0, 3.0, (32, 48)).astype(np.float32),
        "b": rng.normal(0, 2.0**-8, (48, 16)).astype(np.float32),
    }
    return params, rng.normal(0, 50, (64, 32)).astype(np.float32)


def drift(row: dict[str, Any]) -> float:
    wide = row["value"].astype(np.float64)
    return float(np.log2(np.sqrt(np.mean(wide * wide)) / row["scale"]))


def test_scales_are_the_root_mean_squares_that_the_probe_sees() -> None:
    args = arguments()
    calibration = scalify.calibrate(step, *args, recipe=HEAD)
    rows = scalify.probe(step, HEAD)(*args)
    assert [cast.cast for cast in calibration.casts] == [row["name"] for row in rows]
    for cast, row in zip(calibration.casts, rows, strict=True):
        wide = row["value"].astype(np.float64)
        rms = np.sqrt(np.mean(wide * wide))
        largest = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}[row["format"]]
        assert cast.elements == wide.size
        assert np.abs(wide).max() <= largest * 2.0**cast.exponent
        nearest = np.log2(rms)
        assert cast.exponent == max(
            np.floor(nearest + 0.5), np.ceil(np.log2(np.abs(wide).max() / largest))
        )


@pytest.mark.parametrize("make", [scalify.jit, scalify.transform], ids=["jit", "transform"])
def test_a_step_takes_its_calibration(make: Any) -> None:
    args = arguments()
    # Scales that are off by far: the calibration makes up for them.
    off = [12, -20, -20]
    calibration = scalify.calibrate(step, *args, recipe=HEAD, scales=off)
    want = {k: np.asarray(v, np.float64) for k, v in step(*args)[0].items()}
    errors = {}
    for name, given in (("off", None), ("calibrated", calibration)):
        numerics = scalify.Numerics(scales=off, calibration=given)
        fn = make(step, recipe=HEAD, numerics=numerics)
        grads = {k: np.asarray(v, np.float64) for k, v in fn(*args)[0].items()}
        errors[name] = max(
            np.linalg.norm(grads[k] - want[k]) / np.linalg.norm(want[k]) for k in "ab"
        )
        report = fn.report()
    assert [row["scale"] for row in report.casts()] == [c.exponent for c in calibration.casts]
    assert any("calibrated" in row["reason"] for row in report.casts())
    # The cosine of large numbers turns errors of E4M3 into noise, so only the order is asserted.
    assert errors["calibrated"] < errors["off"]


def test_a_calibration_is_kept_in_a_file(tmp_path: Any) -> None:
    args = arguments()
    made = scalify.jit(step, recipe=HEAD)
    calibration = scalify.calibrate(made, *args)
    assert calibration.recipe == HEAD
    calibration.save(tmp_path / "calibration.json")
    loaded = scalify.Calibration.load(tmp_path / "calibration.json")
    assert loaded == calibration
    texts = {
        scalify.transform(step, recipe=HEAD, numerics=scalify.Numerics(calibration=given)).text(
            *args
        )
        for given in (calibration, loaded)
    }
    assert len(texts) == 1
    (tmp_path / "other.json").write_text('{"recipe": "fp8"}')
    with pytest.raises(ValueError, match="does not hold a calibration"):
        scalify.Calibration.load(tmp_path / "other.json")


def test_another_program_is_refused() -> None:
    params, x = arguments()
    calibration = scalify.calibrate(step, params, x, recipe=HEAD)

    def other(params: Any, x: Any) -> Any:
        return step(params, jnp.tanh(x))

    with pytest.raises(scalify.CompileError, match="calibrate this program, by this recipe"):
        scalify.transform(other, recipe=HEAD, numerics=scalify.Numerics(calibration=calibration))(
            params, x
        )
    with pytest.raises(scalify.CompileError, match="calibrate this program, by this recipe"):
        scalify.transform(step, recipe=HEAD, numerics=scalify.Numerics(calibration=calibration))(
            params, x[:32]
        )
    with pytest.raises(ValueError, match="calibration by recipe"):
        scalify.transform(step, recipe="fp8", numerics=scalify.Numerics(calibration=calibration))


def test_values_that_say_nothing_keep_the_propagated_scale() -> None:
    def matmul(x: Any, w: Any) -> Any:
        return x @ w

    w = np.ones((8, 8), np.float32)
    for x in (np.zeros((8, 8), np.float32), np.full((8, 8), np.nan, np.float32)):
        calibration = scalify.calibrate(matmul, x, w, recipe=HEAD, scales=[3, 0])
        exponents = {cast.cast: cast.exponent for cast in calibration.casts}
        assert exponents == {"c0: x": 3, "c1: w": 0}


def branch(x: Any, w: Any) -> Any:
    return jax.lax.cond(x[0, 0] > 100, lambda: jnp.tanh(x) @ w, lambda: jnp.tanh(x))


def condition(x: Any, w: Any) -> Any:
    def goes_on(carry: Any) -> Any:
        return (carry[0] < 3) & (jnp.sum(jnp.tanh(carry[1]) @ w) < 100)

    return jax.lax.while_loop(goes_on, lambda c: (c[0] + 1, jnp.sin(c[1]) @ w), (0, x))


def scan(x: Any, w: Any) -> Any:
    return jax.lax.scan(lambda c, _: (jnp.tanh(c) @ w, None), x, length=5)[0]


def infinite(x: Any, w: Any) -> Any:
    return (1 / x) @ w


@pytest.mark.parametrize("fn", [branch, condition, scan, infinite], ids=lambda f: f.__name__)
def test_a_program_takes_its_calibration_back(fn: Any) -> None:
    rng = np.random.default_rng(1)
    x, w = (rng.normal(0, 0.5, (8, 8)).astype(np.float32) for _ in range(2))
    x[0] = 0
    calibration = scalify.calibrate(fn, x, w, recipe=HEAD)
    step = scalify.transform(fn, recipe=HEAD, numerics=scalify.Numerics(calibration=calibration))
    step(x, w)
    rows = step.report().casts()
    assert rows and all(row["rule"] == "calibrated: measured" for row in rows)
    if fn is infinite:
        wide = 1 / x[1:].astype(np.float64)
        by_cast = {cast.cast: cast.exponent for cast in calibration.casts}
        rms = np.sqrt(np.mean(wide * wide))
        assert by_cast["c0: divide"] == np.floor(np.log2(rms) + 0.5)


def test_proofs_and_reasons_are_of_the_scales_that_were_measured() -> None:
    def matmul(x: Any, w: Any) -> Any:
        return x @ w

    x, w = np.full((8, 8), 2.0**-9, np.float32), np.ones((8, 8), np.float32)
    text = jax.jit(matmul).lower(x, w).as_text(debug_info=True)
    casts = scalify.calibrate(matmul, x, w, recipe=HEAD).options(HEAD)
    options = {"recipe": HEAD, "ranges": [{"max": 32.0}, {"max": 100.0}], "declaredScales": True}

    def ranges(given: list[dict[str, Any]]) -> dict[str, str]:
        options["castScales"] = given
        full = json.loads(_compiler.report(text, json.dumps(options)))["rows"]
        brief = json.loads(_compiler.transform(text, json.dumps(options))[1])
        for row in full + brief:
            if row["op"] == "quantize":
                assert ("calibrated" in row.get("rule", row.get("reason"))) == bool(given)
        found = {row["cast"]: row["range"] for row in full if row.get("cast")}
        assert found == {row["cast"]: row["range"] for row in brief if row.get("cast")}
        return {cast[4:]: text.split(", assuming")[0] for cast, text in found.items()}

    assert ranges([]) == {
        "x": "proved: |x| <= 32, data up to 32 of 448",
        "w": "proved: |x| <= 100, data up to 100 of 448",
    }
    assert ranges(casts) == {
        "x": "unproved: |x| <= 32, data up to 1.638e+04 in f8E4M3FN at scale 2^-9",
        "w": "proved: |x| <= 100, data up to 100 of 448",
    }


def layer(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


FORMS: dict[str, Any] = {
    "jit": lambda x, w: jax.jit(layer)(jax.jit(layer)(x, w), w).sum(),
    "grad": jax.grad(lambda x, w: layer(layer(x, w), w).sum(), (0, 1)),
    "vmap": lambda x, w: jax.vmap(layer, (0, None))(x[:, None], w).sum(),
    "scan": lambda x, w: jax.lax.scan(lambda c, _: (layer(c, w), None), x, None, length=3)[0].sum(),
    "remat": jax.grad(lambda x, w: jax.checkpoint(layer)(layer(x, w), w).sum(), (0, 1)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_calibration_survives_the_transformations_of_jax(form: str) -> None:
    """Under each of them the measured scales are those of the probe, and reach the casts."""
    rng = np.random.default_rng(3)
    x = (300 * rng.normal(size=(16, 32))).astype(np.float32)
    w = (rng.normal(size=(32, 32)) / 64).astype(np.float32)
    fn, scales = FORMS[form], [-8, 5]  # off by far, so that measured ones differ
    calibration = scalify.calibrate(fn, x, w, recipe=HEAD, scales=scales)
    made = scalify.transform(
        fn, recipe=HEAD, numerics=scalify.Numerics(scales=scales, calibration=calibration)
    )
    made(x, w)
    rows = made.report().casts()
    assert rows and [row["scale"] for row in rows] == [c.exponent for c in calibration.casts]
    plain = scalify.transform(fn, recipe=HEAD, numerics=scalify.Numerics(scales=scales))
    plain(x, w)
    assert [row["scale"] for row in plain.report().casts()] != [row["scale"] for row in rows]
    for row, probed in zip(rows, scalify.probe(fn, HEAD, scales=scales)(x, w), strict=True):
        wide = probed["value"].astype(np.float64)
        assert row["cast"] == probed["name"] and wide.any()
        rms = np.log2(np.sqrt(np.mean(wide**2)))
        assert row["scale"] >= np.floor(rms + 0.5)
        assert row["scale"] <= max(np.floor(rms + 0.5), np.ceil(np.log2(np.abs(wide).max() / 448)))
