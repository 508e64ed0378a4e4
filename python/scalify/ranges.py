"""Ranges of arguments: the range analysis's assumptions on state, and their check.

A program proves no bound of its weights. `scalify.measure_ranges` returns assumptions instead: an
array stays within a factor, the headroom, of its current values. Proofs in the report name the
arguments that they depend on; `check_assumptions` checks that the arrays still satisfy them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

__all__ = [
    "Range",
    "RangesLike",
    "check_assumptions",
    "describe_violation",
    "measure_ranges",
    "violated_assumptions",
]

# `max` (largest magnitude; with `min` the largest element), `min`, `norms` (2-norm of rows along
# each axis), `frobenius`.
Range: TypeAlias = dict[str, Any]

# A mapping from argument names ("params['w']") or a list in main's order.
RangesLike: TypeAlias = Mapping[str, Range] | Sequence[Range | None] | None


def measure_ranges(tree: Any, headroom: float = 8.0) -> list[Range | None]:
    """Returns the range that each leaf of a tree is assumed to keep; None for no assumption.

    An array may grow by `headroom` in its largest magnitude and in the 2-norms of its rows and
    columns; an array dominated by its mean, such as a norm's gains, by half of that. Arrays that
    are not floating point, of rank 0, all zero or not finite get no range.

    Args:
        tree: a pytree of arrays of any shapes, such as the tuple of a step's arguments.
        headroom: the factor, at least 1.

    Raises:
        ValueError: the headroom is less than 1.
    """
    if headroom < 1:
        raise ValueError(f"headroom must be at least 1, not {headroom}")
    return [_range(leaf, headroom) for leaf in jax.tree.leaves(tree)]


def _is_float(leaf: Any) -> bool:
    if isinstance(leaf, (bool, int, float, complex)):
        return False
    return bool(jnp.issubdtype(leaf.dtype, jnp.floating))


def _norms(wide: np.ndarray) -> list[float]:
    """Returns the largest 2-norm of rows along each axis of an array [...] of float64."""
    square = np.square(wide)
    return [float(np.sqrt(square.sum(axis=axis).max())) for axis in range(wide.ndim)]


def _range(leaf: Any, headroom: float) -> Range | None:
    if not _is_float(leaf) or np.ndim(leaf) == 0:
        return None
    wide = np.asarray(leaf).astype(np.float64)
    largest = float(np.abs(wide).max()) if wide.size else 0.0
    if largest == 0 or not np.isfinite(largest):
        return None
    rms = float(np.sqrt(np.mean(np.square(wide))))
    if abs(float(np.mean(wide))) >= 0.5 * rms:
        headroom = max(1.0, headroom / 2)
    return {
        "max": headroom * largest,
        "norms": [headroom * norm for norm in _norms(wide)],
        "frobenius": headroom * float(np.sqrt(np.square(wide).sum())),
    }


def check_assumptions(assumptions: Iterable[Mapping[str, Any]], tree: Any) -> list[str]:
    """Returns one line per assumption that the arrays of a tree violate; empty if there is none.

    Args:
        assumptions: of a compiled step, each with `argument`, `index` and its bounds.
        tree: the step's arguments, in their order, static ones left out.

    Raises:
        ValueError: the tree has fewer leaves than an assumption's index.
    """
    rows = violated_assumptions(assumptions, jax.tree.leaves(tree))
    return [describe_violation(row) for row in rows]


def violated_assumptions(
    assumptions: Iterable[Mapping[str, Any]], leaves: Sequence[Any]
) -> list[dict[str, Any]]:
    """Returns a row for each bound that an array violates; empty if there is none.

    A row has `assumption` (the argument's name), `what` ("largest value"), `value` and `bound`;
    for an array that is not finite, the bound is infinite.

    Args:
        assumptions: as for `check_assumptions`.
        leaves: the step's arguments, in their order; None skips an argument.

    Raises:
        ValueError: there are fewer leaves than an assumption's index.
    """
    rows: list[dict[str, Any]] = []
    for entry in assumptions:
        index = int(entry["index"])
        if index >= len(leaves):
            raise ValueError(
                f"the assumption on '{entry['argument']}' is of argument {index}, and the tree "
                f"has {len(leaves)} leaves: give the tuple of all arguments"
            )
        if leaves[index] is None:
            continue
        wide = np.asarray(leaves[index]).astype(np.float64)
        rows += [
            {"assumption": entry["argument"], "what": what, "value": value, "bound": bound}
            for what, value, bound in _broken(entry, wide)
        ]
    return rows


def describe_violation(row: Mapping[str, Any]) -> str:
    """Returns a row of `violated_assumptions` as a line of text."""
    if np.isinf(row["bound"]):
        return f"{row['assumption']}: is not finite"
    return (
        f"{row['assumption']}: {row['what']} {row['value']:.6g} exceeds the assumed "
        f"{row['bound']:.6g}"
    )


def _broken(entry: Mapping[str, Any], wide: np.ndarray) -> list[tuple[str, float, float]]:
    """Returns the name, the value and the bound of each measure that is above its bound."""
    if not wide.size:
        return []
    if not np.isfinite(wide).all():
        return [("largest value", float(np.abs(wide).max()), float("inf"))]
    measured: list[tuple[str, float, float]] = []
    if "max" in entry:
        largest = wide.max() if "min" in entry else np.abs(wide).max()
        measured.append(("largest value", float(largest), float(entry["max"])))
    if "min" in entry:
        measured.append(("negated smallest value", float(-wide.min()), -float(entry["min"])))
    for axis, (norm, bound) in enumerate(zip(_norms(wide), entry.get("norms", ()), strict=False)):
        measured.append((f"2-norm along axis {axis}", norm, float(bound)))
    if "frobenius" in entry:
        frobenius = float(np.sqrt(np.square(wide).sum()))
        measured.append(("Frobenius norm", frobenius, float(entry["frobenius"])))
    return [row for row in measured if not row[1] <= row[2]]
