"""The largest batch that fits into memory, by the plans of executables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalify._jit import Jit

__all__ = ["largest", "largest_batch"]


def largest_batch(
    step: Jit, arguments: Callable[[int], tuple[Any, ...]], cap: int, most: int = 1 << 16
) -> int:
    """Returns the largest batch for which a step fits into `cap` bytes; 0 if a batch of 1 does not.

    Nothing is run: the step is planned for a few batches, and its plan gives the peak of each
    (`Jit.memory`): arguments, results, constants and the arena of temporaries.

    Args:
        step: a function of `scalify.jit`, with its recipe.
        arguments: returns the step's arguments, as arrays, for a batch size.
        cap: the limit in bytes.
        most: the largest batch to try.

    Raises:
        CompileError: the step cannot be compiled for a batch.
    """
    return largest(lambda batch: int(step.memory(*arguments(batch))["peak"]), cap, most)


def largest(peak: Callable[[int], int], cap: int, most: int = 1 << 16) -> int:
    """Returns the largest batch, up to `most`, whose peak of bytes is at most `cap`; 0 for none.

    Args:
        peak: returns the bytes for a batch, increasing in it; called once per batch tried.
        cap: the limit in bytes.
        most: the largest batch to try.
    """
    peaks: dict[int, int] = {}

    def at(batch: int) -> int:
        if batch not in peaks:
            peaks[batch] = peak(batch)
        return peaks[batch]

    if at(1) > cap:
        return 0
    fits, fails = 1, most + 1
    while fails - fits > 1:
        # The peak is nearly linear in the batch, but for jumps. Extrapolate the line through the
        # two largest known batches to the cap; a neighbour is tried next.
        below, above = sorted(peaks)[-2:] if len(peaks) > 1 else (0, 0)
        slope = (peaks[above] - peaks[below]) / (above - below) if above else 0.0
        batch = fits + int((cap - peaks[fits]) / slope) if slope > 0 else 2 * fits
        batch = min(max(batch, fits + 1), fails - 1)
        if fails in peaks and len(peaks) > 6:  # not linear: bisect
            batch = (fits + fails) // 2
        if at(batch) <= cap:
            fits = batch
        else:
            fails = batch
    return fits
