"""Counters of a step's casts: of this rank, summed over ranks, and checked for heavy losses."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalify import _compiler, _runtime
from scalify._manifest import names_of

__all__ = ["StepCounters", "exceeds_format", "is_mostly_flushed", "placed"]

# The columns of the counters' table that rows of health contain; its last column holds scales.
COLUMNS = ("saturated", "flushed", "zeros", "nans", "top")
# A scale is too high if at most FLUSHED_MAX_REMAINING of the nonzero values stay nonzero, more than
# FLUSHED_MIN_SHARE of all elements were flushed, and none is at the top of the format.
FLUSHED_MAX_REMAINING, FLUSHED_MIN_SHARE = 0.5, 0.1
# Carried scales move if more of the nonzero values are flushed (docs/stages/rescaling.md).
_FLUSHED_AT_MOST = _compiler.carried_limits()["flushed"]


def is_mostly_flushed(flushed: Any, zeros: Any, top: Any, elements: Any, left: float) -> Any:
    """Returns whether a cast flushed more than a share of 1 - `left` of its nonzero values.

    Also requires that no value is at the top of the format: the scale is then too high for all
    values. Works on one cast or elementwise on an array of casts.

    Args:
        flushed: counts, as in rows of health.
        zeros: counts.
        top: counts.
        elements: counts.
        left: the share of nonzero values that stay nonzero.
    """
    return (flushed > (1 - left) * (elements - zeros)) & (flushed > 0) & (top == 0)


def exceeds_format(row: Mapping[str, Any]) -> bool:
    """Returns whether a cast's values span more binades than E4M3, by its row of health.

    They reach from its top four binades to below its smallest number, where too many are flushed
    for a carried scale. Values of formats with five exponent bits are not judged: what is 24
    binades below the largest of them does not count beside it.
    """
    flushed = row["flushed"] > _FLUSHED_AT_MOST * (row["elements"] - row["zeros"])
    return flushed and row["top"] > 0 and row["format"].startswith("f8E4M3")


class StepCounters:
    """The counters of an executable's last step."""

    def __init__(
        self, runtime: _runtime.Executable, comm: _runtime.Communicator | None, device: str
    ) -> None:
        """Reads an executable's counters.

        Args:
            runtime: the executable.
            comm: connects ranks that each count a part; None where each rank counts all.
            device: the device of the executable's target.
        """
        self._runtime, self._comm, self._device = runtime, comm, device

    @functools.cached_property
    def _elements(self) -> NDArray[np.int64]:
        return np.array([row["elements"] for row in self._runtime.health()], np.int64)

    def sum_over_ranks(self) -> tuple[NDArray[np.uint64], int]:
        """Returns the counters summed over all ranks, and the number of ranks."""
        counters = self._runtime.counters()
        if self._comm is None:
            return counters, 1
        parts = self._comm.all_gather(counters.tobytes())
        every = [np.frombuffer(part, np.uint64).reshape(counters.shape) for part in parts]
        return np.sum(every, axis=0, dtype=np.uint64), len(parts)

    def health_of_all(self) -> list[dict[str, Any]]:
        """Returns the rows for all ranks together; see `Executable.health_of_all`."""
        counters, ranks = self.sum_over_ranks()
        rows = self._runtime.health()
        if ranks > 1 and self._comm is not None:
            own = np.array([(row["scale"] or 0.0, row["moved"]) for row in rows], np.float64)
            first = np.frombuffer(self._comm.all_gather(own.tobytes())[0], np.float64)
            rows = [
                row | {"scale": scale or None, "moved": moved}
                for row, (scale, moved) in zip(rows, first.reshape(-1, 2).tolist(), strict=True)
            ]
        return [
            row | {"elements": ranks * row["elements"], "ranks": ranks}
            for row in _counted(rows, counters)
        ]

    def is_lost(self, share: float, scales_move: bool) -> bool:
        """Whether some cast lost too many of its values.

        True if more than `share` of a cast's values saturated or were NaN, or if half of the
        nonzero values and a tenth of all values were flushed with none at the top, for example
        after a batch that raised the scale. Where scales move, also true if at most `share` of the
        nonzero values are left.

        Builds no rows and waits for nothing, so that it may be called after each step. False for a
        GPU, whose counters would have to be waited for.
        """
        if self._device != "cpu":
            return False
        counters = self._runtime.counters()[:, : len(COLUMNS)].astype(np.float64)
        saturated, flushed, zeros, nans, top = counters.T
        lost = saturated + nans > share * self._elements
        is_low = is_mostly_flushed(flushed, zeros, top, self._elements, FLUSHED_MAX_REMAINING)
        lost |= is_low & (flushed > FLUSHED_MIN_SHARE * self._elements)
        if scales_move:
            lost |= is_mostly_flushed(flushed, zeros, top, self._elements, share)
        return bool(np.any(lost))


def placed(
    rows: Sequence[dict[str, Any]], report: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Returns rows of health with `names` and `each` from the cast's row of the report.

    `each` counts the elements of one iteration, where a row of a cast in a loop counts those of
    all. `names` are the cast's, where a row has the location of its kernel. The compiler matches
    casts by both.
    """
    casts = {row["cast"]: row for row in report if "cast" in row}
    return [
        row
        | {
            "names": names_of(casts.get(row["cast"], {}).get("loc", row["loc"])),
            "each": casts.get(row["cast"], {}).get("elements", row["elements"]),
        }
        for row in rows
    ]


def _counted(rows: Sequence[dict[str, Any]], counters: NDArray[Any]) -> list[dict[str, Any]]:
    """Returns rows of health with their counts replaced."""
    return [
        row | dict(zip(COLUMNS, counts.tolist()[: len(COLUMNS)], strict=True))
        for row, counts in zip(rows, counters, strict=True)
    ]
