"""Small real training programs in JAX, lowered to text, for tests of the compiler's stages."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "llama"))

import model as llama
from config import ModelConfig
from scalify import numerics

__all__ = ["PROGRAMS", "Lowered", "cosine", "lower"]

LLAMA = ModelConfig(vocab=64, dim=32, layers=2, heads=4, kv_heads=2, ffn=48, seq=16)


def cosine(left: Any, right: Any) -> float:
    """Returns the cosine between two trees of arrays; 0 where one is not finite."""
    return numerics.cosine(
        *([np.asarray(leaf) for leaf in jax.tree.leaves(tree)] for tree in (left, right))
    )


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A lowered step: texts with and without locations, arguments, and what they are."""

    debug_text: str
    plain_text: str
    forward_text: str  # of the loss alone
    arguments: list[np.ndarray]
    paths: list[str]  # such as "[0]['w']", of each argument


def _llama_loss(dtype: str, policy: Any = None) -> Callable[..., jax.Array]:
    """Returns the example's loss; `policy` (True: save nothing) adds jax.checkpoint."""
    cfg = dataclasses.replace(LLAMA, dtype=dtype)
    loss = functools.partial(llama.loss, cfg=cfg)
    if policy is None:
        return loss
    return jax.checkpoint(loss, policy=None if policy is True else policy)


def _llama_params() -> Any:
    return llama.init(jax.random.key(0), LLAMA)


def _tokens() -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.integers(0, LLAMA.vocab, (2, LLAMA.seq + 1), dtype=np.int32)


def _gpt2_params(dim: int = 32, vocab: int = 64, length: int = 16) -> Any:
    keys = iter(jax.random.split(jax.random.key(2), 20))

    def normal(*shape: int) -> jax.Array:
        return 0.1 * jax.random.normal(next(keys), shape)

    def block() -> Any:
        return {
            "ln1": {"g": jnp.ones(dim), "b": jnp.zeros(dim)},
            "ln2": {"g": jnp.ones(dim), "b": jnp.zeros(dim)},
            "qkv": normal(dim, 3 * dim),
            "out": normal(dim, dim),
            "up": {"w": normal(dim, 4 * dim), "b": jnp.zeros(4 * dim)},
            "down": {"w": normal(4 * dim, dim), "b": jnp.zeros(dim)},
        }

    return {"wte": normal(vocab, dim), "wpe": normal(length, dim), "h": [block(), block()]}


def _gpt2_loss(params: Any, tokens: jax.Array) -> jax.Array:
    """A small GPT-2: learned positions, LayerNorm, erf GELU, tied head."""

    def norm(x: jax.Array, p: Any) -> jax.Array:
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * p["g"] + p["b"]

    x = params["wte"][tokens[:, :-1]] + params["wpe"]
    batch, length, dim = x.shape
    for p in params["h"]:
        q, k, v = jnp.split((norm(x, p["ln1"]) @ p["qkv"]).reshape(batch, length, 4, -1), 3, -1)
        scores = jnp.einsum("bqhc,bkhc->bhqk", q, k) / np.sqrt(dim // 4)
        causal = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), -1)
        x = x + jnp.einsum("bhqk,bkhc->bqhc", weights, v).reshape(x.shape) @ p["out"]
        hidden = norm(x, p["ln2"]) @ p["up"]["w"] + p["up"]["b"]
        x = x + jax.nn.gelu(hidden, approximate=False) @ p["down"]["w"] + p["down"]["b"]
    logits = jax.nn.log_softmax(x @ params["wte"].T)
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()


def _adamw() -> optax.GradientTransformation:
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 10, 100)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))


