"""Configurations of published models, by name.

Sizes are those of the models' config.json. Sources: LLaMA (arXiv 2302.13971, table 2), Llama 2
(2307.09288), Llama 3 (2407.21783, table 3), Mistral 7B (2310.06825, table 1), Qwen2 (2407.10671,
table 1), Qwen3 (2505.09388, table 1).
"""

from __future__ import annotations

from typing import Any

from scalify.models.llama.config import LlamaConfig

__all__ = ["named", "names"]

# Hidden size, intermediate size, layers, query heads, key heads.
_SIZES = {
    "7b": (4096, 11008, 32, 32, 32),
    "13b": (5120, 13824, 40, 40, 40),
    "30b": (6656, 17920, 60, 52, 52),
    "65b": (8192, 22016, 80, 64, 64),
    "llama-2-70b": (8192, 28672, 80, 64, 8),
    "llama-3-8b": (4096, 14336, 32, 32, 8),
    "llama-3.2-1b": (2048, 8192, 16, 32, 8),
    "llama-3.2-3b": (3072, 8192, 28, 24, 8),
    "qwen2-0.5b": (896, 4864, 24, 14, 2),
    "qwen2-1.5b": (1536, 8960, 28, 12, 2),
    "qwen2-7b": (3584, 18944, 28, 28, 4),
    "qwen2-72b": (8192, 29568, 80, 64, 8),
    "qwen3-0.6b": (1024, 3072, 28, 16, 8),
    "qwen3-1.7b": (2048, 6144, 28, 16, 8),
    "qwen3-4b": (2560, 9728, 36, 32, 8),
    "qwen3-8b": (4096, 12288, 36, 32, 8),
}


def _scaled(factor: float) -> dict[str, Any]:
    """Returns the fields in which Llama 3.1 and 3.2 differ from Llama 3."""
    scaling = {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    return {"rope_scaling": scaling, "max_position_embeddings": 131072}


_TEXT: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2}
_LLAMA: dict[str, Any] = {**_TEXT, "max_position_embeddings": 2048}
_LLAMA2: dict[str, Any] = {**_TEXT, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5}
_LLAMA3: dict[str, Any] = {
    "vocab_size": 128256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "max_position_embeddings": 8192,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
}
_MISTRAL: dict[str, Any] = {
    **_TEXT,
    "model_type": "mistral",
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
}
_QWEN: dict[str, Any] = {
    "vocab_size": 151936,
    "model_type": "qwen2",
    "rope_theta": 1000000.0,
    "max_position_embeddings": 131072,
    "bos_token_id": 151643,
    "eos_token_id": 151643,
}
_QWEN3: dict[str, Any] = {
    **_QWEN,
    "model_type": "qwen3",
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "eos_token_id": 151645,
}
_TIED = {"tie_word_embeddings": True}

# Each model's sizes and its other fields.
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"llama-{size}": (size, _LLAMA) for size in ("7b", "13b", "30b", "65b")},
    **{f"llama-2-{size}": (size, _LLAMA2) for size in ("7b", "13b")},
    "llama-2-70b": ("llama-2-70b", _LLAMA2),
    "llama-3-8b": ("llama-3-8b", _LLAMA3),
    "llama-3-70b": ("llama-2-70b", _LLAMA3),
    "llama-3.1-8b": ("llama-3-8b", {**_LLAMA3, **_scaled(8.0)}),
    "llama-3.1-70b": ("llama-2-70b", {**_LLAMA3, **_scaled(8.0)}),
    "llama-3.2-1b": ("llama-3.2-1b", {**_LLAMA3, **_scaled(32.0), **_TIED}),
    "llama-3.2-3b": ("llama-3.2-3b", {**_LLAMA3, **_scaled(32.0), **_TIED}),
    "mistral-7b": ("llama-3-8b", _MISTRAL),
    "qwen2-0.5b": ("qwen2-0.5b", {**_QWEN, **_TIED}),
    "qwen2-1.5b": ("qwen2-1.5b", {**_QWEN, **_TIED}),
    "qwen2-7b": ("qwen2-7b", {**_QWEN, "vocab_size": 152064}),
    "qwen2-72b": ("qwen2-72b", {**_QWEN, "vocab_size": 152064, "rms_norm_eps": 1e-5}),
    "qwen3-0.6b": ("qwen3-0.6b", {**_QWEN3, **_TIED}),
    "qwen3-1.7b": ("qwen3-1.7b", {**_QWEN3, **_TIED}),
    "qwen3-4b": ("qwen3-4b", {**_QWEN3, **_TIED}),
    "qwen3-8b": ("qwen3-8b", _QWEN3),
}


def names() -> tuple[str, ...]:
    """Returns the names that `LlamaConfig.named` knows."""
    return tuple(_MODELS)


def named(name: str) -> LlamaConfig:
    """Returns a published model's configuration; upper case and "llama2" for "llama-2" are fine.

    Raises:
        ValueError: no configuration has this name.
    """
    plain = name.lower().replace("llama2", "llama-2").replace("llama3", "llama-3")
    # 7B, 13B, 30B and 65B alone mean the first LLaMA.
    plain = plain if plain in _MODELS else f"llama-{plain}"
    if plain not in _MODELS:
        raise ValueError(f"no model is named '{name}': expected one of {', '.join(names())}")
    sizes, fields = _MODELS[plain]
    hidden, intermediate, layers, heads, kv_heads = _SIZES[sizes]
    return LlamaConfig(
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        **fields,
    )
