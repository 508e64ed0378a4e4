"""The cache of keys and values that generation keeps."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from scalify.models.llama.config import LlamaConfig

__all__ = ["Cache", "init_cache"]

Cache = dict[str, Any]


def init_cache(config: LlamaConfig, batch: int, length: int) -> Cache:
    """Returns an empty cache for `length` tokens of each of `batch` texts.

    It is {"keys", "values": [B, S, K, H] of each layer in the configuration's format, a list or
    with `scan_layers` one array [L, B, S, K, H]; "segments": [B, S] int32; "length": int32, the
    number of tokens so far}.
    """
    layers, shape = config.num_hidden_layers, (batch, length, config.kv_heads, config.head_size)

    def empty() -> Any:
        if config.scan_layers:
            return jnp.zeros((layers, *shape), config.dtype)
        return [jnp.zeros(shape, config.dtype) for _ in range(layers)]

    return {
        "keys": empty(),
        "values": empty(),
        "segments": jnp.zeros((batch, length), jnp.int32),
        "length": jnp.zeros((), jnp.int32),
    }
