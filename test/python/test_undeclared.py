"""Arguments without a declared scale: each step measures them, on every path, against F32."""

from __future__ import annotations

import itertools
import pathlib
import warnings
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from undeclared_models import Form, compare, gradients, init, tokens

import scalify

# The bars of gradients at initialisation: all together, and the worst matrix or gain.
ALL, WORST = 0.98, 0.95
# What gradients lose to scales that are measured beforehand.
BESIDE_MEASURED = 0.003


@pytest.fixture(scope="module")
def exact() -> Any:
    return jax.jit(gradients("scan"))(init(), tokens())


def undeclared(form: Form, recipe: str = "fp8") -> Any:
    """The usual case: under jax.jit, where there are no values."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* traced without values")
        step = jax.jit(scalify.transform(gradients(form), recipe))
        return step(init(), tokens())


@pytest.mark.parametrize("form", ["unrolled", "scan", "scan_remat"])
def test_gradients_of_twelve_layers_under_jit(form: Form, exact: Any) -> None:
    together, worst = compare(undeclared(form), exact)
    assert together >= ALL
    assert worst >= WORST
    if form == "scan":
        known = scalify.transform(
            gradients(form), numerics=scalify.Numerics(scales=scalify.measure((init(), tokens())))
        )
        best = compare(known(init(), tokens()), exact)
        assert together >= best[0] - BESIDE_MEASURED
        assert worst >= best[1] - BESIDE_MEASURED


def test_fp16_of_a_scanned_step(exact: Any) -> None:
    together, worst = compare(undeclared("scan", "fp16"), exact)
    # F16 has 11 bits: what is left of the error is that of E4M3 divided by 2^7.
    assert together >= 0.9999
    assert worst >= 0.999


def test_an_exported_step_measures_wherever_it_runs(exact: Any) -> None:
    args = init(), tokens()
    types = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), args)
    with pytest.warns(UserWarning, match="each step measures 10 of its arguments"):
        exported = jax.export.export(jax.jit(scalify.transform(gradients("scan"))))(*types)
    again = jax.export.deserialize(exported.serialize())
    together, worst = compare(again.call(*args), exact)
    assert together >= ALL
    assert worst >= WORST


def test_compile_measures_at_the_first_call(tmp_path: pathlib.Path, exact: Any) -> None:
    args = init(), tokens()
    leaves = jax.tree.leaves(args)
    text = jax.jit(gradients("scan")).lower(*args).as_text(debug_info=True)
    # An artefact's formats stay for all of training, and jit decides again: here both cast all.
    recipe = scalify.Recipe.preset("fp8").replace(sensitive=True)
    step = scalify.compile(text, recipe)
    assert len(step.report().measured_arguments()) == 10
    assert "10 arguments measured in each step" in step.report().summary()
    step.save(tmp_path / "before.scalify")
    grads = jax.tree.unflatten(jax.tree.structure(args[0]), step(*leaves))
    assert not step.report().measured_arguments()
    assert step.scales.exponents == scalify.measure(args).exponents
    # Then it is what jit makes of the values, to the bit.
    wanted = scalify.jit(gradients("scan"), recipe)(*args)
    for own, other in zip(jax.tree.leaves(grads), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(own, other)
    # One that was saved before, as scalify-compile leaves it, measures in each step.
    loaded = scalify.load(tmp_path / "before.scalify")
    together, worst = compare(loaded(*leaves), exact)
    assert together >= ALL
    assert worst >= WORST


@pytest.mark.parametrize("recipe", ["fp8-current", "fp8-delayed", "fp8-block", "fp8-lm-o2", "bf16"])
def test_compile_takes_sizes_at_the_first_call_though_nothing_is_measured(recipe: str) -> None:
    """Formats and first scales follow from sizes also where casts need no argument's scale."""
    args = init(), tokens()
    text = jax.jit(gradients("scan")).lower(*args).as_text(debug_info=True)
    step = scalify.compile(text, recipe)
    assert not step.report().measured_arguments()
    step(*jax.tree.leaves(args))
    numerics = scalify.Numerics(scales=scalify.measure(args))
    assert (
        step.manifest["hash"] == scalify.compile(text, recipe, numerics=numerics).manifest["hash"]
    )


