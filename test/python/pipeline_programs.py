"""Steps with micro-batches and stage borders, for tests of pipelines."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import partition_programs

import scalify

__all__ = ["batches", "llama", "llama_step", "lower", "mlp_state", "mlp_step"]

WIDTH = 16


def mlp_state(layers: int, dtype: Any = np.float32) -> dict[str, Any]:
    """Returns weights of layers, an embedding tied to the head, momenta, a step."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return (rng.standard_normal(shape) / 4).astype(dtype)

    params = {
        "embed": draw(32, WIDTH),
        "layers": [{"up": draw(WIDTH, 32), "down": draw(32, WIDTH)} for _ in range(layers)],
    }
    return {
        "params": params,
        "moments": jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), params),
        "count": np.zeros((), np.int32),
    }


def _layer(weights: Any, x: jax.Array) -> jax.Array:
    norm = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    return x + jax.nn.silu(norm @ weights["up"]) @ weights["down"]


def loss_of(params: Any, tokens: jax.Array, chunks: int, wire: Any) -> jax.Array:
    """Returns the loss of next tokens, with the model cut into a number of chunks."""
    layers = params["layers"]
    x = params["embed"][tokens[:, :-1]]
    for index, weights in enumerate(layers):
        if index and index % (len(layers) // chunks) == 0:
            x = scalify.lax.stage_border(x, wire)
        x = _layer(weights, x)
    logits = (x @ params["embed"].T).astype(jnp.float32)
    picked = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


def mlp_step(chunks: int, wire: str = "given", unroll: bool = False) -> Any:
    """Returns step(state, tokens [micro-batch, example, token]) -> (state, loss).

    Args:
        chunks: parts of the model, with a border between any two.
        wire: the format in which activations cross the borders.
        unroll: whether the micro-batches are written out, not a loop.
    """

    def step(state: Any, tokens: jax.Array) -> Any:
        params = state["params"]

        def turn(carry: Any, one: jax.Array) -> Any:
            total, sums = carry
            loss, grads = jax.value_and_grad(loss_of)(params, one, chunks, wire)
            return (total + loss, jax.tree.map(jnp.add, sums, grads)), None

        zeros = jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(turn, (jnp.float32(0), zeros), tokens, unroll=unroll)
        count = state["count"] + 1
        norm = jnp.sqrt(
            sum(jnp.sum(jnp.square(one.astype(jnp.float32))) for one in jax.tree.leaves(grads))
        )
        rate = 0.05 * jnp.minimum(1.0, 1.0 / norm) / jnp.sqrt(count.astype(jnp.float32))
        moments = jax.tree.map(lambda m, g: 0.9 * m + g.astype(m.dtype), state["moments"], grads)
        params = jax.tree.map(lambda p, m: (p - rate * m).astype(p.dtype), params, moments)
        new = {"params": params, "moments": moments, "count": count}
        return new, loss / tokens.shape[0]

    return step


def lower(step: Any, state: Any, tokens: Any) -> str:
    """Returns the text of a step whose state is donated."""
    return jax.jit(step, donate_argnums=0).lower(state, tokens).as_text(debug_info=True)


def batches(steps: int, microbatches: int, examples: int = 2, length: int = 9) -> list[Any]:
    """Returns tokens of so many steps, each of which follows the one before it."""
    rng = np.random.default_rng(1)
    shape = (steps, microbatches, examples, 1)
    return list((rng.integers(0, 32, shape, np.int32) + np.arange(length, dtype=np.int32)) % 32)


def llama(chunks: int, microbatches: int) -> tuple[str, list[Any], list[Any]]:
    """Returns the text of a step of `llama_step`, its state as leaves, and its batches."""
    step, state, batches = llama_step(chunks, microbatches)
    return lower(step, state, batches[0]), jax.tree.leaves(state), batches


def llama_step(chunks: int, microbatches: int, examples: int = 2) -> tuple[Any, Any, list[Any]]:
    """Returns a step of the example's layers with its AdamW, one a chunk; its state; batches."""
    model = partition_programs.model
    cfg = partition_programs.config.ModelConfig(
        layers=chunks, seq=8, dim=32, ffn=64, heads=4, kv_heads=2, vocab=64
    )
    adamw = partition_programs.optimizer.make_optimizer(
        partition_programs.config.TrainConfig(warmup=2)
    )
    params = jax.jit(lambda: model.init(jax.random.key(0), cfg))()
    state = (params, jax.jit(adamw.init)(params))
    rng = np.random.default_rng(2)
    shape = (3, microbatches, examples, cfg.seq + 1)
    batches = list(rng.integers(0, cfg.vocab, shape, dtype=np.int32))

    def loss_of(params: Any, batch: jax.Array) -> jax.Array:
        tokens = batch[:, :-1]
        x, tables = params["embed"][tokens], model.rope_tables(cfg, cfg.seq)
        for index, layer in enumerate(params["layers"]):
            x = scalify.lax.stage_border(x) if index else x
            normal = model.rms_norm(x, layer["attention_norm"], cfg.norm_eps)
            x = x + model.attention(normal, layer, cfg, tables)
            x = x + model.swiglu(model.rms_norm(x, layer["ffn_norm"], cfg.norm_eps), layer)
        logits = model.rms_norm(x, params["final_norm"], cfg.norm_eps) @ params["head"]
        picked = jnp.take_along_axis(logits, batch[:, 1:, None], axis=-1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)

    def step(state: Any, batch: jax.Array) -> Any:
        params, moments = state

        def turn(carry: Any, one: jax.Array) -> Any:
            loss, grads = jax.value_and_grad(loss_of)(params, one)
            return (carry[0] + loss, jax.tree.map(jnp.add, carry[1], grads)), None

        zeros = jax.tree.map(jnp.zeros_like, params)
        (loss, sums), _ = jax.lax.scan(turn, (jnp.float32(0), zeros), batch)
        mean = jax.tree.map(lambda one: one / microbatches, sums)
        updates, moments = adamw.update(mean, moments, params)
        params = jax.tree.map(jnp.add, params, updates)
        return (params, moments), loss / microbatches

    return step, jax.tree.map(np.asarray, state), batches
