"""Hugging Face's config.json, in and out.

Old files have `rope_theta`, `rope_scaling` and `torch_dtype`, those of transformers 5
`rope_parameters` and `dtype`. Both are read; the old names are written, which both versions read.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

from scalify.models.llama.config import FULL, MODEL_TYPES, SLIDING, LlamaConfig

__all__ = ["read", "write"]

OURS = ("remat", "scan_layers", "dtype")
REQUIRED = (
    *("model_type", "vocab_size", "hidden_size", "intermediate_size"),
    *("num_hidden_layers", "num_attention_heads"),
)
# Fields that a file may leave out, as transformers' classes fill them in.
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {
        "num_key_value_heads": 8,
        "sliding_window": 4096,
        "max_position_embeddings": 131072,
    },
    "qwen2": {
        "num_key_value_heads": 32,
        "sliding_window": 4096,
        "max_position_embeddings": 32768,
    },
    "qwen3": {
        "num_key_value_heads": 32,
        "head_dim": 128,
        "sliding_window": 4096,
        "max_position_embeddings": 32768,
    },
}
# Fields that do not change what the model computes.
IGNORED = {
    *("architectures", "transformers_version", "_name_or_path", "use_cache", "pretraining_tp"),
    *("return_dict", "output_attentions", "output_hidden_states", "chunk_size_feed_forward"),
    *("id2label", "label2id", "problem_type", "_attn_implementation_autoset"),
    *("max_sequence_length", "torchscript", "use_bfloat16"),
}
# Fields that these functions compute with one value only.
FIXED: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu", "swish"),
    "mlp_bias": (False, None),
    "attention_dropout": (0, None),
    "is_encoder_decoder": (False,),
    "partial_rotary_factor": (1, None),
}


def read(path: pathlib.Path) -> LlamaConfig:
    """Returns the configuration of a file, or of the config.json in a folder.

    Raises:
        ValueError: as `LlamaConfig.from_json` says.
        OSError: the file cannot be read.
    """
    path = path / "config.json" if path.is_dir() else path
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"'{path}' is no JSON: {error}") from error
    try:
        return _config(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"'{path}': {error}") from error


def _config(given: dict[str, Any]) -> LlamaConfig:
    if not isinstance(given, dict):
        raise ValueError("expected an object with a model's fields")
    given = {name: value for name, value in given.items() if name not in IGNORED}
    if missing := [name for name in REQUIRED if given.get(name) is None]:
        raise ValueError(f"{', '.join(missing)} missing")
    kind = given["model_type"]
    if kind not in MODEL_TYPES:
        raise ValueError(f"model_type is '{kind}': expected one of {', '.join(MODEL_TYPES)}")
    for name, allowed in FIXED.items():
        if (value := given.pop(name, allowed[0])) not in allowed:
            raise ValueError(f"{name} is {value!r}: only {allowed[0]!r} is supported")
    fields = DEFAULTS[kind] | given
    fields["dtype"] = fields.pop("torch_dtype", None) or fields.get("dtype") or "float32"
    _take_rope(fields)
    _take_windows(fields)
    known = {field.name for field in dataclasses.fields(LlamaConfig)}
    if unknown := sorted(set(fields) - known):
        raise ValueError(
            f"no support for {', '.join(unknown)}; remove from the file what does not matter"
        )
    return LlamaConfig(**fields)


def _take_rope(fields: dict[str, Any]) -> None:
    """Replaces `rope_parameters` by `rope_theta` and `rope_scaling`."""
    scaling = dict(fields.pop("rope_parameters", None) or fields.get("rope_scaling") or {})
    if (theta := scaling.pop("rope_theta", None)) is not None:
        fields["rope_theta"] = theta
    if scaling.get("partial_rotary_factor", 1) == 1:
        scaling.pop("partial_rotary_factor", None)
    kind = scaling.get("rope_type", scaling.get("type"))
    fields["rope_scaling"] = scaling if scaling and kind != "default" else None
    # Not a setting of these two types, though transformers may write it.
    if kind in ("linear", "dynamic"):
        scaling.pop("original_max_position_embeddings", None)


def _take_windows(fields: dict[str, Any]) -> None:
    """Replaces Qwen's `use_sliding_window` and `max_window_layers` by `layer_types`."""
    used = fields.pop("use_sliding_window", fields["model_type"] == "mistral")
    first = fields.pop("max_window_layers", 28)
    if fields["model_type"] in ("llama", "mistral"):
        return
    if not used:
        fields["sliding_window"] = fields["layer_types"] = None
    if fields.get("layer_types") is None and fields.get("sliding_window") is not None:
        kinds = (FULL if i < first else SLIDING for i in range(fields["num_hidden_layers"]))
        fields["layer_types"] = tuple(kinds)


def write(config: LlamaConfig, dtype: str | None = None) -> str:
    """Returns the text of a config.json, as `LlamaConfig.to_json` says.

    Raises:
        ValueError: transformers' class of this `model_type` has no field for the configuration.
    """
    fields = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if field.name not in OURS
    }
    kind = config.model_type
    fields["rope_scaling"] = None if config.scaling is None else config.scaling.to_dict()
    if kind == "llama" and config.sliding_window is not None:
        raise ValueError("config.json of model_type 'llama' has no sliding_window; use 'mistral'")
    if kind in ("llama", "mistral"):
        if len(set(config.windows)) > 1:
            raise ValueError(f"config.json of model_type '{kind}' has no layer_types; use 'qwen2'")
        del fields["layer_types"]
    else:
        fields["use_sliding_window"] = config.sliding_window is not None
        fields["layer_types"] = [SLIDING if window else FULL for window in config.windows]
    if kind == "mistral":
        fields["sliding_window"] = config.windows[0]
    if kind in ("mistral", "qwen2"):
        del fields["attention_bias"]
    names = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
    fields["architectures"] = [f"{names[kind]}ForCausalLM"]
    fields["hidden_act"] = "silu"
    fields["torch_dtype"] = dtype or config.dtype
    return json.dumps(fields, indent=2, sort_keys=True) + "\n"