def perceptron(params: dict[str, Any], x: Any) -> Any:
    """Functions and sums of measured values: a bias, tanh, softplus, a quotient, a residual."""
    h = jnp.tanh(x @ params["a"] + params["bias"])
    h = jax.nn.softplus(h @ params["b"]) + h
    h = h / (jnp.abs(h) + jnp.exp(params["log"]))
    return jnp.mean(jnp.square(h @ params["c"]))


@pytest.mark.parametrize(("size", "inputs"), [(2.0**-12, 0.01), (2.0**-12, 100.0), (1.0, 0.01)])
def test_sizes_far_from_what_was_predicted(size: float, inputs: float) -> None:
    rng = np.random.default_rng(3)
    width = 64

    def normal(rms: float, *shape: int) -> np.ndarray:
        return rng.normal(0, rms, shape).astype(np.float32)

    params = {
        "a": normal(size / 8, width, width),
        "b": normal(size / 8, width, width),
        "c": normal(size / 8, width, width),
        "bias": np.zeros(width, np.float32),
        "log": normal(1, width),
    }
    x = normal(inputs, 32, width)
    grads = jax.grad(perceptron)
    wanted = jax.jit(grads)(params, x)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* traced without values")
        own = jax.jit(scalify.transform(grads, '#scalify.recipe<"mine", head = true>'))(params, x)
    for name in params:
        a, b = np.ravel(own[name]), np.ravel(wanted[name])
        # Beyond what F32 holds of a gradient nothing is compared.
        if np.linalg.norm(b) > 1e-30:
            assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > WORST, name


def aligned_gates() -> tuple[Any, Any]:
    """Parameters and inputs: gates that have learned one direction."""
    rng = np.random.default_rng(4)
    width, hidden = 64, 128

    def normal(rms: float, *shape: int) -> np.ndarray:
        return rng.normal(0, rms, shape).astype(np.float32)

    direction = normal(1, width)
    aligned = np.outer(direction, normal(1, hidden))
    params = {
        "gate": aligned + normal(0.01, width, hidden),
        "up": aligned + normal(0.01, width, hidden),
        "down": normal(0.1, hidden, width),
        "head": normal(0.1, width, width),
    }
    return params, normal(1, 64, width) + np.outer(normal(3, 64), direction)


def aligned_loss(params: Any, x: Any) -> Any:
    x = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True))
    y = (jax.nn.silu(x @ params["gate"]) * (x @ params["up"])) @ params["down"]
    y = y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True))
    return jnp.mean(jnp.square(y @ params["head"]) * jnp.cos(jnp.arange(64)))


def looped_loss(params: Any, x: Any) -> Any:
    """The same on two halves of a batch, one after the other."""
    return jnp.mean(jax.lax.map(lambda part: aligned_loss(params, part), x.reshape(2, 32, 64)))


def test_a_product_that_outgrows_its_prediction() -> None:
    """The scale predicted for independent weights clips where gates are aligned."""
    params, x = aligned_gates()
    wanted = jax.jit(jax.grad(aligned_loss))(params, x)

    def cosines(recipe: str) -> tuple[float, float]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* traced without values")
            own = jax.jit(scalify.transform(jax.grad(aligned_loss), recipe))(params, x)
        return compare(own, wanted)

    # As near as scales by each cast's own amax come.
    for own, current in zip(cosines("fp8"), cosines("fp8-current"), strict=True):
        assert own >= current - BESIDE_MEASURED


@pytest.mark.parametrize("loss", [aligned_loss, looped_loss])
def test_an_artefact_without_values_moves_its_scales(tmp_path: pathlib.Path, loss: Any) -> None:
    """By a factor measured from arguments, which does not bound their products."""
    params, x = aligned_gates()
    grads = jax.grad(loss)
    wanted = jax.jit(grads)(params, x)
    leaves, tree = jax.tree.flatten(params)
    text = jax.jit(grads).lower(params, x).as_text(debug_info=True)
    with pytest.warns(UserWarning, match="the step measures 5 arguments"):
        compiled = scalify.compile(text, "fp8")
    # BF16, as of the head, needs no scale that moves.
    casts = [row for row in compiled.report().casts() if row["format"].startswith("f8")]
    assert {row["scaling"] for row in casts} == {"carried"}
    compiled.save(tmp_path / "step.scalify")
    step = scalify.load(tmp_path / "step.scalify")
    current = compare(
        scalify.jit(grads, "fp8-current", numerics=scalify.Numerics(health="off"))(params, x),
        wanted,
    )

    def is_near() -> bool:
        own = compare(jax.tree.unflatten(tree, step(*leaves, x)), wanted)
        return all(a >= b - BESIDE_MEASURED for a, b in zip(own, current, strict=True))

    assert not is_near()  # the prediction
    assert is_near()
    # In the forward the factors stay where all weights are eight times as large.
    forward = [row["phase"] == "forward" for row in casts]
    factors = step.kept["scalify.carried_scales"][forward]
    assert (factors < 0).any()
    step(*(8 * leaf for leaf in leaves), x)
    np.testing.assert_array_equal(step.kept["scalify.carried_scales"][forward], factors)


