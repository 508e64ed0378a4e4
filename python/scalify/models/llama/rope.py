"""Rotary position embeddings (Su et al., arXiv 2104.09864) and their scaling to longer contexts."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from scalify.models.llama.config import LlamaConfig, RopeScaling

__all__ = ["rotate", "tables"]


def _frequencies(config: LlamaConfig) -> np.ndarray:
    """Returns the unscaled angle per token of each channel pair [H/2], F32."""
    size = config.head_size
    exponent = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    return (1.0 / np.power(np.float32(config.rope_theta), exponent)).astype(np.float32)


def _dynamic(config: LlamaConfig, factor: float, positions: jax.Array) -> jax.Array:
    """Returns frequencies of a base that grows with the longest position ("NTK-aware" scaling).

    The base becomes theta (factor L / M - factor + 1)^(H / (H - 2)) for a length L above M =
    max_position_embeddings (the formula of `transformers`' "dynamic").
    """
    size, limit = config.head_size, config.max_position_embeddings
    length = jnp.maximum(jnp.max(positions) + 1, limit).astype(jnp.float32)
    grown = (factor * length / limit) - (factor - 1)
    base = config.rope_theta * grown ** (size / (size - 2))
    return 1.0 / base ** (jnp.arange(0, size, 2, dtype=jnp.float32) / size)


def _llama3(frequency: np.ndarray, scaling: RopeScaling, original: int) -> np.ndarray:
    """Returns Llama 3.1's frequencies: long waves are scaled, short ones stay, between them both.

    Source: `apply_scaling` of Meta's llama-models (models/llama3/model.py).
    """
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    assert low is not None and high is not None
    turns = np.float32(original) * frequency / np.float32(2 * math.pi)
    blend = np.clip((turns - low) / (high - low), 0, 1)
    return ((1 - blend) * frequency / scaling.factor + blend * frequency).astype(np.float32)


def _yarn(
    config: LlamaConfig, frequency: np.ndarray, scaling: RopeScaling, original: int
) -> np.ndarray:
    """Returns YaRN's frequencies (Peng et al., arXiv 2309.00071, section 3.2)."""
    size = config.head_size

    def channel(turns: float) -> float:
        """Returns the pair of channels that turns so often in the original length."""
        wave = original / (turns * 2 * math.pi)
        return size * math.log(wave) / (2 * math.log(config.rope_theta))

    low = max(math.floor(channel(scaling.beta_fast or 32.0)), 0)
    high = min(math.ceil(channel(scaling.beta_slow or 1.0)), size - 1)
    span = high - low if high != low else 0.001
    ramp = np.clip((np.arange(size // 2, dtype=np.float32) - low) / span, 0, 1)
    return (frequency / scaling.factor * ramp + frequency * (1 - ramp)).astype(np.float32)


def _attention_factor(scaling: RopeScaling) -> float:
    """Returns the factor of YaRN's cosines and sines (the paper's equation 22)."""
    if scaling.attention_factor is not None:
        return scaling.attention_factor

    def size(scale: float) -> float:
        return 0.1 * scale * math.log(scaling.factor) + 1.0

    if scaling.mscale and scaling.mscale_all_dim:
        return size(scaling.mscale) / size(scaling.mscale_all_dim)
    return size(1.0)


def tables(config: LlamaConfig, positions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns cosine and sine of the angles at positions [B, T], both F32 [B, T, 1, H/2]."""
    frequency: np.ndarray | jax.Array = _frequencies(config)
    factor = 1.0
    if (scaling := config.scaling) is not None:
        original = scaling.original_max_position_embeddings or config.max_position_embeddings
        if scaling.rope_type == "linear":
            frequency = frequency / np.float32(scaling.factor)
        elif scaling.rope_type == "dynamic":
            frequency = _dynamic(config, scaling.factor, positions)
        elif scaling.rope_type == "llama3":
            frequency = _llama3(_frequencies(config), scaling, original)
        else:
            frequency = _yarn(config, _frequencies(config), scaling, original)
            factor = _attention_factor(scaling)
    angle = positions.astype(jnp.float32)[:, :, None, None] * jnp.asarray(frequency)
    return jnp.cos(angle) * factor, jnp.sin(angle) * factor


def rotate(x: jax.Array, table: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Turns channel pairs (i, i + H/2) of `x` [B, T, N, H] by the angles of `tables`, in F32."""
    cos, sin = table
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return turned.astype(x.dtype)
