"""Kinds of an optimizer's state, by what the step computes: moments, sums of squares, sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalify
from scalify.options import Distribution

LEVEL = "fp8-lm-o2"


def loss(w: Any, x: Any) -> Any:
    return jnp.mean(jnp.square(jnp.tanh(x @ w) @ w.T))


def run(update: Callable[[Any, Any], Any]) -> tuple[str, np.ndarray]:
    """Returns how the state of an update is stored, and its values after two steps."""

    def step(w: Any, m: Any, x: Any) -> tuple[Any, Any]:
        m = update(m, jax.grad(loss)(w, x))
        return w - 0.1 * m, m

    fn = scalify.jit(step, LEVEL, donate_argnums=(0, 1))
    rng = np.random.default_rng(0)
    w = (rng.normal(size=(16, 16)) / 4).astype(np.float32)
    m = np.zeros((16, 16), np.float32)
    for _ in range(2):
        w, m = fn(w, m, rng.normal(size=(32, 16)).astype(np.float32))
    kinds = {row["name"]: row["dtype"] for row in fn.executable().manifest["args"]}
    return kinds["m"], np.asarray(m)


def spread(m: Any, g: Any) -> Any:
    """A mean of signed terms, one of which is a square: no root can be taken of it."""
    return 0.9 * m + 0.1 * (g + 0.5 * g * g)


def squares(m: Any, g: Any) -> Any:
    return 0.9 * m + 0.1 * jnp.square(g)


def restarted(m: Any, g: Any) -> Any:
    """Momentum, which is set to zero when a gradient is not finite: an average all the same."""
    return jnp.where(jnp.isfinite(jnp.sum(g)), 0.9 * m + g, 0.0)


def masked(m: Any, g: Any) -> Any:
    return (0.9 * m + g) * jnp.isfinite(jnp.sum(g))


def added(m: Any, g: Any) -> Any:
    """A sum of gradients, set to zero now and then."""
    return jnp.where(jnp.sum(g) > 1e3, 0.0, m + g)


def added_by_mask(m: Any, g: Any) -> Any:
    return (m + g) * (1.0 - (jnp.sum(g) > 1e3).astype(jnp.float32))


def by_difference(m: Any, g: Any) -> Any:
    return m + 0.1 * (g - m)


def summed(m: Any, g: Any) -> Any:
    """Never decays, as the point `z` of schedule-free optimizers."""
    return m - 0.01 * g


def summed_if_finite(m: Any, g: Any) -> Any:
    return jnp.where(jnp.isfinite(jnp.sum(g)), m + 0.01 * jnp.tanh(g), m)


def summed_in_a_loop(m: Any, g: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, m: m + 0.1 * g, m)


def reward(m: Any, g: Any) -> Any:
    """Cocob's: a sum that starts again from zero."""
    return jnp.maximum(m + 0.1 * g, 0.0)


def largest(m: Any, g: Any) -> Any:
    """Cocob divides by it: flushed to zero, 0 / 0 is NaN."""
    return jnp.maximum(m, jnp.abs(g))


def infinity_norm(m: Any, g: Any) -> Any:
    """Adamax's."""
    return jnp.maximum(0.999 * m, jnp.abs(g) + 1e-8)


def step_sizes(m: Any, g: Any) -> Any:
    """Rprop's: errors of factors multiply."""
    return jnp.clip(m * jnp.where(g > 0, 1.2, 0.5), 1e-6, 50.0)


def damped(m: Any, g: Any) -> Any:
    """By a factor that the step computes."""
    return m * jnp.minimum(0.9, 1 / (1 + jnp.sum(g * g))) + g


def clipped(m: Any, g: Any) -> Any:
    return jnp.clip(0.9 * m + g, -1.0, 1.0)


def summed_squares(m: Any, g: Any) -> Any:
    """Adagrad's."""
    return m + g * g


def slow(m: Any, g: Any) -> Any:
    """Errors of E4M3 would be as large as this average after as many steps as it keeps."""
    return 0.9999 * m + 0.0001 * g


def decayed(m: Any, g: Any) -> Any:
    return m - 0.01 * (g + 20.0 * m)


@pytest.mark.parametrize(
    ("update", "stored"),
    [
        (spread, "f8E4M3FN"),
        (squares, "f16"),
        (restarted, "f8E4M3FN"),
        (masked, "f8E4M3FN"),
        (added, "f32"),
        (added_by_mask, "f32"),
        (by_difference, "f8E4M3FN"),
        (summed, "f32"),
        (summed_if_finite, "f32"),
        (summed_in_a_loop, "f32"),
        (reward, "f32"),
        (largest, "f32"),
        (infinity_norm, "f32"),
        (step_sizes, "f32"),
        (damped, "f8E4M3FN"),
        (clipped, "f8E4M3FN"),
        (summed_squares, "f32"),
        (slow, "f32"),
        (decayed, "f8E4M3FN"),
    ],
)
def test_state_is_stored_by_what_it_is(update: Callable[[Any, Any], Any], stored: str) -> None:
    kind, values = run(update)
    assert kind == stored
    assert np.isfinite(values).all()


