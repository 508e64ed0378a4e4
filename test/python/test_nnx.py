"""scalify.nnx: steps of NNX modules against flax.nnx.jit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import scalify
import scalify.nnx

# F32 sums in another order; of losses and weights of order one after a few steps.
ROUNDING = 2e-5


class Net(nnx.Module):
    """Statistics, a stream of random numbers, and a list of layers."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.inner = nnx.Linear(8, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)
        # Before Flax 0.12 a module takes lists.
        layers = [nnx.Linear(16, 16, rngs=rngs) for _ in range(2)]
        self.layers = getattr(nnx, "List", list)(layers)
        self.out = nnx.Linear(16, 4, rngs=rngs)
        self.activation = jax.nn.relu

    def __call__(self, x: Any) -> Any:
        x = self.dropout(self.activation(self.norm(self.inner(x))))
        for layer in self.layers:
            x = x + self.activation(layer(x))
        return self.out(x)


def train_step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    def loss(model: Any) -> Any:
        return jnp.mean((model(x) - y) ** 2)

    value, grads = nnx.value_and_grad(loss)(model)
    optimizer.update(model, grads)
    return value


def make() -> tuple[Net, Any]:
    model = Net(nnx.Rngs(0))
    return model, nnx.Optimizer(model, optax.sgd(0.05, momentum=0.9), wrt=nnx.Param)


def batches(count: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(1)
    return [
        (
            jnp.asarray(rng.normal(size=(16, 8)), jnp.float32),
            jnp.asarray(rng.normal(size=(16, 4)), jnp.float32),
        )
        for _ in range(count)
    ]


def run(wrap: Callable[..., Any], count: int = 5) -> tuple[list[float], Any, Any]:
    model, optimizer = make()
    step = wrap(train_step)
    losses = [float(step(model, optimizer, x, y)) for x, y in batches(count)]
    return losses, model, optimizer


def plain(tree: Any) -> list[np.ndarray]:
    def read(leaf: Any) -> np.ndarray:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf)

    return [read(leaf) for leaf in jax.tree.leaves(nnx.state(tree))]


FORMS: dict[str, Callable[..., Any]] = {
    "jit": lambda fn: scalify.nnx.jit(fn, recipe="none"),
    "donated": lambda fn: scalify.nnx.jit(fn, recipe="none", donate_argnums=(0, 1)),
    "decorator": lambda fn: scalify.nnx.jit(recipe="none")(fn),
    "transform": lambda fn: scalify.nnx.jit(fn, recipe="none", backend="transform"),
    "inside of nnx.jit": lambda fn: nnx.jit(scalify.nnx.transform(fn, recipe="none")),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_callers_modules_are_updated_as_by_nnx_jit(form: str) -> None:
    expected, *objects = run(nnx.jit)
    losses, *ours = run(FORMS[form])
    np.testing.assert_allclose(losses, expected, rtol=ROUNDING)
    for mine, theirs in zip(plain(ours), plain(objects), strict=True):
        # Counts of streams and steps are integers, and equal.
        if mine.dtype.kind in "iu":
            np.testing.assert_array_equal(mine, theirs)
        else:
            np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=ROUNDING)


@pytest.mark.parametrize("recipe", ["fp8", "fp8-delayed"])
def test_recipes_train(recipe: str) -> None:
    expected, *_ = run(nnx.jit)
    losses, *_ = run(lambda fn: scalify.nnx.jit(fn, recipe=recipe, donate_argnums=(0, 1)))
    # A cast to E4M3 has a relative error of 2^-4 at most; four layers of it, by squares.
    np.testing.assert_allclose(losses, expected, rtol=0.05)


def test_delayed_scales_of_transform_are_the_callers() -> None:
    model, optimizer = make()
    step = scalify.nnx.transform(train_step, recipe="fp8-delayed")
    (x, y), *_ = batches(1)
    history = step.init_state(model, optimizer, x, y)
    loss, history = step(model, optimizer, x, y, amax_history=history)
    assert np.asarray(history).any()
    np.testing.assert_allclose(float(loss), run(nnx.jit, 1)[0][0], rtol=0.05)


def test_what_arguments_share_stays_shared() -> None:
    class Pair(nnx.Module):
        def __init__(self, left: Any, right: Any) -> None:
            self.left, self.right = left, right

    def step(pair: Any, layer: Any, x: Any) -> Any:
        layer.kernel[...] = layer.kernel[...] * 2
        return pair.left(x) + pair.right(x)

    found = []
    for wrap in (nnx.jit, lambda fn: scalify.nnx.jit(fn, recipe="none")):
        layer = nnx.Linear(4, 4, rngs=nnx.Rngs(0))
        pair = Pair(layer, layer)
        before = np.asarray(layer.kernel[...])
        found.append(np.asarray(wrap(step)(pair, layer, jnp.ones((2, 4)))))
        assert pair.left is layer and pair.right is layer
        np.testing.assert_array_equal(np.asarray(layer.kernel[...]), 2 * before)
    np.testing.assert_allclose(found[1], found[0], rtol=ROUNDING)


