"""The tree of parameters: shapes, initial values, and the two forms of its layers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalify.models.llama.config import LlamaConfig

__all__ = ["Params", "init", "layer_shapes", "shapes", "stack", "unstack"]

Params = dict[str, Any]


def layer_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of one layer's parameters; matrices are [inputs, outputs]."""
    hidden, width, head = config.hidden_size, config.intermediate_size, config.head_size
    queries, keys = config.num_attention_heads * head, config.kv_heads * head
    found: dict[str, tuple[int, ...]] = {
        "attention_norm": (hidden,),
        "wq": (hidden, queries),
        "wk": (hidden, keys),
        "wv": (hidden, keys),
        "wo": (queries, hidden),
        "ffn_norm": (hidden,),
        "w_gate": (hidden, width),
        "w_up": (hidden, width),
        "w_down": (width, hidden),
    }
    if config.qkv_bias:
        found |= {"bq": (queries,), "bk": (keys,), "bv": (keys,)}
    if config.output_bias:
        found["bo"] = (hidden,)
    if config.qk_norm:
        found |= {"q_norm": (head,), "k_norm": (head,)}
    return found


def shapes(config: LlamaConfig) -> Params:
    """Returns the tree of `init` with shapes (tuples of int) as its leaves.

    It is {"embed": [V, D], "layers": ..., "final_norm": [D], "head": [D, V]}, without "head" if
    embeddings are tied. "layers" is a list of dicts, or with `scan_layers` one dict whose arrays
    have a leading axis of layers.
    """
    one, count = layer_shapes(config), config.num_hidden_layers
    found: Params = {
        "embed": (config.vocab_size, config.hidden_size),
        "layers": [dict(one) for _ in range(count)],
        "final_norm": (config.hidden_size,),
    }
    if config.scan_layers:
        found["layers"] = {name: (count, *shape) for name, shape in one.items()}
    if not config.tie_word_embeddings:
        found["head"] = (config.hidden_size, config.vocab_size)
    return found


def init(config: LlamaConfig, key: jax.Array, dtype: Any = jnp.float32) -> Params:
    """Returns random parameters, the same draws with and without `scan_layers`.

    Matrices are normal with deviation `initializer_range`, those that write into the residual
    stream (`wo`, `w_down`) with `initializer_range` / sqrt(2 layers), so that the stream's variance
    does not grow with depth (Radford et al. 2019, section 2.3; Megatron-LM does the same). Gains
    are one, biases zero.

    Args:
        config: the model.
        key: a key of `jax.random`.
        dtype: format of the parameters, F32 or BF16.
    """
    embed_key, head_key, layers_key = jax.random.split(key, 3)
    layer_keys = jax.random.split(layers_key, config.num_hidden_layers)
    deviation = config.initializer_range
    residual = deviation / np.sqrt(2 * config.num_hidden_layers)
    names = sorted(layer_shapes(config))

    def normal(key: jax.Array, shape: Sequence[int], deviation: float) -> jax.Array:
        return (deviation * jax.random.normal(key, shape, jnp.float32)).astype(dtype)

    def leaf(name: str, key: jax.Array) -> jax.Array:
        shape = layer_shapes(config)[name]
        if name.endswith("norm"):
            return jnp.ones(shape, dtype)
        if name.startswith("b"):
            return jnp.zeros(shape, dtype)
        size = residual if name in ("wo", "w_down") else deviation
        return normal(jax.random.fold_in(key, names.index(name)), shape, size)

    def layers() -> Any:
        if config.scan_layers:
            # One layer at a time, so that no array exists twice.
            return {n: jax.lax.map(functools.partial(leaf, n), layer_keys) for n in names}
        return [{n: leaf(n, k) for n in names} for k in layer_keys]

    found: Params = {
        "embed": normal(embed_key, (config.vocab_size, config.hidden_size), deviation),
        "layers": layers(),
        "final_norm": jnp.ones(config.hidden_size, dtype),
    }
    if not config.tie_word_embeddings:
        found["head"] = normal(head_key, (config.hidden_size, config.vocab_size), deviation)
    return found


def stack(layers: Sequence[Params]) -> Params:
    """Returns the layers' arrays with a leading axis of layers, as `scan_layers` has them."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)


def unstack(layers: Params) -> list[Params]:
    """Returns the list of layers that `stack` joined."""
    count = len(jax.tree.leaves(layers)[0])
    return [jax.tree.map(lambda leaf, i=i: leaf[i], layers) for i in range(count)]