@pytest.mark.parametrize(
    "average",
    [lambda e, w: 0.999 * e + 0.001 * w, lambda e, w: optax.incremental_update(w, e, 0.001)],
)
def test_an_average_of_parameters_stays_wide(average: Callable[[Any, Any], Any]) -> None:
    """A step moves it by less than E4M3 rounds it: its way had a cosine of 0.3 to the exact one."""

    def step(w: Any, e: Any, x: Any) -> tuple[Any, Any]:
        w = w - 0.5 * jax.grad(loss)(w, x)
        return w, average(e, w)

    rng = np.random.default_rng(0)
    start = (rng.normal(size=(16, 16)) / 4).astype(np.float32)
    batches = [rng.normal(size=(32, 16)).astype(np.float32) for _ in range(10)]
    moved = []
    for fn in (jax.jit(step), scalify.jit(step, LEVEL, donate_argnums=(0, 1))):
        state = jnp.array(start), jnp.array(start)
        for x in batches:
            state = fn(*state, x)
        moved.append((np.asarray(state[1]) - start).ravel())
    exact, found = moved
    # FP8 products move the weights themselves with a cosine of 0.99.
    assert exact @ found > 0.97 * np.linalg.norm(exact) * np.linalg.norm(found)


AVERAGES: dict[str, Callable[..., Any]] = {
    "of the old weights": lambda e, w, new, n: optax.incremental_update(w, e, 0.001),
    "of the new weights": lambda e, w, new, n: optax.incremental_update(new, e, 0.001),
    "in some steps": lambda e, w, new, n: jax.lax.cond(
        n % 2 == 0, lambda: 0.99 * e + 0.01 * new, lambda: e
    ),
}


@pytest.mark.parametrize("average", AVERAGES)
def test_an_average_that_the_step_reads_stays_wide(average: str) -> None:
    """A target or a teacher is read by products, as weights are, and is an average all the same."""

    def step(w: Any, e: Any, n: Any, x: Any) -> tuple[Any, Any, Any]:
        aim = jax.lax.stop_gradient(jnp.tanh(x @ e))
        g = jax.grad(lambda w: jnp.mean(jnp.square(jnp.tanh(x @ w) - aim)))(w)
        new = w - 0.5 * g - 1e-3 * w
        return new, AVERAGES[average](e, w, new, n), n + 1

    start = np.eye(16, dtype=np.float32)
    fn = scalify.jit(step, LEVEL, donate_argnums=(0, 1, 2))
    args = fn.executable(start, start, np.int32(0), np.ones((32, 16), np.float32)).manifest["args"]
    kinds = {row["name"]: (row["role"], row["dtype"]) for row in args}
    assert kinds["w"] == ("param", "f16")
    assert kinds["e"] == ("param", "f32")


