"""Flax linen with TrainState, as Flax's examples are written."""

from __future__ import annotations

import tempfile
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization, struct
from flax.training import train_state
from loop import Ways, images, loop, regression, tokens


class MLP(nn.Module):
    widths: tuple[int, ...] = (32, 32, 4)

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for width in self.widths[:-1]:
            x = nn.gelu(nn.Dense(width)(x))
        return nn.Dense(self.widths[-1])(x)


def mlp_state(tx: Any, seed: int = 0) -> Any:
    model = MLP()
    params = model.init(jax.random.key(seed), jnp.ones((1, 16)))["params"]
    return train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)


def mse_step(state: Any, x: Any, y: Any) -> tuple[Any, Any]:
    def loss(params: Any) -> Any:
        return jnp.mean((state.apply_fn({"params": params}, x) - y) ** 2)

    value, grads = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=grads), value


@loop(quick=True)
def linen_train_state(ways: Ways, steps: int) -> list[float]:
    """State in, state out, with the step's count and a schedule object looked at by the host."""
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 5, steps)
    state = mlp_state(optax.adamw(schedule))
    step = ways.jit(mse_step, donate_argnums=0)
    losses = []
    for x, y in regression(steps):
        state, loss = step(state, x, y)
        losses.append(float(loss))
        if state.step % 10 == 0:
            print(f"  {int(state.step):5d} {float(schedule(state.step)):.2e} {float(loss):.4f}")
    return losses


@loop()
def linen_without_donation(ways: Ways, steps: int) -> list[float]:
    state = mlp_state(optax.sgd(0.05, momentum=0.9))
    step = ways.jit(mse_step)
    losses = []
    for x, y in regression(steps):
        before = state
        state, loss = step(state, x, y)
        losses.append(float(loss))
    # The state before the last step is still there.
    assert int(before.step) + 1 == int(state.step)
    return losses


class BatchNormState(train_state.TrainState):
    batch_stats: Any = None
    key: Any = None


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x: Any, train: bool) -> Any:
        x = nn.Conv(16, (3, 3), use_bias=False)(x)
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        x = nn.relu(x)
        x = nn.avg_pool(x, (2, 2), (2, 2))
        x = x.reshape(x.shape[0], -1)
        x = nn.relu(nn.Dense(32)(x))
        x = nn.Dropout(0.1, deterministic=not train)(x)
        return nn.Dense(4)(x)


@loop()
def linen_cnn(ways: Ways, steps: int) -> list[float]:
    """Statistics and a dropout key in the state; evaluation by jax.jit every ten steps."""
    model = CNN()
    variables = model.init(jax.random.key(0), jnp.ones((1, 8, 8, 1)), train=False)
    state = BatchNormState.create(
        apply_fn=model.apply,
        params=variables["params"],
        tx=optax.adam(3e-3),
        batch_stats=variables["batch_stats"],
        key=jax.random.key(1),
    )

    def train_step(state: Any, image: Any, label: Any) -> tuple[Any, Any]:
        key = jax.random.fold_in(state.key, state.step)

        def loss(params: Any) -> Any:
            logits, updates = state.apply_fn(
                {"params": params, "batch_stats": state.batch_stats},
                image,
                train=True,
                rngs={"dropout": key},
                mutable=["batch_stats"],
            )
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, label)
            return losses.mean(), updates

        (value, updates), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
        state = state.apply_gradients(grads=grads, batch_stats=updates["batch_stats"])
        return state, value

    @jax.jit
    def evaluate(state: Any, image: Any, label: Any) -> Any:
        variables = {"params": state.params, "batch_stats": state.batch_stats}
        logits = state.apply_fn(variables, image, train=False)
        return optax.softmax_cross_entropy_with_integer_labels(logits, label).mean()

    step = ways.jit(train_step, donate_argnums=0)
    held_out = images(1, 64)[0]
    losses = []
    for index, (image, label) in enumerate(images(steps)):
        state, loss = step(state, image, label)
        losses.append(float(loss))
        if index % 10 == 9:
            losses.append(float(evaluate(state, *held_out)))
    return losses


