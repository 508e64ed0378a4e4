"""Functions of pytrees, with what optax offers around them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
from loop import Ways, loop, regression, tokens

WIDTHS = (16, 32, 32, 4)


def init(seed: int | Any = 0) -> dict[str, Any]:
    key = jax.random.key(seed) if isinstance(seed, int) else seed
    params = {}
    for index, (inputs, outputs) in enumerate(itertools.pairwise(WIDTHS)):
        key, inner = jax.random.split(key)
        weight = jax.random.normal(inner, (inputs, outputs)) / np.sqrt(inputs)
        params[f"layer{index}"] = {"w": weight, "b": jnp.zeros(outputs)}
    return params


def apply(params: Any, x: Any) -> Any:
    for index in range(len(params)):
        layer = params[f"layer{index}"]
        x = x @ layer["w"] + layer["b"]
        x = jax.nn.gelu(x) if index + 1 < len(params) else x
    return x


def mse(params: Any, x: Any, y: Any) -> Any:
    return jnp.mean((apply(params, x) - y) ** 2)


def step_of(tx: Any) -> Callable[..., Any]:
    def step(params: Any, opt_state: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        loss, grads = jax.value_and_grad(mse)(params, x, y)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    return step


def train(ways: Ways, steps: int, tx: Any, **options: Any) -> tuple[list[float], Any, Any]:
    params = init()
    opt_state = tx.init(params)
    step = ways.jit(step_of(tx), **options)
    losses = []
    for x, y in regression(steps):
        params, opt_state, loss = step(params, opt_state, x, y)
        losses.append(float(loss))
    return losses, params, opt_state


@loop()
def optax_norms(ways: Ways, steps: int) -> list[float]:
    """Norms of the donated results by optax on the host, and stacks of losses."""
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))
    params, opt_state = init(), None
    opt_state = tx.init(params)
    step = ways.jit(step_of(tx), donate_argnums=(0, 1))
    losses, norms = [], []
    for x, y in regression(steps):
        params, opt_state, loss = step(params, opt_state, x, y)
        losses.append(loss)
        norms.append(optax.global_norm(params))
    assert jnp.all(jnp.stack(norms) > 0)
    return jnp.stack(losses).tolist()


@loop()
def optax_lookahead(ways: Ways, steps: int) -> list[float]:
    tx = optax.lookahead(optax.sgd(0.1), sync_period=5, slow_step_size=0.5)
    # As they are donated, both must have memory of their own.
    params = optax.LookaheadParams(fast=init(), slow=init())
    opt_state = tx.init(params)

    def train_step(params: Any, opt_state: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(mse)(params.fast, x, y)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    step = ways.jit(train_step, donate_argnums=(0, 1))
    losses = []
    for x, y in regression(steps):
        params, opt_state, loss = step(params, opt_state, x, y)
        losses += [float(loss), float(mse(params.slow, x, y))]
    return losses


@loop()
def optax_plateau(ways: Ways, steps: int) -> list[float]:
    """The loss is an argument of the update; the scale is read by the host."""
    tx = optax.chain(
        optax.adam(1e-2), optax.contrib.reduce_on_plateau(factor=0.5, patience=3, cooldown=1)
    )
    params = init()
    opt_state = tx.init(params)

    def train_step(params: Any, opt_state: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(mse)(params, x, y)
        updates, opt_state = tx.update(grads, opt_state, params, value=loss)
        return optax.apply_updates(params, updates), opt_state, loss

    step = ways.jit(train_step, donate_argnums=(0, 1))
    losses = []
    for x, y in regression(steps):
        params, opt_state, loss = step(params, opt_state, x, y)
        losses.append(float(loss))
    assert float(optax.tree.get(opt_state, "scale")) <= 1
    return losses


@loop()
def optax_hyperparameters(ways: Ways, steps: int) -> list[float]:
    """A learning rate in the state, which the host sets as a Python number between steps."""
    tx = optax.inject_hyperparams(optax.adam)(learning_rate=1e-2)
    params = init()
    opt_state = tx.init(params)
    step = ways.jit(step_of(tx), donate_argnums=(0, 1))
    losses = []
    for index, (x, y) in enumerate(regression(steps)):
        if index and index % 10 == 0:
            rate = opt_state.hyperparams["learning_rate"]
            opt_state.hyperparams["learning_rate"] = rate * 0.5
        params, opt_state, loss = step(params, opt_state, x, y)
        losses.append(float(loss))
    return losses


@loop()
def optax_finite(ways: Ways, steps: int) -> list[float]:
    """A step whose batch is not finite is left out."""
    tx = optax.apply_if_finite(optax.adam(1e-2), max_consecutive_errors=3)
    params = init()
    opt_state = tx.init(params)
    step = ways.jit(step_of(tx), donate_argnums=(0, 1))
    losses = []
    for index, (x, y) in enumerate(regression(steps)):
        if index == 7:
            x = np.full_like(x, np.nan)
        params, opt_state, loss = step(params, opt_state, x, y)
        if index != 7:
            losses.append(float(loss))
    assert int(opt_state.total_notfinite) == 1
    return losses


@loop()
def optax_schedule_free(ways: Ways, steps: int) -> list[float]:
    """Weights for evaluation made of the state by plain JAX."""
    tx = optax.contrib.schedule_free_adamw(1e-2, warmup_steps=3)
    losses, params, opt_state = train(ways, steps, tx, donate_argnums=(0, 1))
    held_out = regression(1)[0]
    averaged = optax.contrib.schedule_free_eval_params(opt_state, params)
    return [*losses, float(mse(averaged, *held_out))]


@loop()
def optax_masked_decay(ways: Ways, steps: int) -> list[float]:
    """Weight decay on matrices alone, and a decaying schedule object."""
    decays = jax.tree.map(lambda leaf: leaf.ndim > 1, init())
    tx = optax.chain(
        optax.scale_by_adam(),
        optax.add_decayed_weights(1e-2, mask=decays),
        optax.scale_by_learning_rate(optax.exponential_decay(1e-2, 10, 0.5)),
    )
    return train(ways, steps, tx, donate_argnums=(0, 1))[0]


@loop(rounds="state")
def optax_lion_bfloat16(ways: Ways, steps: int) -> list[float]:
    return train(ways, steps, optax.lion(1e-3, mu_dtype=jnp.bfloat16), donate_argnums=(0, 1))[0]


@loop()
def seeds_by_vmap(ways: Ways, steps: int) -> list[float]:
    """Four runs side by side, whose weights and moments have a leading axis."""
    tx = optax.adam(1e-2)
    params = jax.vmap(init)(jax.random.split(jax.random.key(0), 4))
    opt_state = jax.vmap(tx.init)(params)
    step = ways.jit(jax.vmap(step_of(tx), in_axes=(0, 0, None, None)), donate_argnums=(0, 1))
    losses = []
    for x, y in regression(steps):
        params, opt_state, loss = step(params, opt_state, x, y)
        losses += loss.tolist()
    return losses


@loop()
def weak_types(ways: Ways, steps: int) -> list[float]:
    """A Python count in the state, a Python learning rate, an early stop by the host."""
    traces = []

    def train_step(state: Any, rate: Any, x: Any, y: Any) -> Any:
        traces.append(1)
        loss, grads = jax.value_and_grad(mse)(state["params"], x, y)
        params = jax.tree.map(lambda p, g: p - rate * g, state["params"], grads)
        return {"params": params, "n": state["n"] + 1}, loss

    step = ways.jit(train_step, donate_argnums=0)
    state, best, losses = {"params": init(), "n": 0}, float("inf"), []
    for x, y in regression(steps):
        state, loss = step(state, 0.05, x, y)
        losses.append(float(loss))
        best = min(best, losses[-1])
    assert state["n"] == steps
    assert best < losses[0]
    assert len(traces) == 1
    return losses


@loop()
def last_batch_is_smaller(ways: Ways, steps: int) -> list[float]:
    """A generator of numpy batches, every tenth of which has fewer examples."""

    def batches() -> Iterator[Any]:
        for index, (x, y) in enumerate(regression(steps)):
            yield (x[:20], y[:20]) if index % 10 == 9 else (x, y)

    tx = optax.adam(1e-2)
    params = init()
    opt_state = tx.init(params)
    step = ways.jit(step_of(tx), donate_argnums=(0, 1))
    losses = []
    for x, y in batches():
        params, opt_state, loss = step(params, opt_state, x, y)
        losses.append(float(loss))
    return losses


@loop()
def accumulated_by_scan(ways: Ways, steps: int) -> list[float]:
    tx = optax.adam(1e-2)

    def train_step(params: Any, opt_state: Any, x: Any, y: Any) -> Any:
        def add(total: Any, batch: Any) -> tuple[Any, Any]:
            loss, grads = jax.value_and_grad(mse)(params, *batch)
            return jax.tree.map(jnp.add, total, grads), loss

        parts = (x.reshape(4, -1, *x.shape[1:]), y.reshape(4, -1, *y.shape[1:]))
        total, losses = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), parts)
        grads = jax.tree.map(lambda leaf: leaf / 4, total)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, losses.mean()

    params = init()
    opt_state = tx.init(params)
    step = ways.jit(train_step, donate_argnums=(0, 1))
    losses = []
    for x, y in regression(steps):
        params, opt_state, loss = step(params, opt_state, x, y)
        losses.append(float(loss))
    return losses


@loop(bound=0.15, why="two players: each one's error is the other's gradient")
def two_optimizers(ways: Ways, steps: int) -> list[float]:
    """A generator and a critic, each with a step and an optimizer of its own."""
    tx = optax.adam(1e-3, b1=0.5)

    def score(critic: Any, x: Any) -> Any:
        return apply(critic, x).mean()

    def fake(generator: Any, noise: Any) -> Any:
        return jnp.tile(apply(generator, noise), (1, 4))

    def critic_step(critic: Any, state: Any, generator: Any, x: Any, noise: Any) -> Any:
        def loss(critic: Any) -> Any:
            return score(critic, fake(generator, noise)) - score(critic, x)

        value, grads = jax.value_and_grad(loss)(critic)
        updates, state = tx.update(grads, state)
        return optax.apply_updates(critic, updates), state, value

    def generator_step(generator: Any, state: Any, critic: Any, noise: Any) -> Any:
        value, grads = jax.value_and_grad(lambda g: -score(critic, fake(g, noise)))(generator)
        updates, state = tx.update(grads, state)
        return optax.apply_updates(generator, updates), state, value

    critic, generator = init(0), init(1)
    states = tx.init(critic), tx.init(generator)
    first = ways.jit(critic_step, donate_argnums=(0, 1))
    second = ways.jit(generator_step, donate_argnums=(0, 1))
    rng = np.random.default_rng(3)
    losses = []
    critic_state, generator_state = states
    for x, _ in regression(steps):
        noise = rng.normal(size=x.shape).astype(np.float32)
        critic, critic_state, loss = first(critic, critic_state, generator, x, noise)
        generator, generator_state, _ = second(generator, generator_state, critic, noise)
        losses.append(float(loss))
    return losses


@loop()
def key_in_the_state(ways: Ways, steps: int) -> list[float]:
    """A variational autoencoder whose step splits the key that it carries."""
    tx = optax.adam(3e-3)

    def init_all() -> Any:
        key = jax.random.key(0)
        shapes = {"encode": (16, 16), "mean": (16, 4), "spread": (16, 4), "decode": (4, 16)}
        keys = jax.random.split(key, len(shapes))
        return {
            name: jax.random.normal(one, shape) / np.sqrt(shape[0])
            for one, (name, shape) in zip(keys, shapes.items(), strict=True)
        }

    def train_step(state: Any, x: Any) -> Any:
        params, opt_state, key = state
        key, inner = jax.random.split(key)

        def loss(params: Any) -> Any:
            hidden = jnp.tanh(x @ params["encode"])
            mean, log = hidden @ params["mean"], hidden @ params["spread"]
            code = mean + jnp.exp(0.5 * log) * jax.random.normal(inner, mean.shape)
            error = ((code @ params["decode"] - x) ** 2).sum(-1)
            divergence = 0.5 * (jnp.exp(log) + mean**2 - 1 - log).sum(-1)
            return (error + 0.1 * divergence).mean()

        value, grads = jax.value_and_grad(loss)(params)
        updates, opt_state = tx.update(grads, opt_state)
        return (optax.apply_updates(params, updates), opt_state, key), value

    params = init_all()
    state = (params, tx.init(params), jax.random.key(7))
    step = ways.jit(train_step, donate_argnums=0)
    losses = []
    for x, _ in regression(steps):
        state, loss = step(state, x)
        losses.append(float(loss))
    return losses


@loop()
def several_steps_in_one(ways: Ways, steps: int) -> list[float]:
    """Five updates in one lax.scan over stacked batches."""
    tx = optax.adam(1e-2)

    def train_steps(params: Any, opt_state: Any, xs: Any, ys: Any) -> Any:
        def one(carry: Any, batch: Any) -> tuple[Any, Any]:
            *carry, loss = step_of(tx)(*carry, *batch)
            return tuple(carry), loss

        (params, opt_state), losses = jax.lax.scan(one, (params, opt_state), (xs, ys))
        return params, opt_state, losses

    params = init()
    opt_state = tx.init(params)
    step = ways.jit(train_steps, donate_argnums=(0, 1))
    batches, losses = regression(steps), []
    for start in range(0, steps - 4, 5):
        xs, ys = (np.stack(part) for part in zip(*batches[start : start + 5], strict=True))
        params, opt_state, values = step(params, opt_state, xs, ys)
        losses += np.asarray(values).tolist()
    return losses


@loop()
def contrastive(ways: Ways, steps: int) -> list[float]:
    """Two towers and a temperature; a batch that is a dictionary, metrics as an auxiliary."""
    tx = optax.adamw(3e-3)
    params: dict[str, Any] = {"left": init(0), "right": init(1), "log_scale": jnp.zeros(())}

    def loss_of(params: Any, batch: Any) -> tuple[Any, Any]:
        left, right = (apply(params[side], batch[side]) for side in ("left", "right"))
        left, right = (v / jnp.linalg.norm(v, axis=-1, keepdims=True) for v in (left, right))
        logits = left @ right.T * jnp.exp(params["log_scale"])
        labels = jnp.arange(len(logits))
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        return loss, {"accuracy": (logits.argmax(-1) == labels).mean()}

    def train_step(params: Any, opt_state: Any, batch: Any) -> Any:
        (loss, metrics), grads = jax.value_and_grad(loss_of, has_aux=True)(params, batch)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, {"loss": loss, **metrics}

    opt_state = tx.init(params)
    step = ways.jit(train_step, donate_argnums=(0, 1))
    losses = []
    for x, _ in regression(steps):
        batch = {"left": x, "right": x + 0.1 * x[::-1]}
        params, opt_state, metrics = step(params, opt_state, batch)
        assert 0 <= metrics["accuracy"] <= 1
        losses.append(float(metrics["loss"]))
    return losses


@loop(rounds="sums")
def mixed_by_hand(ways: Ways, steps: int) -> list[float]:
    """BF16 computation on F32 masters, with a loss scale as a Python number."""
    tx = optax.adam(1e-2)
    scale = 128.0

    def train_step(params: Any, opt_state: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            narrow = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
            outputs = apply(narrow, x.astype(jnp.bfloat16)).astype(jnp.float32)
            return scale * jnp.mean((outputs - y) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        grads = jax.tree.map(lambda leaf: leaf / scale, grads)
        updates, opt_state = tx.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, value / scale

    params = init()
    opt_state = tx.init(params)
    step = ways.jit(train_step, donate_argnums=(0, 1))
    losses = []
    for x, y in regression(steps):
        params, opt_state, loss = step(params, opt_state, x, y)
        losses.append(float(loss))
    return losses


@loop()
def bigram_table(ways: Ways, steps: int) -> list[float]:
    """A table that is gathered by unsigned bytes, and metrics gathered by jax.device_get."""
    table = jnp.asarray(np.random.default_rng(4).normal(0, 0.1, (32, 32)), jnp.float32)
    tx = optax.adagrad(0.5)
    opt_state = tx.init(table)

    def train_step(table: Any, opt_state: Any, batch: Any) -> Any:
        def loss(table: Any) -> Any:
            logits = jnp.take(table, batch[:, :-1], axis=0)
            labels = batch[:, 1:].astype(jnp.int32)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        value, grads = jax.value_and_grad(loss)(table)
        updates, opt_state = tx.update(grads, opt_state)
        return optax.apply_updates(table, updates), opt_state, value

    step = ways.jit(train_step, donate_argnums=(0, 1))
    losses = []
    for batch in tokens(steps):
        table, opt_state, loss = step(table, opt_state, batch.astype(np.uint8))
        losses.append(loss)
    return [float(loss) for loss in jax.device_get(losses)]
