"""Sizes of the example model, and the parameters of its training."""

from __future__ import annotations

import dataclasses

__all__ = ["ModelConfig", "TrainConfig"]


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """A LLaMA: pre-norm blocks of grouped-query attention and SwiGLU, untied head.

    The defaults are deep and narrow on purpose: errors of scale rules accumulate with depth, so
    twelve layers show errors that four hide.
    """

    vocab: int = 256
    dim: int = 96
    layers: int = 12
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 256
    seq: int = 128
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    # Type of activations, and of weights at their use; masters stay F32.
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.dim % self.heads or (self.dim // self.heads) % 2:
            raise ValueError(
                f"dim {self.dim} over {self.heads} heads gives no even head size; "
                "RoPE turns pairs of channels"
            )
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is no multiple of kv_heads {self.kv_heads}")
        if self.dtype not in ("float32", "bfloat16"):
            raise ValueError(f"dtype '{self.dtype}' is neither 'float32' nor 'bfloat16'")

    @property
    def head_dim(self) -> int:
        """Channels of one attention head."""
        return self.dim // self.heads


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """AdamW with linear warm-up, cosine decay and clipping by the global norm."""

    steps: int = 400
    batch: int = 16
    learning_rate: float = 2e-3
    warmup: int = 80
    final_fraction: float = 0.1
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    clip: float = 1.0
    seed: int = 0
