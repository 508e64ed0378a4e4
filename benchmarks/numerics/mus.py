"""A LLaMA's peer as muS asks (Narayan et al. 2025, arXiv 2502.05967): static FP8 by the model.

Where the model differs from LLaMA, the source is that paper: weights of unit variance and products
divided by the root of their fan-in, by the fan-in for the head; each branch normed at its end and
added as sqrt(1 - tau) x + sqrt(tau) branch(x); GELU, not SwiGLU; weight decay apart from the
learning rate; the rate of hidden weights falls with the root of the width. Hidden linear layers are
cast to E4M3, their gradients to E5M2, by plain saturating casts without scales, but for one
constant factor on gradients, a loss scale: the tokens of a step times the width, by which the
gradient that enters the trunk from the head has unit variance at the start. Embedding, head and
attention are BF16.

Of LLaMA stay rotary embeddings, grouped heads, attention within documents, and the gains of RMS
norms; the width of the MLP is 3/2 of SwiGLU's, so that both have equally many parameters.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import optax

import scalify
from scalify.models import llama
from scalify.models.llama import rope
from scalify.train.loop import Run
from scalify.train.settings import Config
from scalify.train.step import decaying

__all__ = ["MusRun", "init", "loss", "recipe", "with_recipe"]

# The share of a branch; the paper tunes it by depth, here it is not tuned.
TAU = 0.3
# The width at which the learning rate of hidden weights is the given one.
BASE_WIDTH = 256
# Of weights in each step, at the peak of the schedule: what LLaMA's decay of 0.1 has at 2e-3.
DECAY = 2e-4
MATRICES = ("wq", "wk", "wv", "wo", "w_up", "w_down")

Params = dict[str, Any]


def recipe(tokens: int, width: int) -> scalify.Recipe:
    """Returns the recipe of a step of this many tokens: casts with one constant on gradients."""
    exponent = -round(math.log2(tokens * width))
    return scalify.Recipe("mus", scales="unit", sensitive=True, gradient_exponent=exponent)


def init(config: llama.LlamaConfig, key: jax.Array) -> Params:
    """Returns weights of unit variance, and gains of 1."""
    width, inner = config.hidden_size, config.intermediate_size * 3 // 2
    heads, kv_heads = (
        count * config.head_size for count in (config.num_attention_heads, config.kv_heads)
    )
    shapes = {
        "wq": (width, heads),
        "wk": (width, kv_heads),
        "wv": (width, kv_heads),
        "wo": (heads, width),
        "w_up": (width, inner),
        "w_down": (inner, width),
    }
    keys = iter(jax.random.split(key, 2 + len(shapes) * config.num_hidden_layers))

    def normal(*shape: int) -> jax.Array:
        return jax.random.normal(next(keys), shape)

    layers = [
        {name: normal(*shape) for name, shape in shapes.items()}
        | {"attention_norm": jnp.ones(width), "ffn_norm": jnp.ones(width)}
        for _ in range(config.num_hidden_layers)
    ]
    embed, head = normal(config.vocab_size, width), normal(width, config.vocab_size)
    return {"embed": embed, "layers": layers, "final_norm": jnp.ones(width), "head": head}


def _linear(x: jax.Array, weight: jax.Array) -> jax.Array:
    return (x @ weight) * weight.shape[0] ** -0.5


def _norm(x: jax.Array, gain: jax.Array, eps: float) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + eps) * gain


def _attention(
    x: jax.Array, layer: Params, config: llama.LlamaConfig, mask: jax.Array, table: Any
) -> jax.Array:
    rows, length, _ = x.shape
    q, k, v = (
        _linear(x, layer[name]).reshape(rows, length, -1, config.head_size)
        for name in ("wq", "wk", "wv")
    )
    q, k = rope.rotate(q, table), rope.rotate(k, table)
    q = q.reshape(rows, length, config.kv_heads, -1, config.head_size)
    scores = jnp.einsum("btkgh,bskh->bkgts", q, k) * config.head_size**-0.5
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
    mixed = jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(rows, length, -1)
    return _linear(mixed, layer["wo"])


def loss(params: Params, batch: Any, config: llama.LlamaConfig) -> jax.Array:
    """Returns the mean cross entropy in nats over the targets of a batch of `scalify.train`."""
    tokens, segments, weights = batch["tokens"], batch["segments"], batch["weights"]
    norm = functools.partial(_norm, eps=config.rms_norm_eps)
    places = jnp.arange(tokens.shape[1])
    same = segments[:, :, None] == segments[:, None, :]
    mask = (same & (places[:, None] >= places[None, :]))[:, None, None]
    table = rope.tables(config, batch["positions"])

    def add(x: jax.Array, branch: jax.Array) -> jax.Array:
        return math.sqrt(1 - TAU) * x + math.sqrt(TAU) * branch

    x = jnp.take(params["embed"], tokens, axis=0)
    for layer in params["layers"]:
        with jax.named_scope("attention"):
            mixed = _attention(x, layer, config, mask, table)
            x = add(x, norm(mixed, layer["attention_norm"]))
        with jax.named_scope("ffn"):
            inner = jax.nn.gelu(_linear(x, layer["w_up"]))
            x = add(x, norm(_linear(inner, layer["w_down"]), layer["ffn_norm"]))
    with jax.named_scope("head"):
        logits = (norm(x, params["final_norm"]) @ params["head"]) / config.hidden_size
    with jax.named_scope("loss"):
        picked = jnp.take_along_axis(logits, batch["targets"][..., None], axis=-1)[..., 0]
        losses = jax.nn.logsumexp(logits, axis=-1) - picked
        return jnp.sum(losses * weights) / jnp.maximum(jnp.sum(weights), 1)


def rates(params: Params) -> Params:
    """Returns the factor on each weight's learning rate."""

    def factor(path: Any, leaf: jax.Array) -> float:
        is_hidden = path[-1].key in MATRICES
        return math.sqrt(BASE_WIDTH / leaf.shape[0]) if is_hidden else 1.0

    return jax.tree_util.tree_map_with_path(factor, params)


def with_recipe(config: Config) -> Config:
    """Returns a run's configuration with the recipe of its shape."""
    width = config.model.override["hidden_size"]
    text = str(recipe(config.train.batch * config.data.sequence, width))
    # Its scales are constants by design, so that health only reports.
    section = dataclasses.replace(config.recipe, name=text, health="report")
    return dataclasses.replace(config, recipe=section)


class MusRun(Run):
    """A run of `scalify.train` on muS's model; its configuration is LLaMA's."""

    def initial(self) -> Any:
        """Returns weights of unit variance."""
        return init(self.model, jax.random.key(self.config.train.seed))

    def loss(self, params: Any, batch: Any) -> jax.Array:
        """Returns the mean loss over a batch's targets."""
        return loss(params, batch, self.model)

    def optimizer(self) -> optax.GradientTransformation:
        """Returns Adam with muS's rates, and decay that only the schedule's shape scales."""
        section = self.config.optimizer
        factors, peak = rates(self.trained), section.learning_rate

        def scaled(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
            return jax.tree.map(lambda update, by: update * by, updates, factors), state

        def falling(step: Any) -> Any:
            return DECAY * self.schedule(step) / peak

        decay = optax.add_decayed_weights(falling, mask=decaying(self.trained))
        return optax.chain(
            optax.clip_by_global_norm(section.clip),
            optax.scale_by_adam(section.beta1, section.beta2, section.eps),
            optax.GradientTransformation(lambda _: optax.EmptyState(), scaled),
            optax.scale_by_schedule(self.schedule),
            decay,
            optax.scale(-1.0),
        )
