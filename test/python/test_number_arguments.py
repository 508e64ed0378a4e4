"""Numbers among a step's arguments: a loss scale as Python, numpy and JAX give it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify

FORMS = [float, np.float64, np.float32, jnp.float32]
INTEGERS = [int, np.int32, jnp.int32]


def gradients(weights: Any, x: Any, y: Any, scale: Any) -> Any:
    """Returns the gradients of a mean of squares times a loss scale, without the scale."""

    def loss(weights: Any) -> Any:
        return scale * jnp.mean((jnp.tanh(x @ weights["a"]) @ weights["b"] - y) ** 2)

    return jax.tree.map(lambda one: one / scale, jax.grad(loss)(weights))


def arguments() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    a, b, x, y = (
        rng.normal(0, 1, shape).astype(np.float32)
        for shape in ((16, 32), (32, 4), (32, 16), (32, 4))
    )
    return {"a": a / 4, "b": b / 6}, x, y


def assert_near(found: Any, wanted: Any) -> None:
    # E5M2 has 2 bits of mantissa: each gradient is within an eighth. A scale that is off by 2^16
    # clips all of them.
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert np.linalg.norm(one - other) < np.linalg.norm(other) / 8


@pytest.mark.parametrize("value", [2.0**16, 2.0**-40])
@pytest.mark.parametrize("form", FORMS, ids=["float", "float64", "float32", "jax"])
@pytest.mark.parametrize("recipe", ["fp8", "fp16"])
def test_a_loss_scale_is_measured_in_each_form(
    recipe: str, form: Callable[[float], Any], value: float
) -> None:
    wanted = gradients(*arguments(), value)
    step = scalify.jit(gradients, recipe=recipe)
    assert_near(step(*arguments(), form(value)), wanted)


def test_transform_measures_a_python_number() -> None:
    step = scalify.transform(gradients, recipe="fp8")
    assert_near(step(*arguments(), 2.0**16), gradients(*arguments(), 2.0**16))


@pytest.mark.parametrize("wrap", [scalify.jit, scalify.transform])
@pytest.mark.parametrize("kinds", [(np.float32, np.int32), (np.int32, np.float32), (float, int)])
@pytest.mark.filterwarnings("ignore:'gradients' is (compiled|rewritten) once more")
def test_an_integer_may_follow_a_number(wrap: Any, kinds: tuple[Any, Any]) -> None:
    """Integers have no scales, which is no reason to refuse them, or to measure no number."""
    step = wrap(gradients, recipe="fp8")
    weights, x, y = arguments()
    for kind in kinds:
        batch = np.round(4 * x).astype(kind)
        assert_near(step(weights, batch, y, kind(2)), gradients(weights, batch, y, kind(2)))


def with_state(fn: Callable[..., Any], recipe: str) -> Callable[..., Any]:
    """Returns a step traced by JAX that takes its first scales from `init_state`."""
    step = scalify.transform(fn, recipe=recipe)
    traced = jax.jit(lambda *args, state: step(*args, state=state))
    return lambda *args: traced(*args, state=step.init_state(*args))[0]


WRAPS = [scalify.jit, scalify.transform, with_state]


@pytest.mark.parametrize("form", INTEGERS, ids=["int", "int32", "jax"])
@pytest.mark.parametrize("recipe", ["fp8", "fp16"])
@pytest.mark.parametrize("wrap", WRAPS)
def test_the_first_batch_calibrates_an_integer_loss_scale(
    wrap: Any, recipe: str, form: Callable[[int], Any]
) -> None:
    step = wrap(gradients, recipe=recipe)
    assert_near(step(*arguments(), form(2**16)), gradients(*arguments(), 2.0**16))


@pytest.mark.parametrize("recipe", ["fp8", "fp16"])
@pytest.mark.parametrize("wrap", WRAPS)
def test_the_first_batch_calibrates_large_integers(wrap: Any, recipe: str) -> None:
    """Without a declared scale they count as 2^0; these are beyond the top of either format."""
    weights, _, y = arguments()
    counts = np.random.default_rng(1).integers(0, 100_000, (32, 16)).astype(np.int32)

    def linear(weights: Any, counts: Any, y: Any) -> Any:
        return jax.grad(lambda w: jnp.mean((counts.astype(jnp.float32) @ w - y) ** 2))(weights)

    wanted = linear(weights["a"][:, :4], counts, y)
    assert_near(wrap(linear, recipe=recipe)(weights["a"][:, :4], counts, y), wanted)


def test_a_state_of_arguments_that_are_gone_is_the_predicted_one() -> None:
    """As for the shape of a checkpoint, late in a run."""
    weights, x, y = jax.tree.map(jnp.asarray, arguments())
    numerics = scalify.Numerics(scales=scalify.measure((weights, x, y, 2**16)))
    step = scalify.transform(gradients, donate_argnums=0, numerics=numerics)
    moved = step.init_state(weights, x, y, 2**16)
    with jax.disable_jit():
        assert not step.init_state(weights, x, y, 2**16).any()
    step(weights, x, y, 2**16)
    assert weights["a"].is_deleted()
    gone = step.init_state(weights, x, y, 2**16)
    assert gone.shape == moved.shape and moved.any() and not gone.any()
