"""Byte-level English text that ships with Python: the topics of its help system."""

from __future__ import annotations

import dataclasses
import pydoc_data.topics

import numpy as np

__all__ = ["Text", "load", "train_batches", "validation_batches"]


@dataclasses.dataclass(frozen=True)
class Text:
    """Tokens (bytes, as uint8) of the two parts."""

    train: np.ndarray
    validation: np.ndarray


def load(validation_share: float = 0.1) -> Text:
    """Returns the text, split by topic so that no sentence is in both parts.

    Every n-th topic in alphabetical order is for validation, until that part is full: the split
    depends on Python's version only.
    """
    topics = [text for _, text in sorted(pydoc_data.topics.topics.items())]
    goal = validation_share * sum(len(text) for text in topics)
    train, validation, held = [], [], 0
    for index, text in enumerate(topics):
        if index % 4 == 1 and held + len(text) < goal:
            validation.append(text)
            held += len(text)
        else:
            train.append(text)
    return Text(train=_bytes(train), validation=_bytes(validation))


def _bytes(parts: list[str]) -> np.ndarray:
    return np.frombuffer("\n\n".join(parts).encode(), dtype=np.uint8)


def train_batches(text: Text, steps: int, batch: int, seq: int, seed: int) -> np.ndarray:
    """Returns int32 windows [steps, batch, seq + 1] at random offsets; equal for equal seeds."""
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, len(text.train) - seq - 1, size=(steps, batch))
    return text.train[starts[..., None] + np.arange(seq + 1)].astype(np.int32)


def validation_batches(text: Text, batch: int, seq: int) -> np.ndarray:
    """Returns all whole windows of the validation text, int32 [n, batch, seq + 1], in order."""
    rows = (len(text.validation) - 1) // seq
    rows -= rows % batch
    starts = np.arange(rows) * seq
    windows = text.validation[starts[:, None] + np.arange(seq + 1)]
    return windows.reshape(-1, batch, seq + 1).astype(np.int32)
