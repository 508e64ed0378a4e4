"""LLaMA and the models of its shape (Mistral, Qwen2, Qwen3), as plain JAX functions of a pytree.

`LlamaConfig` has the fields of Hugging Face's config.json. `init` makes parameters, `apply` logits,
`loss` a scalar; `generate` continues prompts with a cache of keys and values. `hf.load` and
`hf.save` read and write the checkpoints of `transformers`.
"""

from __future__ import annotations

from scalify.models.llama import hf
from scalify.models.llama.cache import init_cache
from scalify.models.llama.config import LlamaConfig, RopeScaling
from scalify.models.llama.counts import flops_per_token, param_count
from scalify.models.llama.decode import generate
from scalify.models.llama.model import apply, loss, loss_sums
from scalify.models.llama.named import names
from scalify.models.llama.parameters import init, shapes, stack, unstack

__all__ = [
    "LlamaConfig",
    "RopeScaling",
    "apply",
    "flops_per_token",
    "generate",
    "hf",
    "init",
    "init_cache",
    "loss",
    "loss_sums",
    "names",
    "param_count",
    "shapes",
    "stack",
    "unstack",
]
