"""How much fits into memory, by the plans of executables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalify._jit import Jit

__all__ = ["largest", "largest_batch"]


def largest_batch(
    step: Jit, arguments: Callable[[int], tuple[Any, ...]], cap: int, most: int = 1 << 16
) -> int:
    """Returns the largest batch of which a step fits into `cap` bytes; 0 where not even 1 does.

    Nothing is run: the step is compiled for a few batches, and the peak of each is what its plan
    says (`Executable.memory`): arguments, results, constants and the arena of temporaries.

    Args:
        step: a function of `scalify.jit`, with its recipe.
        arguments: returns the step's arguments, as arrays, for a batch of a size.
        cap: bytes.
        most: the largest batch that is asked for.

    Raises:
        CompileError: the step cannot be compiled for a batch.
    """
    return largest(lambda batch: int(step.executable(*arguments(batch)).memory["peak"]), cap, most)


def largest(peak: Callable[[int], int], cap: int, most: int = 1 << 16) -> int:
    """Returns the largest batch, up to `most`, whose peak of bytes is at most `cap`; 0 for none.

    Args:
        peak: bytes by the batch, which grow with it; asked once for each of a few batches.
        cap: bytes.
        most: the largest batch that is asked for.
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
        # Nearly a straight line, but for steps: where it meets the cap is tried first, then its
        # neighbour. The line goes through the two largest batches that are known.
        below, above = sorted(peaks)[-2:] if len(peaks) > 1 else (0, 0)
        slope = (peaks[above] - peaks[below]) / (above - below) if above else 0.0
        batch = fits + int((cap - peaks[fits]) / slope) if slope > 0 else 2 * fits
        batch = min(max(batch, fits + 1), fails - 1)
        if fails in peaks and len(peaks) > 6:  # no line at all
            batch = (fits + fails) // 2
        if at(batch) <= cap:
            fits = batch
        else:
            fails = batch
    return fits
