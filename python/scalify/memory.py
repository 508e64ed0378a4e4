"""How much fits into memory, by the plans of executables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalify._jit import Jit

__all__ = ["largest_batch"]


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
    peaks: dict[int, int] = {}

    def peak(batch: int) -> int:
        if batch not in peaks:
            peaks[batch] = int(step.executable(*arguments(batch)).memory["peak"])
        return peaks[batch]

    if peak(1) > cap:
        return 0
    fits, fails = 1, 2
    while fails <= most and peak(fails) <= cap:
        fits, fails = fails, 2 * fails
    if fails > most:
        return most
    while fails - fits > 1:
        # Nearly a straight line: what it meets the cap at is tried first, then its neighbour.
        share = (cap - peaks[fits]) / max(peaks[fails] - peaks[fits], 1)
        batch = min(max(fits + int(share * (fails - fits)), fits + 1), fails - 1)
        if peak(batch) <= cap:
            fits = batch
            if fits + 1 < fails and peak(fits + 1) > cap:
                fails = fits + 1
        else:
            fails = batch
    return fits
