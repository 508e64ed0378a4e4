"""The model of a run: its configuration, its weights, and how many FLOPs a token needs."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalify.models import llama
from scalify.train.settings import ModelSection

__all__ = ["count", "flops_of_token", "initial", "model_config"]


def model_config(section: ModelSection, vocabulary: int) -> llama.LlamaConfig:
    """Returns the configuration of the model; its vocabulary is by default that of the data.

    Raises:
        OSError: a file cannot be read.
        ValueError: a field is unknown or wrong.
    """
    override = dict(section.override)
    if section.name is not None:
        config = llama.named(section.name)
    elif section.config is not None or section.weights is not None:
        path = section.config or str(pathlib.Path(str(section.weights)) / "config.json")
        config = llama.LlamaConfig.from_json(path)
    else:
        config = llama.LlamaConfig(**({"vocab_size": vocabulary} | override))
        override = {}
    try:
        config = dataclasses.replace(config, **override)
    except TypeError as error:
        raise ValueError(f"model.override: {error}") from error
    if config.vocab_size < vocabulary:
        raise ValueError(
            f"the model has {config.vocab_size} tokens and the data {vocabulary}: they come from "
            "different tokenizers"
        )
    return config


def initial(section: ModelSection, config: llama.LlamaConfig, seed: int) -> Any:
    """Returns the weights that training starts from: of a folder, or drawn from the seed."""
    dtype = jnp.dtype(section.dtype)
    if section.weights is not None:
        return llama.load(section.weights, config, dtype)
    return jax.jit(lambda key: llama.init(config, key, dtype))(jax.random.key(seed))


def count(tree: Any) -> int:
    """Returns the number of elements of a tree of arrays."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(tree))


def flops_of_token(params: Any, config: llama.LlamaConfig, sequence: int) -> float:
    """Returns the FLOPs that training needs for a token, forward and backward.

    6 N + 12 L D T: Chowdhery et al. 2022 (PaLM), appendix B, with the parameters N that a token is
    multiplied by (no table of embeddings, but the head), L layers, D = heads times head size and
    T tokens of a sample. Recomputation does not count.
    """
    table = config.vocab_size * config.hidden_size
    parameters = count(params) - (0 if config.tie_word_embeddings else table)
    width = config.num_attention_heads * config.head_dim
    return 6.0 * parameters + 12.0 * config.num_hidden_layers * width * sequence