def test_variables_that_a_step_adds_are_there_afterwards() -> None:
    def step(layer: Any, x: Any) -> Any:
        y = layer(x)
        layer.sow(nnx.Intermediate, "seen", y)
        return y

    layer = nnx.Linear(4, 3, rngs=nnx.Rngs(0))
    x = jnp.ones((2, 4))
    y = scalify.nnx.jit(step, recipe="none")(layer, x)
    (seen,) = jax.tree.leaves(nnx.pop(layer, nnx.Intermediate))
    np.testing.assert_array_equal(np.asarray(seen), np.asarray(y))


def test_modules_are_results_too() -> None:
    @scalify.nnx.jit(recipe="none", static_argnums=1)
    def make_layer(rngs: Any, width: int) -> Any:
        return nnx.Linear(4, width, rngs=rngs)

    ours, theirs = nnx.Rngs(3), nnx.Rngs(3)
    layer = make_layer(ours, 5)
    expected = nnx.Linear(4, 5, rngs=theirs)
    np.testing.assert_allclose(
        np.asarray(layer.kernel[...]), np.asarray(expected.kernel[...]), rtol=ROUNDING
    )
    # The stream has counted on.
    assert jax.random.key_data(ours()).tolist() == jax.random.key_data(theirs()).tolist()


def test_a_trace_updates_no_module() -> None:
    def step(model: Any, x: Any) -> Any:
        model.kernel[...] += 1
        return jnp.mean(model(x) ** 2)

    model, x = nnx.Linear(3, 4, rngs=nnx.Rngs(0)), jnp.ones((2, 3))
    before = np.array(model.kernel[...])
    run = scalify.nnx.jit(step, recipe="none")
    run.trace(model, x)
    run.lower(model, x)
    np.testing.assert_array_equal(model.kernel[...], before)
    with pytest.raises(NotImplementedError, match=r"flax\.nnx\.eval_shape"):
        run.eval_shape(model, x)


def test_methods() -> None:
    class Counter(nnx.Module):
        def __init__(self) -> None:
            self.count = nnx.Variable(jnp.zeros((), jnp.int32))

        @scalify.nnx.jit(recipe="none")
        def add(self, number: Any) -> Any:
            self.count[...] += number
            return self.count[...]

    counter = Counter()
    counter.add(2)
    assert int(counter.add(3)) == 5 == int(counter.count[...])


def test_reports_name_variables_by_their_paths() -> None:
    model, optimizer = make()
    step = scalify.nnx.jit(train_step, recipe="fp8", donate_argnums=(0, 1))
    step(model, optimizer, *batches(1)[0])
    args = {arg["name"]: arg["role"] for arg in step.executable().args}
    assert args["model.layers[1].kernel"] == "param"
    assert args["optimizer.opt_state[0].trace.inner.kernel"] == "moment"
    assert step.report(model, optimizer, *batches(1)[0]).casts()


PLAIN: dict[str, Callable[..., Any]] = {
    "jit": lambda fn: scalify.jit(fn, recipe="none"),
    "transform": lambda fn: scalify.transform(fn, recipe="none"),
    "transform in jax.jit": lambda fn: jax.jit(scalify.transform(fn, recipe="none")),
}


@pytest.mark.parametrize("form", PLAIN)
def test_a_step_that_updates_copies_is_refused(form: str) -> None:
    with pytest.raises(TypeError, match=r"updates the Net at \[0\].*scalify\.nnx\.jit"):
        run(PLAIN[form], 1)


def test_a_module_that_is_read_or_returned_needs_no_adapter() -> None:
    layer = nnx.Linear(4, 3, rngs=nnx.Rngs(0))
    x = jnp.ones((2, 4))

    def doubled(layer: Any) -> Any:
        layer.kernel[...] = layer.kernel[...] * 2
        return layer

    y = scalify.jit(lambda layer, x: layer(x), recipe="none")(layer, x)
    np.testing.assert_allclose(np.asarray(y), np.asarray(layer(x)), rtol=ROUNDING)
    new = scalify.jit(doubled, recipe="none")(layer)
    np.testing.assert_array_equal(np.asarray(new.kernel[...]), 2 * np.asarray(layer.kernel[...]))


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(ValueError, match="unknown backend 'xla'"):
        scalify.nnx.jit(train_step, backend="xla")