def test_weights_that_their_gradient_updates_are_no_average() -> None:
    """Each of two networks is drawn to the other, and learns."""

    def step(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
        ga, gb = jax.grad(lambda a, b: loss(a, x) + loss(b, x), (0, 1))(a, b)
        return a - 0.1 * ga - 0.05 * (a - b), b - 0.1 * gb - 0.05 * (b - a)

    start = np.eye(16, dtype=np.float32)
    fn = scalify.jit(step, LEVEL, donate_argnums=(0, 1))
    args = fn.executable(start, start, np.ones((32, 16), np.float32)).manifest["args"]
    assert {row["name"]: row["dtype"] for row in args if row["name"] in "ab"} == {
        "a": "f16",
        "b": "f16",
    }


@pytest.mark.parametrize("zero", [0, 3])
def test_a_share_of_one_element_is_stored_as_the_whole(zero: Literal[0, 3]) -> None:
    def step(w: Any, b: Any, x: Any) -> tuple[Any, Any]:
        gw, gb = jax.grad(lambda w, b: jnp.mean(jnp.square(x @ w + b)), (0, 1))(w, b)
        return w - 0.1 * gw, b - 0.1 * gb

    spec = jax.sharding.PartitionSpec("data")
    mesh = Distribution(mesh=scalify.make_mesh(data=2), zero=zero)
    fn = scalify.jit(
        step, LEVEL, donate_argnums=(0, 1), in_shardings=(None, None, spec), distribution=mesh
    )
    w, b, x = (np.ones(shape, np.float32) for shape in ((16, 2), (2,), (32, 16)))
    args = fn.executable(w, b, x).manifest["args"]
    assert {row["name"]: row["dtype"] for row in args}["b"] == "f16"


def test_the_point_of_a_schedule_free_optimizer_stays_wide() -> None:
    tx = optax.contrib.schedule_free_adamw(1e-2, warmup_steps=2, weight_decay=1e-3)

    def step(w: Any, state: Any, x: Any) -> tuple[Any, Any]:
        updates, state = tx.update(jax.grad(loss)(w, x), state, w)
        return optax.apply_updates(w, updates), state

    w = np.eye(16, dtype=np.float32)
    fn = scalify.jit(step, LEVEL, donate_argnums=(0, 1))
    args = fn.executable(w, tx.init(w), np.ones((32, 16), np.float32)).manifest["args"]
    kinds = {row["name"]: row["dtype"] for row in args}
    (point,) = (kind for name, kind in kinds.items() if name.endswith(".z"))
    assert point == "f32"
    assert "f16" in kinds.values()


def test_a_moment_that_starts_tiny_does_not_saturate() -> None:
    """An average that starts at 1e-8: at the scale of its start E4M3 ends at 3e-6."""

    def step(w: Any, m: Any, x: Any) -> tuple[Any, Any]:
        g = jax.grad(loss)(w, x)
        m = 0.5 * m + 0.5 * jnp.abs(g)
        return w - 0.1 * g / (m + 1e-8), m

    rng = np.random.default_rng(0)
    w = (rng.normal(size=(16, 16)) / 4).astype(np.float32)
    x = rng.normal(size=(32, 16)).astype(np.float32)
    m = np.full((16, 16), 1e-8, np.float32)
    exact = np.asarray(jax.jit(step)(w, m, x)[1])
    _, found = scalify.jit(step, LEVEL, donate_argnums=(0, 1))(w, m, x)
    assert np.median(np.abs(np.asarray(found) / exact - 1)) < 2.0**-3


@pytest.mark.parametrize("shape", [(16,), (1,), (1, 1)])
def test_weights_that_start_at_zero_and_cross_it_do_not_saturate(shape: tuple[int, ...]) -> None:
    """Biases and adapters under a rate that warms up: they grow by more than two in a step."""

    def step(b: Any, g: Any, rate: Any) -> Any:
        return b - rate * g

    numerics = scalify.Numerics(roles={"b": "param"}, health="off")
    fn = scalify.jit(step, LEVEL, donate_argnums=0, numerics=numerics)
    plain = jax.jit(step)
    g = np.random.default_rng(0).uniform(1, 2, shape).astype(np.float32)
    b, exact, size = jnp.zeros(shape), jnp.zeros(shape), 0.0
    for rate in (0.0, 0.01, 0.05, 0.3, 1.0, -1.358, 1.0, 40.0):
        b, exact = fn(b, g, rate), plain(exact, g, rate)
        size = max(size, float(jnp.max(jnp.abs(exact))))
        np.testing.assert_allclose(b, exact, rtol=0, atol=2.0**-8 * size)
        assert not any(row["saturated"] for row in fn.health()), rate


@pytest.mark.parametrize("name", ["prodigy", "dog", "mechanic"])
def test_weights_whose_distance_from_the_first_is_taken_stay_wide(name: str) -> None:
    """The distance starts at zero: in F16 it is rounding, and the rates that follow from it too."""
    tx = {
        "prodigy": lambda: optax.contrib.prodigy(1.0),
        "dog": lambda: optax.contrib.dog(1.0),
        "mechanic": lambda: optax.contrib.mechanize(optax.adam(1e-2)),
    }[name]()

    def step(w: Any, state: Any, x: Any) -> tuple[Any, Any, Any]:
        value, g = jax.value_and_grad(loss)(w, x)
        updates, state = tx.update(g, state, w)
        return optax.apply_updates(w, updates), state, value

    def losses(compiled: Any) -> list[float]:
        rng = np.random.default_rng(0)
        w = jnp.asarray(rng.normal(size=(16, 16)) / 4, jnp.float32)
        state = jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), tx.init(w))
        found = []
        for _ in range(30):
            x = rng.normal(size=(32, 16)).astype(np.float32)
            w, state, value = compiled(w, state, x)
            found.append(float(value))
        return found

    fn = scalify.jit(step, LEVEL, donate_argnums=(0, 1))
    exact = np.asarray(losses(jax.jit(step)))
    # Products in FP8 have errors of their own, which the average of gradients doubles at most.
    products = np.abs(losses(scalify.jit(step, "fp8")) - exact)
    assert np.abs(losses(fn) - exact).max() < 2 * products.max()
    kinds = {row["name"]: row["dtype"] for row in fn.executable().manifest["args"]}
    assert kinds["w"] == "f32"


