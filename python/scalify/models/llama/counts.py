"""Parameters and floating-point operations of a model, without making it."""

from __future__ import annotations

import math

from scalify.models.llama.config import LlamaConfig
from scalify.models.llama.parameters import layer_shapes

__all__ = ["flops_per_token", "param_count"]


def param_count(config: LlamaConfig) -> int:
    """Returns the number of elements of all parameters."""
    layer = sum(math.prod(shape) for shape in layer_shapes(config).values())
    embeddings = config.vocab_size * config.hidden_size * (1 if config.tie_word_embeddings else 2)
    return embeddings + config.num_hidden_layers * layer + config.hidden_size


def flops_per_token(config: LlamaConfig, length: int | None = None) -> float:
    """Returns the operations of one training step per token, as the MFU counts them.

    Six for each parameter that multiplies (forward, and twice that in the backward), and
    12 L H Q T for the products of attention, without credit for masks or for what remat computes
    again (Chowdhery et al., arXiv 2204.02311, appendix B).

    Args:
        config: the model.
        length: of a sequence T, in tokens; `max_position_embeddings` if None. Windows shorten it.
    """
    length = config.max_position_embeddings if length is None else length
    layer = sum(math.prod(shape) for shape in layer_shapes(config).values() if len(shape) == 2)
    head = config.vocab_size * config.hidden_size
    heads = config.num_attention_heads * config.head_size
    seen = sum(min(length, window or length) for window in config.windows)
    return 6.0 * (config.num_hidden_layers * layer + head) + 12.0 * heads * seen
