"""The configuration of a model: sizes, variants, and how it is computed."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

__all__ = [
    "DTYPES",
    "FULL",
    "MODEL_TYPES",
    "REMAT",
    "ROPE_TYPES",
    "SLIDING",
    "LlamaConfig",
    "RopeScaling",
]

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
DTYPES = ("float32", "bfloat16", "float16")
REMAT = ("none", "full", "dots", "dots_no_batch")
FULL, SLIDING = "full_attention", "sliding_attention"
# The numbers that each type of scaling needs, and those that it may have.
ROPE_TYPES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "linear": (("factor",), ()),
    "dynamic": (("factor",), ()),
    "llama3": (("factor", "low_freq_factor", "high_freq_factor"), ("original",)),
    "yarn": (
        ("factor",),
        ("original", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"),
    ),
}


@dataclasses.dataclass(frozen=True)
class RopeScaling:
    """How rotary embeddings reach beyond the length of pre-training: `rope_scaling` of config.json.

    Attributes:
        rope_type: "linear", "dynamic" (NTK), "llama3" or "yarn".
        factor: by which contexts are longer.
        original_max_position_embeddings: length of pre-training, in tokens; of "llama3" and "yarn".
            The configuration's `max_position_embeddings` if None.
        low_freq_factor: of "llama3": waves longer than the original length divided by it are scaled
            by `factor`.
        high_freq_factor: of "llama3": waves shorter than the original length divided by it stay.
        beta_fast: of "yarn": channels that turn more often in the original length stay.
        beta_slow: of "yarn": channels that turn less often in it are scaled by `factor`.
        attention_factor: of "yarn": factor of queries and of keys; 0.1 log(factor) + 1 if None.
        mscale: of "yarn": replaces 0.1 in the numerator of `attention_factor` by 0.1 mscale.
        mscale_all_dim: the same of its denominator; both or none.
    """

    rope_type: str
    factor: float = 1.0
    original_max_position_embeddings: int | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    def __post_init__(self) -> None:
        if self.rope_type not in ROPE_TYPES:
            raise ValueError(
                f"rope_type '{self.rope_type}' is not supported: expected one of "
                f"{', '.join(sorted(ROPE_TYPES))}, or rope_scaling = None for the default"
            )
        needed, optional = ROPE_TYPES[self.rope_type]
        known = {"original" if f == "original_max_position_embeddings" else f for f in _given(self)}
        if missing := set(needed) - known:
            raise ValueError(f"rope_type '{self.rope_type}' needs {', '.join(sorted(missing))}")
        if extra := known - set(needed) - set(optional):
            raise ValueError(f"rope_type '{self.rope_type}' has no {', '.join(sorted(extra))}")
        if self.factor < 1:
            raise ValueError(f"rope_scaling: factor is {self.factor}; expected 1 or more")

    @staticmethod
    def of(value: Mapping[str, Any]) -> RopeScaling:
        """Returns the scaling that a dict of config.json describes.

        Raises:
            ValueError: an unknown type or key, or a number that the type needs and `value` lacks.
        """
        given = dict(value)
        given.setdefault("rope_type", given.pop("type", "none"))
        given.pop("type", None)
        fields = {field.name for field in dataclasses.fields(RopeScaling)}
        if unknown := sorted(set(given) - fields):
            raise ValueError(f"rope_scaling: no support for {', '.join(unknown)}")
        return RopeScaling(**given)

    def to_dict(self) -> dict[str, Any]:
        """Returns the dict of config.json, without what is None."""
        return {"rope_type": self.rope_type} | {name: getattr(self, name) for name in _given(self)}


def _given(scaling: RopeScaling) -> list[str]:
    names = [field.name for field in dataclasses.fields(scaling)][1:]
    return [name for name in names if getattr(scaling, name) is not None]


@dataclasses.dataclass(frozen=True)
class LlamaConfig:
    """A model of LLaMA's shape; fields are named as in Hugging Face's config.json.

    Hashable, so that it can be a static argument. The defaults are those of LLaMA 7B.

    Attributes:
        vocab_size: number of tokens.
        hidden_size: width of the residual stream.
        intermediate_size: width within SwiGLU.
        num_hidden_layers: number of layers.
        num_attention_heads: number of query heads.
        num_key_value_heads: number of key heads, which query heads share; as many if None.
        head_dim: channels of a head; hidden_size / num_attention_heads if None.
        rms_norm_eps: added to the mean square before a norm's root.
        rope_theta: base of the rotary embedding's wavelengths.
        rope_scaling: a `RopeScaling` or its dict in config.json; None for no scaling.
        max_position_embeddings: longest sequence of pre-training, in tokens. Longer ones run.
        tie_word_embeddings: whether the head is the embedding.
        attention_bias: whether the products of an attention have biases. "qwen2" always has
            them for queries, keys and values, and never for the output.
        sliding_window: number of latest tokens that a token attends to, itself included; None for
            all.
        layer_types: each layer's "full_attention" or "sliding_attention"; None for
            `sliding_window` in all layers.
        model_type: "llama", "mistral", "qwen2" (biases) or "qwen3" (norms of queries and keys).
        initializer_range: standard deviation of new matrices.
        bos_token_id, eos_token_id, pad_token_id: tokens that start and end texts and fill rows.
        remat: what the backward computes again: "none"; "full", a whole layer; "dots", all but
            products; "dots_no_batch", all but products with weights.
        scan_layers: whether layers are one `jax.lax.scan` over stacked parameters, or unrolled.
        dtype: format of activations and of products' operands: "float32", "bfloat16", "float16".
            Parameters may have another one.
    """

    vocab_size: int = 32000
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling | Mapping[str, Any] | None = None
    max_position_embeddings: int = 2048
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    sliding_window: int | None = None
    layer_types: tuple[str, ...] | None = None
    model_type: str = "llama"
    initializer_range: float = 0.02
    bos_token_id: int | None = None
    eos_token_id: int | tuple[int, ...] | None = None
    pad_token_id: int | None = None
    remat: str = "none"
    scan_layers: bool = False
    dtype: str = "float32"

    def __post_init__(self) -> None:
        def fix(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        if self.num_key_value_heads is None:
            fix("num_key_value_heads", self.num_attention_heads)
        if self.head_dim is None:
            if self.hidden_size % self.num_attention_heads:
                raise ValueError(
                    f"hidden_size {self.hidden_size} is no multiple of num_attention_heads "
                    f"{self.num_attention_heads}: give head_dim"
                )
            fix("head_dim", self.hidden_size // self.num_attention_heads)
        if isinstance(self.rope_scaling, Mapping):
            fix("rope_scaling", RopeScaling.of(self.rope_scaling))
        if isinstance(self.eos_token_id, list):
            fix("eos_token_id", tuple(self.eos_token_id))
        if self.layer_types is not None:
            fix("layer_types", tuple(self.layer_types))
        fix("dtype", _dtype_name(self.dtype))
        self._check()

    def _check(self) -> None:
        sizes = (
            *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"),
            *("num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"),
        )
        for name in sizes:
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}: expected a whole number above 0")
        for name, known in (("model_type", MODEL_TYPES), ("remat", REMAT), ("dtype", DTYPES)):
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"{name} is {value!r}: expected one of {', '.join(known)}")
        if self.num_attention_heads % self.kv_heads:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} is no multiple of "
                f"num_key_value_heads {self.num_key_value_heads}"
            )
        if self.head_size % 2:
            raise ValueError(f"head_dim is {self.head_dim}: rotary embeddings turn pairs, so even")
        if self.sliding_window is not None and self.sliding_window < 1:
            raise ValueError(
                f"sliding_window is {self.sliding_window}: expected 1 or more, or None"
            )
        if self.attention_bias and self.model_type == "mistral":
            raise ValueError("attention_bias: model_type 'mistral' has no biases; use 'llama'")
        self._check_layer_types()

    def _check_layer_types(self) -> None:
        if self.layer_types is None:
            return
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(
                f"layer_types has {len(self.layer_types)} entries, and num_hidden_layers is "
                f"{self.num_hidden_layers}"
            )
        if unknown := sorted(set(self.layer_types) - {FULL, SLIDING}):
            raise ValueError(f"layer_types has {', '.join(unknown)}: expected {FULL} or {SLIDING}")
        if SLIDING in self.layer_types and self.sliding_window is None:
            raise ValueError(f"layer_types has {SLIDING}, and sliding_window is None")

    @property
    def kv_heads(self) -> int:
        """The number of key heads."""
        assert self.num_key_value_heads is not None
        return self.num_key_value_heads

    @property
    def head_size(self) -> int:
        """The channels of a head."""
        assert self.head_dim is not None
        return self.head_dim

    @property
    def scaling(self) -> RopeScaling | None:
        """The scaling of rotary embeddings."""
        assert not isinstance(self.rope_scaling, Mapping)
        return self.rope_scaling

    @property
    def qkv_bias(self) -> bool:
        """Whether queries, keys and values have biases."""
        return self.attention_bias or self.model_type == "qwen2"

    @property
    def output_bias(self) -> bool:
        """Whether the output of an attention has a bias."""
        return self.attention_bias and self.model_type != "qwen2"

    @property
    def qk_norm(self) -> bool:
        """Whether each head's queries and keys are normed."""
        return self.model_type == "qwen3"

    @property
    def windows(self) -> tuple[int | None, ...]:
        """Each layer's sliding window, or None."""
        kinds = self.layer_types or (SLIDING,) * self.num_hidden_layers
        return tuple(self.sliding_window if kind == SLIDING else None for kind in kinds)

    def replace(self, **changes: Any) -> LlamaConfig:
        """Returns the configuration with other values of some fields."""
        return dataclasses.replace(self, **changes)

    @staticmethod
    def named(name: str, **changes: Any) -> LlamaConfig:
        """Returns a published model's configuration, such as "llama-3-8b"; `names()` lists them.

        Raises:
            ValueError: no configuration has this name.
        """
        from scalify.models.llama.named import named

        return named(name).replace(**changes)

    @staticmethod
    def from_json(path: str | pathlib.Path) -> LlamaConfig:
        """Returns the configuration in a config.json of `transformers`, or of its folder.

        Raises:
            ValueError: a field is unknown, missing, or asks for what these functions do not
                compute.
            OSError: the file cannot be read.
        """
        from scalify.models.llama import config_json

        return config_json.read(pathlib.Path(path))

    def to_json(self, dtype: str | None = None) -> str:
        """Returns the text of a config.json that `transformers` and `from_json` read.

        Args:
            dtype: format of the stored weights; that of the activations if None.
        """
        from scalify.models.llama import config_json

        return config_json.write(self, dtype)


def _dtype_name(value: Any) -> str:
    try:
        return np.dtype(getattr(jnp, value) if isinstance(value, str) else value).name
    except (AttributeError, TypeError):
        return str(value)
