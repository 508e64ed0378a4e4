"""Calibration on the first batch: replaces scales that do not fit by those of the casts' values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from scalify._entry import Entry
from scalify._executable import Executable
from scalify._kept import CARRIED_SCALES, CAST_SCALES

__all__ = ["calibrate_on", "settle"]

# A cast that clips hides the true values of the casts after it, so each cast of a chain needs a
# step of its own. A chain of three scales from priors is longer than any that we know.
_MAX_STEPS = 3
# While scales fall, which they do by two binades a step under E4M3, more steps follow: a prediction
# that is 2^30 too high, as of iterations that converge, needs 15. 32 cover all predictions, since
# beyond 2^63 a dot stays wide.
_MAX_FALLS = 32


def calibrate_on(entry: Entry, leaves: Sequence[Any]) -> int:
    """Moves the scales of a step to fit the values that its casts see for these arguments.

    Runs what of the step moves scales until no scale moves, and discards all else that it computes:
    arguments and other state stay as they are. Does nothing if the executable has state already, or
    if no scale depends on priors and those of arguments are given.
    Where it cannot run, and scales depend on priors, a remark among the executable's diagnostics
    gives the reason.

    Args:
        entry: a compiled step.
        leaves: its first arguments.

    Returns:
        The number of steps that ran.
    """
    executable = entry.executable
    if not executable.has_initial_state:
        return 0
    count = len(executable.report().prior_casts())
    # Measured arguments say that this batch is like those to come; given scales do not. On a GPU
    # the step runs on copies, which only scales from priors are worth.
    fits = entry.scales is not None and executable.is_on_host
    if not executable.computes or not (count or fits):
        return 0
    moving = [name for name in (CARRIED_SCALES, CAST_SCALES) if name in executable.kept]
    if executable.calls_back or not moving:
        why = "it calls back into Python or XLA" if executable.calls_back else None
        if count:
            executable.diagnostics.append(_remark(count, why or "its scales do not move"))
        return 0
    return _run(executable, entry.inputs(leaves), moving[0])


def settle(move: Callable[[Any], Any], scales: Any) -> tuple[Any, int]:
    """Moves scales until they stay; returns them and the number of moves.

    Three times at most, or 32 times while more scales fall than rise.

    Args:
        move: returns the scales after a step that starts with its argument.
        scales: those to start with, as `scalify.carried_scales` holds them. They are returned if
            JAX traces the step.
    """
    for step in range(1, _MAX_FALLS + 1):
        before, scales = scales, move(scales)
        if isinstance(scales, jax.core.Tracer):
            return before, 0
        if np.array_equal(before, scales) or (step >= _MAX_STEPS and not _fall(before, scales)):
            return scales, step
    return scales, _MAX_FALLS


def _fall(before: Any, after: Any) -> bool:
    """True if more scales fell than rose. They are 0 until they move; factors are negative."""
    sizes = np.abs(before), np.abs(after)
    moved = np.sign(np.where(sizes[0] == 0, 0, sizes[1] - sizes[0]))
    return bool(moved.sum() < 0)


def _run(executable: Executable, inputs: Sequence[Any], moving: str) -> int:
    """Runs the step until the kept array `moving` stays; returns the number of steps."""
    start = executable.kept

    def move(_: Any) -> Any:
        executable.move_scales(inputs)
        if moving == CAST_SCALES:
            executable.rescale()
        after = executable.kept[moving]
        executable.kept = start | {moving: after}
        return after

    return settle(move, executable.kept[moving])[1]


def _remark(count: int, why: str) -> dict[str, Any]:
    return {
        "severity": "remark",
        "message": f"{count} casts start from scales that depend on priors, and the first batch "
        f"does not calibrate them: {why}; Numerics(calibration=scalify.calibrate(step, *args)) "
        "does",
        "location": "",
        "source": "",
        "notes": [],
    }