@loop()
def linen_ema(ways: Ways, steps: int) -> list[float]:
    """Averaged weights beside the state, kept and evaluated by plain JAX."""
    state = mlp_state(optax.adam(1e-2))
    average = jax.tree.map(jnp.copy, state.params)
    step = ways.jit(mse_step, donate_argnums=0)

    @jax.jit
    def evaluate(params: Any, x: Any, y: Any) -> Any:
        return jnp.mean((MLP().apply({"params": params}, x) - y) ** 2)

    losses = []
    for x, y in regression(steps):
        state, loss = step(state, x, y)
        average = optax.incremental_update(state.params, average, 0.1)
        losses += [float(loss), float(evaluate(average, x, y))]
    return losses


class Metrics(struct.PyTreeNode):
    total: Any
    count: Any

    @classmethod
    def empty(cls) -> Metrics:
        return cls(total=jnp.zeros(()), count=jnp.zeros((), jnp.int32))

    def add(self, values: Any) -> Metrics:
        return self.replace(total=self.total + values.sum(), count=self.count + values.size)

    def compute(self) -> Any:
        return self.total / self.count


@loop()
def linen_metrics(ways: Ways, steps: int) -> list[float]:
    """Metrics that the step adds to, read and emptied by the host every five steps."""
    state, metrics = mlp_state(optax.adam(1e-2)), Metrics.empty()

    def train_step(state: Any, metrics: Any, x: Any, y: Any) -> tuple[Any, Any]:
        def loss(params: Any) -> Any:
            errors = ((state.apply_fn({"params": params}, x) - y) ** 2).mean(-1)
            return errors.mean(), errors

        (_, errors), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=grads), metrics.add(errors)

    step = ways.jit(train_step, donate_argnums=(0, 1))
    losses = []
    for index, (x, y) in enumerate(regression(steps)):
        state, metrics = step(state, metrics, x, y)
        if index % 5 == 4:
            losses.append(float(metrics.compute()))
            metrics = Metrics.empty()
    return losses


class Block(nn.Module):
    width: int = 32

    @nn.compact
    def __call__(self, x: Any) -> Any:
        mask = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x), mask=mask)
        hidden = nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm()(x)))
        return x + nn.Dense(self.width)(hidden)


class LanguageModel(nn.Module):
    width: int = 32
    scanned: bool = False

    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        x = nn.Embed(32, self.width)(tokens)
        x = x + nn.Embed(16, self.width)(jnp.arange(tokens.shape[1]))
        if self.scanned:
            block = nn.remat(Block, prevent_cse=False)
            layers = nn.scan(
                lambda layer, carry, _: (layer(carry), None),
                variable_axes={"params": 0},
                split_rngs={"params": True},
                length=2,
            )
            x, _ = layers(block(self.width), x, None)
        else:
            for _ in range(2):
                x = Block(self.width)(x)
        return nn.Dense(32)(nn.LayerNorm()(x))


def language_state(model: Any, tx: Any) -> Any:
    params = model.init(jax.random.key(0), jnp.ones((1, 16), jnp.int32))["params"]
    return train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)


def language_step(state: Any, batch: Any) -> tuple[Any, dict[str, Any]]:
    def loss(params: Any) -> Any:
        logits = state.apply_fn({"params": params}, batch[:, :-1])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:])
        return losses.mean()

    value, grads = jax.value_and_grad(loss)(state.params)
    metrics = {"loss": value, "grad_norm": optax.global_norm(grads)}
    return state.apply_gradients(grads=grads), metrics


