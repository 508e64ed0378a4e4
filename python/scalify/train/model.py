"""The model of a run: its configuration, and the weights that training starts from."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalify._diagnostics import warn
from scalify.models import llama
from scalify.train.settings import ModelSection

__all__ = ["check_length", "count", "initial", "model_config"]


def model_config(section: ModelSection, vocabulary: int) -> llama.LlamaConfig:
    """Returns the configuration of the model; its vocabulary is by default that of the data.

    Raises:
        OSError: a file cannot be read.
        ValueError: a field is unknown or wrong.
    """
    override = dict(section.override)
    known = {field.name for field in dataclasses.fields(llama.LlamaConfig)}
    for key in override:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1, 0.5)
            guess = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(known))}"
            raise ValueError(f"unknown key 'model.override.{key}': {guess}")
    try:
        if section.name is not None:
            config = llama.LlamaConfig.named(section.name)
        elif section.config is not None or section.weights is not None:
            config = llama.LlamaConfig.from_json(section.config or str(section.weights))
        else:
            config, override = llama.LlamaConfig(**({"vocab_size": vocabulary} | override)), {}
        if config.head_size * config.num_attention_heads == config.hidden_size:
            # The head size follows from the others, so it does not stay when they change.
            override = {"head_dim": None} | override if override else override
        config = dataclasses.replace(config, **override)
    except (TypeError, ValueError) as error:
        raise ValueError(f"model: {error}") from error
    if config.vocab_size < vocabulary:
        raise ValueError(
            f"the model has {config.vocab_size} tokens and the data {vocabulary}: they come from "
            "different tokenizers"
        )
    return config


def check_length(config: llama.LlamaConfig, sequence: int) -> None:
    """Warns if samples are longer than the sequences that exported weights declare."""
    if sequence > config.max_position_embeddings:
        warn(
            f"data.sequence = {sequence} is longer than the {config.max_position_embeddings} "
            "tokens that the exported model will declare as its longest sequence: set "
            f"model.override.max_position_embeddings = {sequence}"
        )


def initial(section: ModelSection, config: llama.LlamaConfig, seed: int) -> Any:
    """Returns the weights that training starts from: of a folder, or drawn from the seed.

    Raises:
        OSError: a file cannot be read.
        ValueError: the folder's weights are not those of the configuration.
    """
    dtype = jnp.dtype(section.dtype)
    if section.weights is not None:
        return llama.hf.load(section.weights, config, dtype=dtype)[1]
    # Not under jit: one program of all layers compiles for minutes, one of each shape in seconds.
    return llama.init(config, jax.random.key(seed), dtype)


def count(tree: Any) -> int:
    """Returns the number of elements of a tree of arrays."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(tree))