def test_declared_scales_are_demanded_by_strict_alone() -> None:
    text = (
        jax.jit(lambda x, w: x @ w)
        .lower(np.ones((8, 8), np.float32), np.ones((8, 8), np.float32))
        .as_text()
    )
    recipe = '#scalify.recipe<"mine", head = true>'
    assert scalify.compile(text, recipe, strict=True).report().measured_arguments()
    loose = scalify.compile(text, recipe, numerics=scalify.Numerics(scales="declared"))
    assert not loose.report().measured_arguments()
    with pytest.raises(scalify.CompileError, match="argument 0 of 'main' has no declared scale"):
        scalify.compile(text, recipe, strict=True, numerics=scalify.Numerics(scales="declared"))
    with pytest.raises(ValueError, match="'declared'"):
        scalify.compile(text, recipe, numerics=scalify.Numerics(scales="given"))


@pytest.mark.parametrize("exponent", [-10, -3, 0, 5, 10])
def test_a_gelu_by_erf_of_any_size(exponent: int) -> None:
    """A written-out erfc has a polynomial for small arguments, whose size at others counts for
    nothing."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(64, 128)).astype(np.float32) * np.float32(2.0**exponent)
    b = rng.normal(size=(128, 64)).astype(np.float32)
    x = rng.normal(size=(16, 64)).astype(np.float32)

    def loss(a: Any, b: Any, x: Any) -> Any:
        return jnp.sum(jax.nn.gelu(x @ a, approximate=False) @ b)

    step = jax.grad(loss, argnums=(0, 1))
    # In BF16, x @ a would move by more than the width of the GELU.
    static = scalify.Numerics(cast_scales="static")
    got = jax.jit(scalify.transform(step, scalify.Recipe(head=False), numerics=static))(a, b, x)
    for g, w in zip(got, step(a, b, x), strict=True):
        cosine = np.vdot(g, w) / (np.linalg.norm(g) * np.linalg.norm(w))
        # Of products of random values that E4M3 rounds by 2.6 % each.
        assert cosine >= 0.999


def test_without_sizes_sensitive_layers_are_found_by_predicted_ones() -> None:
    rng = np.random.default_rng(0)
    widths = (16, 32, 32, 4)
    params = [
        jnp.asarray(rng.normal(size=(m, n)) / np.sqrt(m), jnp.float32)
        for m, n in itertools.pairwise(widths)
    ]
    x, y = (jnp.asarray(rng.normal(size=(32, n)), jnp.float32) for n in (16, 4))

    def step(params: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            h = x
            for weight in params:
                h = jax.nn.gelu(h @ weight)
            return jnp.mean((h - y) ** 2)

        return jax.tree.map(lambda w, g: w - 0.1 * g, params, jax.grad(loss)(params))

    def sensitive(numerics: Any) -> int:
        transformed = scalify.transform(step, "fp8", numerics=numerics)
        jax.block_until_ready(jax.jit(transformed)(params, x, y))
        avals = jax.eval_shape(lambda *args: args, params, x, y) if numerics is None else None
        dots = transformed.report(*(avals or (params, x, y))).dots()
        return sum("its rounding makes up" in str(dot) for dot in dots)

    with pytest.warns(UserWarning, match=r"\(sensitive\) are chosen by predicted sizes"):
        assert sensitive(None) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sensitive(scalify.Numerics(scales=scalify.measure((params, x, y)))) > 0


@pytest.mark.parametrize("scales", [[0.5, -1], {"w": 0.5}, [[0], 0]])
def test_a_scale_in_place_of_its_exponent_is_refused(scales: Any) -> None:
    x = jnp.ones((4, 4))
    text = jax.jit(lambda w, x: w @ x).lower(x, x).as_text()
    with pytest.raises(TypeError, match=r"expected log2 of an argument's scale, an int"):
        scalify.compile(text, recipe="fp8", numerics=scalify.Numerics(scales=scales))
