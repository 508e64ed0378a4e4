"""What the casts of a step counted: on this rank, on all of them, and whether much was lost."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalify import _runtime
from scalify._manifest import names_of

__all__ = ["StepCounters", "is_wiped", "placed"]

# The columns of the table that rows of health have; the last column is of scales.
COLUMNS = ("saturated", "flushed", "zeros", "nans", "top")
# A scale is too high that leaves no more than this share of what was not zero, where more than that
# of all elements became zero and nothing is at the top.
FLUSHED_LEFT, FLUSHED_LEAST = 0.5, 0.1


def is_wiped(flushed: Any, zeros: Any, top: Any, elements: Any, left: float) -> Any:
    """Returns whether no more than a share of what was not zero is left, with nothing at the top.

    The scale is too high for all of a cast's values then, of one cast or of an array of them.

    Args:
        flushed: counts, as rows of health have them.
        zeros: counts.
        top: counts.
        elements: counts.
        left: the share.
    """
    return (flushed > (1 - left) * (elements - zeros)) & (flushed > 0) & (top == 0)


class StepCounters:
    """The counters of one executable, of its last step."""

    def __init__(
        self, runtime: _runtime.Executable, comm: _runtime.Communicator | None, target: str
    ) -> None:
        """Looks at an executable's counters.

        Args:
            runtime: the executable.
            comm: connects the ranks that count parts of a whole; None where each counts all.
            target: what the executable is for.
        """
        self._runtime, self._comm, self._target = runtime, comm, target

    @functools.cached_property
    def _elements(self) -> NDArray[np.int64]:
        return np.array([row["elements"] for row in self._runtime.health()], np.int64)

    def of_all(self) -> tuple[NDArray[np.uint64], int]:
        """Returns the sum of what all ranks counted, and how many ranks that is."""
        counters = self._runtime.counters()
        if self._comm is None:
            return counters, 1
        parts = self._comm.all_gather(counters.tobytes())
        every = [np.frombuffer(part, np.uint64).reshape(counters.shape) for part in parts]
        return np.sum(every, axis=0, dtype=np.uint64), len(parts)

    def health_of_all(self) -> list[dict[str, Any]]:
        """Returns the rows of all ranks together, as `Executable.health_of_all` has them."""
        counters, ranks = self.of_all()
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
        """Whether more than this share of a cast's values saturated or were NaN.

        Also whether half of what was not zero, and a tenth of all, became zero with nothing at the
        top: after a batch that had raised the scale, say. Where scales move, whether no more than
        the share is left.

        It builds no rows and waits for nothing, so that it can be asked after each step: those of
        a GPU, which would have to be waited for, are never said to.
        """
        if self._target != "cpu":
            return False
        counters = self._runtime.counters()[:, : len(COLUMNS)].astype(np.float64)
        saturated, flushed, zeros, nans, top = counters.T
        lost = saturated + nans > share * self._elements
        is_low = is_wiped(flushed, zeros, top, self._elements, FLUSHED_LEFT)
        lost |= is_low & (flushed > FLUSHED_LEAST * self._elements)
        if scales_move:
            lost |= is_wiped(flushed, zeros, top, self._elements, share)
        return bool(np.any(lost))


def placed(
    rows: Sequence[dict[str, Any]], report: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Returns rows of health with `names` and `each` of the cast that the report lists.

    A cast in a loop counts the elements of all iterations, and by the kernel that makes it; a
    compilation finds it again by its own elements and JAX's names.
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
    """Returns rows of health with other counts."""
    return [
        row | dict(zip(COLUMNS, counts.tolist()[: len(COLUMNS)], strict=True))
        for row, counts in zip(rows, counters, strict=True)
    ]