def _step(
    loss_fn: Callable[..., jax.Array], optimizer: optax.GradientTransformation, metrics: bool
) -> Callable[..., Any]:
    def train_step(params: Any, opt_state: Any, batch: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        if metrics:
            return params, opt_state, {"cost": loss, "grad_norm": optax.global_norm(grads)}
        return params, opt_state, loss

    return train_step


def _scaled_step(
    loss_fn: Callable[..., jax.Array], optimizer: optax.GradientTransformation
) -> Callable[..., Any]:
    """Returns a step with a loss scale that adapts; JAX pairs the donated scale with the loss."""

    def train_step(params: Any, state: Any, batch: Any) -> Any:
        opt_state, scale = state

        def scaled(params: Any) -> tuple[jax.Array, jax.Array]:
            loss = loss_fn(params, batch)
            return loss * scale, loss

        (_, loss), grads = jax.value_and_grad(scaled, has_aux=True)(params)
        grads = jax.tree.map(lambda g: g / scale, grads)
        finite = jnp.isfinite(optax.global_norm(grads))
        updates, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        return params, loss, (opt_state, jnp.where(finite, scale * 2, scale / 2))

    return train_step


_Make = tuple[Callable[..., jax.Array], Callable[[], Any], optax.GradientTransformation | None]
PROGRAMS: dict[str, _Make] = {
    "llama_f32": (_llama_loss("float32"), _llama_params, _adamw()),
    "llama_bf16": (_llama_loss("bfloat16"), _llama_params, _adamw()),
    "llama_remat": (_llama_loss("float32", True), _llama_params, _adamw()),
    "llama_dots_saved": (
        _llama_loss("bfloat16", jax.checkpoint_policies.dots_saveable),
        _llama_params,
        _adamw(),
    ),
    "gpt2": (_gpt2_loss, _gpt2_params, _adamw()),
    "gpt2_sgd": (_gpt2_loss, _gpt2_params, optax.sgd(1e-2)),
    "gpt2_momentum_metrics": (_gpt2_loss, _gpt2_params, optax.sgd(1e-2, momentum=0.9)),
    "gpt2_gradients": (_gpt2_loss, _gpt2_params, None),
    "gpt2_gradients_alone": (_gpt2_loss, _gpt2_params, None),
    "gpt2_muon_metrics": (_gpt2_loss, _gpt2_params, optax.contrib.muon(1e-2)),
    "gpt2_loss_scale": (_gpt2_loss, _gpt2_params, optax.sgd(1e-2, momentum=0.9)),
}


@functools.cache
def lower(name: str) -> Lowered:
    """Lowers a program of PROGRAMS; a step donates parameters and optimizer state."""
    loss_fn, make_params, optimizer = PROGRAMS[name]
    params, batch = make_params(), _tokens()
    arguments: tuple[Any, ...]
    if optimizer is None:
        arguments = (params, batch)
        derive = jax.grad if name.endswith("alone") else jax.value_and_grad
        lowered = jax.jit(derive(loss_fn)).lower(*arguments)
    else:
        state = optimizer.init(params)
        step = _step(loss_fn, optimizer, name.endswith("metrics"))
        if name.endswith("loss_scale"):
            state = (state, jnp.float32(1024))
            step = _scaled_step(loss_fn, optimizer)
        arguments = (params, state, batch)
        lowered = jax.jit(step, donate_argnums=(0, 1)).lower(*arguments)
    leaves = jax.tree_util.tree_leaves_with_path(arguments)
    return Lowered(
        debug_text=lowered.as_text(debug_info=True),
        plain_text=lowered.as_text(),
        forward_text=jax.jit(loss_fn).lower(params, batch).as_text(),
        arguments=[_warm(np.asarray(leaf), index) for index, (_, leaf) in enumerate(leaves)],
        paths=[jax.tree_util.keystr(path) for path, _ in leaves],
    )


def _warm(leaf: np.ndarray, index: int) -> np.ndarray:
    """Replaces zero state by nonzero values, as in the middle of training."""
    if leaf.dtype == np.int32 and leaf.ndim == 0:
        return np.array(7, np.int32)
    if leaf.dtype == np.float32 and not leaf.any():
        rng = np.random.default_rng(index)
        return np.square(1e-2 * rng.normal(size=leaf.shape)).astype(np.float32)
    return leaf