def test_the_parts_of_a_variance_stay_wide() -> None:
    """Of centred RMSProp: with a mean in E4M3 a variance was negative, and its root NaN."""
    tx = optax.rmsprop(1e-3, centered=True)

    def step(w: Any, state: Any, x: Any) -> tuple[Any, Any]:
        updates, state = tx.update(jax.grad(loss)(w, x), state, w)
        return optax.apply_updates(w, updates), state

    rng = np.random.default_rng(0)
    w = (rng.normal(size=(16, 16)) / 4).astype(np.float32)
    x = rng.normal(size=(32, 16)).astype(np.float32)
    fn = scalify.jit(step, LEVEL, donate_argnums=(0, 1))
    state = tx.init(w)
    kinds = [row["dtype"] for row in fn.executable(w, state, x).manifest["args"]]
    assert kinds[:3] == ["f16", "f32", "f32"]
    # One batch again and again: the variance falls to zero.
    for _ in range(30):
        w, state = fn(w, state, x)
    assert np.isfinite(np.asarray(w)).all()


def test_a_sum_that_stays_wide_is_a_remark() -> None:
    def step(w: Any, m: Any, x: Any) -> tuple[Any, Any]:
        m = added(m, jax.grad(loss)(w, x))
        return w - 0.1 * m, m

    z = np.ones((16, 16), np.float32)
    fn = scalify.jit(step, LEVEL, donate_argnums=(0, 1))
    messages = [one["message"] for one in fn.executable(z, z, z).diagnostics]
    assert "state stays wide: 'm' is a sum that the step sets to zero" in messages


@pytest.mark.parametrize("recipe", ["fp16", LEVEL])
def test_an_update_alone_knows_moments_by_their_names(recipe: str) -> None:
    """Gradients come from elsewhere: no forward tells a parameter from a moment."""
    adam = optax.adam(1e-3)

    def apply(params: Any, state: Any, grads: Any) -> tuple[Any, Any]:
        updates, state = adam.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(64, 64)).astype(np.float32)}
    grads = {"w": (1e-4 * rng.normal(size=(64, 64))).astype(np.float32)}
    exact = jax.jit(apply)(params, adam.init(params), grads)
    fn = scalify.jit(apply, recipe, donate_argnums=(0, 1))
    _, state = fn(jax.tree.map(jnp.array, params), adam.init(params), grads)
    found, wanted = np.asarray(state[0].nu["w"]), np.asarray(exact[1][0].nu["w"])
    # Stored as its root in F16, of 11 bits: squares are within 2^-10. As a parameter in F16 most
    # of these moments, of 1e-11, would be zero.
    np.testing.assert_allclose(found, wanted, rtol=2.0**-9, atol=1e-16)


@pytest.mark.parametrize("rounding", ["stochastic", "nearest"])
def test_two_arrays_of_state_may_have_one_value(rounding: str) -> None:
    def step(w: Any, state: Any, x: Any) -> tuple[Any, Any]:
        g = jax.grad(loss)(w, x)
        m = 0.9 * state["mu"][0] + g
        return w - 0.1 * m, {"mu": [m, m], "nu": [jnp.zeros_like(g), jnp.zeros_like(g)]}

    z = np.full((16, 16), 0.125, np.float32)
    recipe = scalify.Recipe.preset(LEVEL).replace(state_rounding=rounding)
    fn = scalify.jit(step, recipe, donate_argnums=(0, 1))
    _, state = fn(z, {"mu": [z, z], "nu": [z, z]}, z)
    first, second = (np.asarray(m) for m in state["mu"])
    # Both are within a step of E4M3 of the value; by random words of their own they may differ.
    np.testing.assert_allclose(first, second, rtol=2.0**-2)
    assert (first == second).all() or rounding == "stochastic"


def test_a_layer_named_as_a_moment_is_a_parameter() -> None:
    """The mean of an autoencoder's code is often called mu."""

    def step(params: Any, x: Any) -> Any:
        def compute(p: Any) -> Any:
            return jnp.mean(jnp.square(jnp.tanh(x @ p["mu"]) @ p["out"] - x))

        return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(compute)(params))

    rng = np.random.default_rng(0)
    shapes = {"mu": (16, 8), "out": (8, 16)}
    params = {key: rng.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    fn = scalify.jit(step, LEVEL, donate_argnums=0)
    fn(params, rng.normal(size=(32, 16)).astype(np.float32))
    kinds = {row["name"]: (row["role"], row["dtype"]) for row in fn.executable().manifest["args"]}
    assert kinds["params['mu']"] == ("param", "f16")
