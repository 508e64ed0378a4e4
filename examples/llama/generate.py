"""Text from trained weights, one byte at a time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import model
from config import ModelConfig

__all__ = ["generate"]


def generate(
    params: Any, cfg: ModelConfig, prompt: str, length: int, temperature: float = 0.7, seed: int = 0
) -> str:
    """Returns the prompt continued by `length` sampled bytes.

    The window always has cfg.seq bytes, so that one compiled program suffices. The attention is
    causal, so bytes after the last one have no effect.
    """

    def last_logits(params: Any, window: jax.Array, last: jax.Array) -> jax.Array:
        return model.logits(params, window[None], cfg)[0, last]

    predict = jax.jit(last_logits)
    rng = np.random.default_rng(seed)
    params = jax.tree.map(jnp.asarray, params)
    tokens = list(prompt.encode())
    for _ in range(length):
        context = tokens[-cfg.seq :]
        window = np.zeros(cfg.seq, np.int32)
        window[: len(context)] = context
        scores = np.asarray(predict(params, window, len(context) - 1), np.float64) / temperature
        chance = np.exp(scores - scores.max())
        tokens.append(int(rng.choice(cfg.vocab, p=chance / chance.sum())))
    return bytes(token % 256 for token in tokens).decode("utf-8", errors="replace")