@loop()
def linen_transformer(ways: Ways, steps: int) -> list[float]:
    """A dictionary of metrics, fetched all at once."""
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-3))
    state = language_state(LanguageModel(), tx)
    step = ways.jit(language_step, donate_argnums=0)
    history = []
    for batch in tokens(steps):
        state, metrics = step(state, batch)
        history.append(metrics)
    return [float(row["loss"]) for row in jax.device_get(history)]


@loop()
def linen_scan_remat(ways: Ways, steps: int) -> list[float]:
    state = language_state(LanguageModel(scanned=True), optax.adamw(3e-3))
    step = ways.jit(language_step, donate_argnums=0)
    losses = []
    for batch in tokens(steps):
        state, metrics = step(state, batch)
        losses.append(metrics["loss"].item())
    return losses


@loop(quick=True)
def linen_multi_steps(ways: Ways, steps: int) -> list[float]:
    """Gradients of three micro-batches before each update."""
    state = mlp_state(optax.MultiSteps(optax.adam(1e-2), every_k_schedule=3))
    step = ways.jit(mse_step, donate_argnums=0)
    losses = []
    for x, y in regression(steps):
        state, loss = step(state, x, y)
        losses.append(float(loss))
    assert int(state.opt_state.gradient_step) == steps // 3
    return losses


@loop()
def linen_frozen(ways: Ways, steps: int) -> list[float]:
    """The first layer frozen by multi_transform, which must keep its bits."""
    transforms = {"train": optax.adam(1e-2), "freeze": optax.set_to_zero()}

    def labels(params: Any) -> Any:
        return {
            name: jax.tree.map(lambda _, label=label: label, layer)
            for name, layer in params.items()
            for label in ["freeze" if name == "Dense_0" else "train"]
        }

    state = mlp_state(optax.multi_transform(transforms, labels))
    frozen = np.asarray(state.params["Dense_0"]["kernel"]).copy()
    step = ways.jit(mse_step, donate_argnums=0)
    losses = []
    for x, y in regression(steps):
        state, loss = step(state, x, y)
        losses.append(float(loss))
    np.testing.assert_array_equal(np.asarray(state.params["Dense_0"]["kernel"]), frozen)
    return losses


@loop()
def linen_serialized(ways: Ways, steps: int) -> list[float]:
    """Saved as bytes and read into a new state half-way."""
    tx = optax.adam(1e-2)
    state = mlp_state(tx)
    step = ways.jit(mse_step, donate_argnums=0)
    losses = []
    for index, (x, y) in enumerate(regression(steps)):
        if index == steps // 2:
            content = serialization.to_bytes(state)
            state = serialization.from_bytes(mlp_state(tx, seed=9), content)
        state, loss = step(state, x, y)
        losses.append(float(loss))
    return losses


@loop()
def linen_orbax(ways: Ways, steps: int) -> list[float]:
    """Saved and restored by Orbax half-way."""
    import orbax.checkpoint as ocp

    tx = optax.adam(1e-2)
    state = mlp_state(tx)
    step = ways.jit(mse_step, donate_argnums=0)
    losses = []
    with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as checkpointer:
        for index, (x, y) in enumerate(regression(steps)):
            if index == steps // 2:
                checkpointer.save(f"{folder}/state", state)
                checkpointer.wait_until_finished()
                state = checkpointer.restore(f"{folder}/state", mlp_state(tx, seed=9))
            state, loss = step(state, x, y)
            losses.append(float(loss))
    return losses


@loop()
def linen_rnn(ways: Ways, steps: int) -> list[float]:
    class Recurrent(nn.Module):
        @nn.compact
        def __call__(self, tokens: Any) -> Any:
            x = nn.Embed(32, 24)(tokens)
            return nn.Dense(32)(nn.RNN(nn.OptimizedLSTMCell(24))(x))

    state = language_state(Recurrent(), optax.adam(1e-2))
    step = ways.jit(language_step, donate_argnums=0)
    losses = []
    for batch in tokens(steps, length=8):
        state, metrics = step(state, batch)
        losses.append(float(metrics["loss"]))
    return losses
