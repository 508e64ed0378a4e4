"""Equinox: modules are pytrees with activations among their leaves."""

from __future__ import annotations

import tempfile
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from loop import Ways, images, loop, regression, tokens


def mlp(seed: int = 0) -> Any:
    return eqx.nn.MLP(16, 4, 32, 2, activation=jax.nn.gelu, key=jax.random.key(seed))


def mse(model: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


def mse_step_of(tx: Any) -> Any:
    def step(model: Any, opt_state: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        loss, grads = eqx.filter_value_and_grad(mse)(model, x, y)
        updates, opt_state = tx.update(grads, opt_state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), opt_state, loss

    return step


@loop(quick=True)
def equinox_mlp(ways: Ways, steps: int) -> list[float]:
    model, tx = mlp(), optax.adamw(1e-2)
    opt_state = tx.init(eqx.filter(model, eqx.is_array))
    step = ways.filter_jit(mse_step_of(tx))
    losses = []
    for x, y in regression(steps):
        model, opt_state, loss = step(model, opt_state, x, y)
        losses.append(float(loss))
    return losses


@loop()
def equinox_donated(ways: Ways, steps: int) -> list[float]:
    """The batch first, and all else donated; evaluation by equinox.filter_jit."""
    model, tx = mlp(), optax.adam(1e-2)
    opt_state = tx.init(eqx.filter(model, eqx.is_array))
    inner = mse_step_of(tx)

    def train_step(batch: Any, model: Any, opt_state: Any) -> Any:
        return inner(model, opt_state, *batch)

    step = ways.filter_jit(train_step, donate="all-except-first")
    evaluate = eqx.filter_jit(mse)
    losses = []
    for x, y in regression(steps):
        model, opt_state, loss = step((x, y), model, opt_state)
        losses += [float(loss), float(evaluate(model, x, y))]
    return losses


@loop()
def equinox_batch_norm(ways: Ways, steps: int) -> list[float]:
    """A state object beside the model."""

    class CNN(eqx.Module):
        conv: Any
        norm: Any
        out: Any

        def __init__(self, key: Any) -> None:
            a, b = jax.random.split(key)
            self.conv = eqx.nn.Conv2d(1, 8, 3, padding=1, use_bias=False, key=a)
            self.norm = eqx.nn.BatchNorm(8, axis_name="batch", mode="batch")
            self.out = eqx.nn.Linear(8 * 16, 4, key=b)

        def __call__(self, image: Any, state: Any) -> tuple[Any, Any]:
            x, state = self.norm(self.conv(image.transpose(2, 0, 1)), state)
            x = jax.nn.relu(x).reshape(8, 4, 2, 4, 2).mean((2, 4))
            return self.out(x.reshape(-1)), state

    model, state = eqx.nn.make_with_state(CNN)(jax.random.key(0))
    tx = optax.adam(3e-3)
    opt_state = tx.init(eqx.filter(model, eqx.is_inexact_array))

    def loss_of(model: Any, state: Any, image: Any, label: Any) -> tuple[Any, Any]:
        logits, state = jax.vmap(model, in_axes=(0, None), out_axes=(0, None), axis_name="batch")(
            image, state
        )
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, label)
        return losses.mean(), state

    def train_step(model: Any, state: Any, opt_state: Any, image: Any, label: Any) -> Any:
        (loss, state), grads = eqx.filter_value_and_grad(loss_of, has_aux=True)(
            model, state, image, label
        )
        updates, opt_state = tx.update(grads, opt_state, model)
        return eqx.apply_updates(model, updates), state, opt_state, loss

    step = ways.filter_jit(train_step)
    losses = []
    for image, label in images(steps):
        model, state, opt_state, loss = step(model, state, opt_state, image, label)
        losses.append(float(loss))
    return losses


@loop()
def equinox_recurrent(ways: Ways, steps: int) -> list[float]:
    """A cell under lax.scan, and its leaves saved and loaded half-way."""

    class Model(eqx.Module):
        embed: Any
        cell: Any
        out: Any

        def __init__(self, key: Any) -> None:
            a, b, c = jax.random.split(key, 3)
            self.embed = eqx.nn.Embedding(32, 16, key=a)
            self.cell = eqx.nn.GRUCell(16, 24, key=b)
            self.out = eqx.nn.Linear(24, 32, key=c)

        def __call__(self, sequence: Any) -> Any:
            def step(hidden: Any, token: Any) -> tuple[Any, Any]:
                hidden = self.cell(self.embed(token), hidden)
                return hidden, self.out(hidden)

            return jax.lax.scan(step, jnp.zeros(24), sequence)[1]

    def loss_of(model: Any, batch: Any) -> Any:
        logits = jax.vmap(model)(batch[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()

    model, tx = Model(jax.random.key(0)), optax.adam(1e-2)
    opt_state = tx.init(eqx.filter(model, eqx.is_array))

    def train_step(model: Any, opt_state: Any, batch: Any) -> Any:
        loss, grads = eqx.filter_value_and_grad(loss_of)(model, batch)
        updates, opt_state = tx.update(grads, opt_state, model)
        return eqx.apply_updates(model, updates), opt_state, loss

    step = ways.filter_jit(train_step)
    losses = []
    for index, batch in enumerate(tokens(steps, length=8)):
        if index == steps // 2:
            with tempfile.NamedTemporaryFile(suffix=".eqx") as file:
                eqx.tree_serialise_leaves(file.name, (model, opt_state))
                like = (Model(jax.random.key(9)), opt_state)
                model, opt_state = eqx.tree_deserialise_leaves(file.name, like)
        model, opt_state, loss = step(model, opt_state, batch)
        losses.append(float(loss))
    return losses


@loop()
def equinox_partitioned(ways: Ways, steps: int) -> list[float]:
    """Only the last layer is trained, by partition and combine; plain jit on arrays alone."""
    model, tx = mlp(), optax.adam(1e-2)
    trained = eqx.tree_at(
        lambda tree: (tree.layers[-1].weight, tree.layers[-1].bias),
        jax.tree.map(lambda _: False, model),
        (True, True),
    )
    part, rest = eqx.partition(model, trained)
    opt_state = tx.init(part)

    def train_step(part: Any, opt_state: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(lambda part: mse(eqx.combine(part, rest), x, y))(part)
        updates, opt_state = tx.update(grads, opt_state)
        return eqx.apply_updates(part, updates), opt_state, loss

    step = ways.jit(train_step, donate_argnums=(0, 1))
    losses = []
    for x, y in regression(steps):
        part, opt_state, loss = step(part, opt_state, x, y)
        losses += [float(loss), float(mse(eqx.combine(part, rest), x, y))]
    return losses
