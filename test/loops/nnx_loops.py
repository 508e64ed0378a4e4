"""Flax NNX: modules, optimizers and metrics that the step updates."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from loop import Ways, images, loop, regression, tokens


class MLP(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.layers = getattr(nnx, "List", list)(
            [nnx.Linear(a, b, rngs=rngs) for a, b in ((16, 32), (32, 32), (32, 4))]
        )

    def __call__(self, x: Any) -> Any:
        for layer in self.layers[:-1]:
            x = nnx.gelu(layer(x))
        return self.layers[-1](x)


def mse_step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    value, grads = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    optimizer.update(model, grads)
    return value


def optimizer_of(model: Any, tx: Any) -> Any:
    return nnx.Optimizer(model, tx, wrt=nnx.Param)


@loop(quick=True)
def nnx_mlp(ways: Ways, steps: int) -> list[float]:
    model = MLP(nnx.Rngs(0))
    optimizer = optimizer_of(model, optax.adamw(1e-2))
    step = ways.nnx_jit(mse_step, donate_argnums=(0, 1))
    losses = [float(step(model, optimizer, x, y)) for x, y in regression(steps)]
    assert int(optimizer.step[...]) == steps
    return losses


class CNN(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        # A bias before a norm has no gradient but rounding, which Adam would walk along.
        self.conv = nnx.Conv(1, 16, (3, 3), use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dense = nnx.Linear(256, 32, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.out = nnx.Linear(32, 4, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = nnx.relu(self.norm(self.conv(x)))
        x = nnx.avg_pool(x, (2, 2), (2, 2))
        x = nnx.relu(self.dense(x.reshape(x.shape[0], -1)))
        return self.out(self.dropout(x))


@loop()
def nnx_cnn_metrics(ways: Ways, steps: int) -> list[float]:
    """As Flax's MNIST tutorial: MultiMetric, train() and eval(), evaluation by nnx.jit."""
    model = CNN(nnx.Rngs(0))
    optimizer = optimizer_of(model, optax.adam(3e-3))
    metrics = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))

    def loss_of(model: Any, image: Any, label: Any) -> Any:
        logits = model(image)
        return optax.softmax_cross_entropy_with_integer_labels(logits, label).mean(), logits

    @ways.nnx_jit
    def train_step(model: Any, optimizer: Any, metrics: Any, image: Any, label: Any) -> None:
        (loss, logits), grads = nnx.value_and_grad(loss_of, has_aux=True)(model, image, label)
        metrics.update(loss=loss, logits=logits, labels=label)
        optimizer.update(model, grads)

    @nnx.jit
    def eval_step(model: Any, image: Any, label: Any) -> Any:
        return loss_of(model, image, label)[0]

    held_out = images(1, 64)[0]
    losses = []
    for index, (image, label) in enumerate(images(steps)):
        model.train()
        train_step(model, optimizer, metrics, image, label)
        if index % 5 == 4:
            losses.append(float(metrics.compute()["loss"]))
            metrics.reset()
            model.eval()
            losses.append(float(eval_step(model, *held_out)))
    return losses


@loop()
def nnx_ema(ways: Ways, steps: int) -> list[float]:
    """A second module with averaged weights."""
    model = MLP(nnx.Rngs(0))
    average = nnx.clone(model)
    optimizer = optimizer_of(model, optax.adam(1e-2))
    step = ways.nnx_jit(mse_step)
    losses = []
    for x, y in regression(steps):
        losses.append(float(step(model, optimizer, x, y)))
        new = jax.tree.map(
            lambda old, new: 0.9 * old + 0.1 * new, nnx.state(average), nnx.state(model)
        )
        nnx.update(average, new)
        losses.append(float(jnp.mean((average(x) - y) ** 2)))
    return losses


@loop()
def nnx_state_saved(ways: Ways, steps: int) -> list[float]:
    """State taken out and put into new modules half-way."""
    model = MLP(nnx.Rngs(0))
    optimizer = optimizer_of(model, optax.adam(1e-2))
    step = ways.nnx_jit(mse_step)
    losses = []
    for index, (x, y) in enumerate(regression(steps)):
        if index == steps // 2:
            saved = jax.device_get(nnx.to_pure_dict(nnx.state((model, optimizer))))
            model = MLP(nnx.Rngs(5))
            optimizer = optimizer_of(model, optax.adam(1e-2))
            state = nnx.state((model, optimizer))
            nnx.replace_by_pure_dict(state, saved)
            nnx.update((model, optimizer), state)
        losses.append(float(step(model, optimizer, x, y)))
    return losses


@loop()
def nnx_functional(ways: Ways, steps: int) -> list[float]:
    """Split once, with plain jit on the state, merged for evaluation."""
    model = MLP(nnx.Rngs(0))
    graphdef, params = nnx.split(model, nnx.Param)
    tx = optax.adam(1e-2)
    opt_state = tx.init(params)

    def train_step(params: Any, opt_state: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            return jnp.mean((nnx.merge(graphdef, params)(x) - y) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, value

    step = ways.jit(train_step, donate_argnums=(0, 1))
    losses = []
    for x, y in regression(steps):
        params, opt_state, loss = step(params, opt_state, x, y)
        losses.append(float(loss))
        losses.append(float(jnp.mean((nnx.merge(graphdef, params)(x) - y) ** 2)))
    return losses


@loop()
def nnx_ensemble(ways: Ways, steps: int) -> list[float]:
    """Four members by nnx.vmap, one step for all."""

    @nnx.split_rngs(splits=4)
    @nnx.vmap
    def make(rngs: Any) -> Any:
        return MLP(rngs)

    model = make(nnx.Rngs(0))
    optimizer = optimizer_of(model, optax.adam(1e-2))

    def train_step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        def loss(model: Any) -> Any:
            outputs = nnx.vmap(lambda member, x: member(x), in_axes=(0, None))(model, x)
            return jnp.mean((outputs - y) ** 2)

        value, grads = nnx.value_and_grad(loss)(model)
        optimizer.update(model, grads)
        return value

    step = ways.nnx_jit(train_step, donate_argnums=(0, 1))
    return [float(step(model, optimizer, x, y)) for x, y in regression(steps)]


class Transformer(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(32, 32, rngs=rngs)
        self.norm = nnx.RMSNorm(32, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, 32, decode=False, rngs=rngs)
        self.up = nnx.Linear(32, 64, rngs=rngs)
        self.down = nnx.Linear(64, 32, rngs=rngs)

    def __call__(self, batch: Any) -> Any:
        x = self.embed(batch)
        x = x + self.attention(self.norm(x), mask=nnx.make_causal_mask(batch))
        x = x + self.down(nnx.silu(self.up(x)))
        return self.embed.attend(x)


@loop()
def nnx_transformer(ways: Ways, steps: int) -> list[float]:
    """A tied head; the optimizer's chain clips."""
    model = Transformer(nnx.Rngs(0))
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-3))
    optimizer = optimizer_of(model, tx)

    def train_step(model: Any, optimizer: Any, batch: Any) -> Any:
        def loss(model: Any) -> Any:
            logits = model(batch[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()

        value, grads = nnx.value_and_grad(loss)(model)
        optimizer.update(model, grads)
        return value

    step = ways.nnx_jit(train_step, donate_argnums=(0, 1))
    return [float(step(model, optimizer, batch)) for batch in tokens(steps)]
