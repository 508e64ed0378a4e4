"""Calibration on the first batch: replaces scales from priors by those of the casts' values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalify._entry import Entry
from scalify._kept import CARRIED_SCALES

__all__ = ["calibrate_on"]

# A cast that clips hides the true values of the casts after it, so each cast of a chain needs a
# step of its own. A chain of three scales from priors is longer than any that we know.
_MAX_STEPS = 3


def calibrate_on(entry: Entry, leaves: Sequence[Any]) -> int:
    """Moves the carried scales of a step to fit the values that its casts see for these arguments.

    Runs the step on copies of donated arguments until no scale moves, at most three times, and
    discards all other state that these steps leave. Does nothing if no scale comes from priors, if
    the step carries none, if it calls back into Python, whose effects would show, or if arguments
    are results of an earlier step.

    Args:
        entry: a compiled step that has not run.
        leaves: its first arguments.

    Returns:
        The number of steps that ran.
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
