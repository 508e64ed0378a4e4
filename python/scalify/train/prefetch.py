"""The next batch is read while a step runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from scalify.train.data import Blend, Pick

__all__ = ["Prefetch"]

Batch = TypeVar("Batch")


class Prefetch(Generic[Batch]):
    """Batches of a blend, one ahead.

    A batch follows from its position, so that reading ahead changes none: the position that
    belongs in a checkpoint is that after the last batch that was taken.
    """

    def __init__(self, blend: Blend, samples: int, make: Callable[[Sequence[Pick]], Batch]) -> None:
        """Starts no read.

        Args:
            blend: the sources.
            samples: of a batch.
            make: returns the batch of these samples; runs on a thread of its own.
        """
        self.blend, self.samples, self.make = blend, samples, make
        self._thread = ThreadPoolExecutor(1, "scalify-batches")
        self._next: tuple[NDArray[np.int64], Future[Batch], NDArray[np.int64]] | None = None

    def take(
        self, position: NDArray[np.int64], has_next: bool = True
    ) -> tuple[Batch, NDArray[np.int64]]:
        """Returns the batch at a position, and the position after it.

        Args:
            position: in the blend; one ahead is what the last call returned.
            has_next: whether to read the batch after it.

        Raises:
            Exception: what `make` raised.
        """
        ready = self._next
        if ready is None or not np.array_equal(ready[0], position):
            ready = self._start(position)
        _, batch, after = ready
        self._next = self._start(after) if has_next else None
        return batch.result(), after

    def _start(
        self, position: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Future[Batch], NDArray[np.int64]]:
        picks, after = self.blend.take(position, self.samples)
        return position, self._thread.submit(self.make, picks), after

    def close(self) -> None:
        """Drops what was read ahead, and ends the thread."""
        self._next = None
        self._thread.shutdown(cancel_futures=True)
