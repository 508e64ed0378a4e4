"""Generation: prompts continued one token at a time, with a cache of keys and values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalify.models.llama.cache import Cache, init_cache
from scalify.models.llama.config import LlamaConfig
from scalify.models.llama.model import apply
from scalify.models.llama.parameters import Params

__all__ = ["generate"]

# Lengths of prompts and caches are rounded up to a multiple, so that few programs are compiled.
ROUNDED = 64


@functools.partial(jax.jit, static_argnames=("config", "capacity"))
def _start(
    params: Params, tokens: jax.Array, padding: jax.Array, config: LlamaConfig, capacity: int
) -> tuple[jax.Array, Cache]:
    """Returns the logits [B, V] after the prompts, and the cache; `padding` [B] is on the left."""
    place = jnp.arange(tokens.shape[1])[None] - padding[:, None]
    # Padding is a document of its own.
    segments, positions = (place >= 0).astype(jnp.int32), jnp.maximum(place, 0)
    cache = init_cache(config, len(tokens), capacity)
    logits, cache = apply(
        params, tokens, config, positions=positions, segments=segments, cache=cache
    )
    return logits[:, -1], cache


@functools.partial(jax.jit, static_argnames="config", donate_argnames="cache")
def _continue(
    params: Params, token: jax.Array, padding: jax.Array, cache: Cache, config: LlamaConfig
) -> tuple[jax.Array, Cache]:
    positions = (cache["length"] - padding)[:, None]
    logits, cache = apply(params, token[:, None], config, positions=positions, cache=cache)
    return logits[:, -1], cache


@functools.partial(jax.jit, static_argnames=("top_k",))
def _sample(
    key: jax.Array, logits: jax.Array, temperature: float, top_k: int | None, top_p: float
) -> jax.Array:
    """Returns a token of each row of logits [B, V].

    Only the `top_k` most likely tokens, and of these the fewest that reach the probability `top_p`
    (Holtzman et al., arXiv 1904.09751).
    """
    logits = logits / temperature
    ordered = jnp.sort(logits, axis=-1)[:, ::-1]
    if top_k is not None:
        ordered = ordered[:, : min(top_k, ordered.shape[1])]
    chance = jax.nn.softmax(ordered, axis=-1)
    # The most likely token always stays.
    inside = jnp.cumsum(chance, axis=-1) - chance < top_p
    least = jnp.min(jnp.where(inside, ordered, jnp.inf), axis=-1, keepdims=True)
    return jax.random.categorical(key, jnp.where(logits >= least, logits, -jnp.inf), axis=-1)


def generate(
    params: Params,
    config: LlamaConfig,
    prompt: Sequence[int] | Sequence[Sequence[int]],
    max_new_tokens: int = 64,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    seed: int = 0,
    stop: Sequence[int] | None = None,
    on_token: Callable[[list[int]], Any] | None = None,
) -> Any:
    """Returns the tokens that follow a prompt, or a list of them for a list of prompts.

    Args:
        params: the tree of `init`.
        config: the model.
        prompt: tokens, or several prompts of any lengths.
        max_new_tokens: number of tokens at most.
        temperature: of sampling; 0 takes the most likely token.
        top_k: samples among so many of the most likely tokens; None for all.
        top_p: samples among the fewest tokens whose probabilities sum to it.
        seed: of sampling.
        stop: tokens that end a text, the end included in the result; `eos_token_id` if None.
        on_token: is called with each step's tokens, one of each prompt.

    Raises:
        ValueError: a prompt is empty or has tokens outside of the vocabulary.
    """
    single = not len(prompt) or np.ndim(prompt[0]) == 0
    prompts = [np.asarray(row, np.int32) for row in ([prompt] if single else prompt)]
    for index, row in enumerate(prompts):
        if not row.size or row.min() < 0 or row.max() >= config.vocab_size:
            raise ValueError(
                f"prompt {index} has {row.size} tokens: expected some, from 0 to "
                f"{config.vocab_size - 1}"
            )
    if stop is None:
        ends = config.eos_token_id
        stop = () if ends is None else (ends,) if isinstance(ends, int) else ends
    width = _rounded(max(map(len, prompts)))
    tokens = np.zeros((len(prompts), width), np.int32)
    for target, row in zip(tokens, prompts, strict=True):
        target[width - len(row) :] = row
    padding = jnp.asarray([width - len(row) for row in prompts], jnp.int32)

    params = jax.tree.map(jnp.asarray, params)
    logits, cache = _start(params, tokens, padding, config, _rounded(width + max_new_tokens))
    found: list[list[int]] = [[] for _ in prompts]
    ended = [False] * len(prompts)
    key = jax.random.key(seed)
    for index in range(max_new_tokens):
        if temperature == 0:
            token = jnp.argmax(logits, axis=-1)
        else:
            token = _sample(jax.random.fold_in(key, index), logits, temperature, top_k, top_p)
        chosen = np.asarray(token).tolist()
        for place, text in enumerate(found):
            if not ended[place]:
                text.append(chosen[place])
                ended[place] = chosen[place] in stop
        if on_token is not None:
            on_token(chosen)
        if all(ended) or index + 1 == max_new_tokens:
            break
        logits, cache = _continue(params, token.astype(jnp.int32), padding, cache, config)
    return found[0] if single else found


def _rounded(length: int) -> int:
    return -(-length // ROUNDED) * ROUNDED
