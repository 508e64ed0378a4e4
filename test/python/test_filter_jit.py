"""scalify.filter_jit: trees with leaves that are not arrays, against equinox.filter_jit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalify

# F32 sums in another order; of losses of order one after a few steps.
ROUNDING = 2e-5

OPTIMIZER = optax.adam(1e-2)


def make() -> tuple[Any, Any]:
    model = eqx.nn.MLP(8, 4, 16, 2, activation=jax.nn.gelu, key=jax.random.key(0))
    return model, OPTIMIZER.init(eqx.filter(model, eqx.is_array))


def train_step(batch: Any, model: Any, state: Any) -> tuple[Any, Any, Any]:
    x, y = batch

    def loss(model: Any) -> Any:
        return jnp.mean((jax.vmap(model)(x) - y) ** 2)

    value, grads = eqx.filter_value_and_grad(loss)(model)
    updates, state = OPTIMIZER.update(grads, state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), state, value


def run(wrap: Callable[..., Any], count: int = 5) -> tuple[list[float], Any]:
    model, state = make()
    step = wrap(train_step)
    rng = np.random.default_rng(1)
    losses = []
    for _ in range(count):
        batch = tuple(jnp.asarray(rng.normal(size=(16, n)), jnp.float32) for n in (8, 4))
        model, state, loss = step(batch, model, state)
        losses.append(float(loss))
    return losses, model


FORMS: dict[str, Callable[..., Any]] = {
    "jit": lambda fn: scalify.filter_jit(fn, recipe="none"),
    "donated": lambda fn: scalify.filter_jit(fn, recipe="none", donate="all-except-first"),
    "decorator": lambda fn: scalify.filter_jit(recipe="none")(fn),
    "transform": lambda fn: scalify.filter_transform(fn, recipe="none"),
    "inside of filter_jit": lambda fn: eqx.filter_jit(scalify.filter_transform(fn, recipe="none")),
}


@pytest.mark.parametrize("form", FORMS)
def test_modules_train_as_by_equinox(form: str) -> None:
    expected, theirs = run(eqx.filter_jit)
    losses, model = run(FORMS[form])
    np.testing.assert_allclose(losses, expected, rtol=ROUNDING)
    # What is no array comes back as it went in.
    assert jax.tree.structure(model) == jax.tree.structure(theirs)
    assert model.activation is theirs.activation


def test_a_recipe_trains() -> None:
    expected, _ = run(eqx.filter_jit)
    losses, _ = run(lambda fn: scalify.filter_jit(fn, donate="all-except-first"))
    # A cast to E4M3 has a relative error of 2^-4 at most; three layers of it, by squares.
    np.testing.assert_allclose(losses, expected, rtol=0.05)


def test_state_of_layers() -> None:
    def make_stateful() -> tuple[Any, Any]:
        return eqx.nn.make_with_state(eqx.nn.BatchNorm)(4, axis_name="batch", mode="batch")

    def step(layer: Any, state: Any, x: Any) -> tuple[Any, Any]:
        return jax.vmap(layer, in_axes=(0, None), out_axes=(0, None), axis_name="batch")(x, state)

    x = jnp.asarray(np.random.default_rng(0).normal(1, 2, (16, 4)), jnp.float32)
    found = []
    for wrap in (eqx.filter_jit, lambda fn: scalify.filter_jit(fn, recipe="none")):
        layer, state = make_stateful()
        y, state = wrap(step)(layer, state, x)
        found.append([np.asarray(leaf) for leaf in jax.tree.leaves((y, state))])
    for mine, theirs in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_a_static_leaf_is_a_value_of_the_compilation() -> None:
    traces = []

    @scalify.filter_jit(recipe="none")
    def scaled(tree: Any) -> Any:
        traces.append(tree["name"])
        return {"y": tree["x"] * (2 if tree["name"] == "twice" else 3), "name": tree["name"]}

    x = jnp.ones(3)
    for name, factor in (("twice", 2), ("thrice", 3), ("twice", 2)):
        result = scaled({"x": x, "name": name})
        assert result["name"] == name
        np.testing.assert_array_equal(np.asarray(result["y"]), factor * np.ones(3))
    assert traces == ["twice", "thrice"]


def test_equal_static_leaves_of_two_types_are_two() -> None:
    def times(tree: Any) -> Any:
        return tree["x"] * tree["count"]

    step = scalify.filter_jit(times, recipe="none")
    for count in (1, 1.0, 1):
        tree = {"x": jnp.arange(4), "count": count}
        assert step(tree).dtype == times(tree).dtype


def test_shapes_and_traces_are_those_of_the_function() -> None:
    def step(tree: Any) -> Any:
        return {"y": tree["f"](tree["x"]).sum(), "f": tree["f"]}

    tree = {"x": jnp.ones(3), "f": jnp.tanh}
    run = scalify.filter_jit(step, recipe="none")
    found, wanted = run.eval_shape(tree), eqx.filter_eval_shape(step, tree)
    assert (found["y"].shape, found["y"].dtype) == (wanted["y"].shape, wanted["y"].dtype)
    assert found["f"] is jnp.tanh
    assert run.trace(tree).lower().compile().report() is not None


def test_ahead_of_time() -> None:
    layer, x = eqx.nn.Linear(3, 4, key=jax.random.key(0)), jnp.ones((2, 3))

    def apply(layer: Any, x: Any) -> Any:
        return jax.vmap(layer)(x)

    lowered = scalify.filter_jit(apply, recipe="none").lower(layer, x)
    compiled = lowered.compile()
    found, wanted = compiled(layer, x), eqx.filter_jit(apply).lower(layer, x).compile()(layer, x)
    assert isinstance(found, jax.Array)
    # Sums of three products, in another order.
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert "stablehlo" in lowered.as_text() and compiled.report() is not None


def test_a_leaf_without_a_hash_is_named_by_its_path() -> None:
    step = scalify.filter_jit(lambda tree: tree["x"], recipe="none")
    with pytest.raises(TypeError, match=r"\['names'\].*set.*no hash"):
        step({"x": jnp.ones(3), "names": {"a"}})


def test_names_of_arguments_are_those_of_the_function() -> None:
    model, state = make()
    step = scalify.filter_jit(train_step, recipe="none", donate="all-except-first")
    step((jnp.ones((2, 8)), jnp.ones((2, 4))), model, state)
    args = {arg["name"]: arg for arg in step.executable().args}
    assert args["model.layers[0].weight"]["role"] == "param"
    assert args["model.layers[0].weight"]["alias_result"] is not None
    assert args["batch[0]"]["alias_result"] is None


def test_plain_jit_names_the_adapter() -> None:
    with pytest.raises(TypeError, match=r"scalify\.filter_jit"):
        run(lambda fn: scalify.jit(fn, recipe="none"), 1)


def test_donation_of_an_unknown_number_of_arguments_is_refused() -> None:
    with pytest.raises(ValueError, match="name them as parameters"):
        scalify.filter_jit(lambda *args: args, donate="all")
    with pytest.raises(ValueError, match="unknown donate 'some'"):
        scalify.filter_jit(train_step, donate="some")
