"""Calibration on the first batch: replaces scales that priors decided by what casts see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalify._entry import Entry
from scalify._kept import CARRIED_SCALES

__all__ = ["calibrate_on"]

# A cast that clips hides what the casts after it would see. Carried scales need one step each, and
# a chain of three guesses in a row is longer than any that we know.
_MAX_STEPS = 3


def calibrate_on(entry: Entry, leaves: Sequence[Any]) -> int:
    """Moves the carried scales of a step to what its casts see of these arguments.

    Runs the step on copies of donated arguments until no scale moves, three times at most, and
    forgets all else that these steps leave. Does nothing where priors decide no scale, where the
    step carries none, where it calls Python back, whose effects would show, or where arguments are
    those of an earlier step.

    Args:
        entry: a compiled step that has not run.
        leaves: its first arguments.

    Returns:
        How many steps ran.
    """
    executable = entry.executable
    if executable.calls_back or not executable.report().prior_casts():
        return 0
    start = executable.kept
    if CARRIED_SCALES not in start:
        return 0
    inputs = entry.copies(leaves)
    if inputs is None:
        return 0
    for step in range(1, _MAX_STEPS + 1):
        before = executable.kept[CARRIED_SCALES]
        executable.run(inputs)
        after = executable.kept[CARRIED_SCALES]
        executable.kept = start | {CARRIED_SCALES: after}
        if np.array_equal(before, after):
            return step
    return _MAX_STEPS
