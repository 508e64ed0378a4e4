"""Batches that a small model can learn from: text, images of classes, vectors of a function."""

from __future__ import annotations

import functools
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "llama"))

import data

__all__ = ["images", "keyed", "regression", "text"]

Batches = Callable[[int], Any]


@functools.cache
def _topics() -> np.ndarray:
    return data.load().train


def text(batch: int, length: int, vocab: int = 256) -> Batches:
    """Returns windows of English bytes, int32 [batch, length + 1]."""

    def nth(index: int) -> np.ndarray:
        rng = np.random.default_rng(index)
        starts = rng.integers(0, len(_topics()) - length - 1, size=batch)
        windows = _topics()[starts[:, None] + np.arange(length + 1)]
        return windows.astype(np.int32) % vocab

    return nth


def images(batch: int, size: int = 16, channels: int = 3, classes: int = 10) -> Batches:
    """Returns (images F32 [B, size, size, channels], labels int32 [B]): patterns in noise."""
    patterns = np.random.default_rng(1).standard_normal((classes, size, size, channels))

    def nth(index: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(1000 + index)
        labels = rng.integers(0, classes, size=batch)
        noise = rng.standard_normal((batch, size, size, channels))
        return (0.7 * patterns[labels] + 0.7 * noise).astype(np.float32), labels.astype(np.int32)

    return nth


def regression(batch: int, width: int, out: int = 1) -> Batches:
    """Returns (x F32 [B, width], y F32 [B, out]): a smooth function of x."""
    weights = np.random.default_rng(2).standard_normal((width, out)) / np.sqrt(width)

    def nth(index: int) -> tuple[np.ndarray, np.ndarray]:
        x = np.random.default_rng(2000 + index).standard_normal((batch, width))
        return x.astype(np.float32), np.tanh(2 * x @ weights).astype(np.float32)

    return nth


def keyed(batches: Batches, typed: bool = True, impl: str | None = None) -> Batches:
    """Returns batches with a random key beside them, typed or as plain integers."""

    def nth(index: int) -> Any:
        key = jax.random.fold_in(jax.random.key(7, impl=impl), index)
        return batches(index), key if typed else jnp.asarray(jax.random.key_data(key))

    return nth
