"""Renewed decisions: which dots are sensitive depends on sizes, and training moves them.

Whether FP8 harms the gradients that pass a dot depends on the sizes of weights. Attention, for
example, becomes sharp as the weights of queries and keys grow, and then turns small errors of its
inputs into large ones of gradients. A decision made at initial weights does not hold for long.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from scalify._entry import Entry
from scalify._executable import explain
from scalify._ranks import explain_on
from scalify.mesh import Shard
from scalify.options import Distribution
from scalify.report import Report
from scalify.scales import Scales, measure

__all__ = [
    "count_changes",
    "dot_formats",
    "is_check_due",
    "is_deleted",
    "is_renewal_due",
    "measure_after_step",
]

# The factor between the steps at which decisions are renewed. A step of Adam moves a weight by the
# learning rate at most, so that sizes grow no faster than the number of steps. Errors of gradients
# grow no faster than the fourth power of sizes: scores of attention are products of two weights,
# and errors count by their squares. So until the next renewal they grow by the root of two at most,
# less than the analysis errs by (docs/research/noise-model.md). With a factor of 2^(1/4), 12 layers
# of LLaMA had a gradient cosine of 0.967 (worst tensor 0.88) after 379 steps, by the formats of
# step 320; those of step 340 have 0.9995.
_GROWTH = 2**0.125
# The first renewal that measures gradients.
_FIRST_CHECK = 16


def is_renewal_due(steps: int, every: int) -> bool:
    """Whether to decide again after a number of steps; a resumed run decides at the same ones.

    It is the case at the multiple of `every` that is next to each of every * 2^(k/8).
    """
    return _is_due(steps, every, _GROWTH)


def is_check_due(steps: int, every: int) -> bool:
    """Whether the renewal after a number of steps also measures gradients.

    It is the case for each second one from 16 `every` on: a check takes as long as a compilation or
    two, and may cause one, which a short run of short steps would not get back. With half as many,
    twelve layers of LLaMA had twelve times the error at the next.
    """
    return _is_due(steps, every, _GROWTH**2, _FIRST_CHECK)


def _is_due(steps: int, every: int, growth: float, first: int = 1) -> bool:
    mark = float(first * every)
    while mark <= steps - every / 2:
        mark *= growth
    return steps % every == 0 and mark <= steps + every / 2


def measure_after_step(
    entry: Entry, leaves: Sequence[Any], results: Sequence[Any], before: Scales
) -> Scales | None:
    """Returns `before` with the scales that parameters have after a step; None if it is equal.

    Only parameters count: moments do not reach gradients, and a batch is one of many. On ranks, all
    ranks must call it: whole arrays are measured, so that all find the same.
    """
    changed: dict[int, np.ndarray] = {}
    for place, argument in enumerate(entry.executable.args[: len(leaves)]):
        alias = argument["alias_result"]
        array = leaves[place] if alias is None else results[alias]
        if argument["role"] not in ("param", "master") or is_deleted(array):
            continue
        whole = np.asarray(array.gather() if isinstance(array, Shard) else array)
        if jnp.issubdtype(whole.dtype, jnp.floating) and _may_differ(
            whole, before.exponents[place]
        ):
            changed[place] = whole
    found = measure(list(changed.values()))
    # An array that is not finite has no size: it keeps its own.
    kept = [place for place, one in zip(changed, found.exponents, strict=True) if one is None]
    if kept:
        changed = {place: array for place, array in changed.items() if place not in kept}
        found = measure(list(changed.values()))
    if not changed or found.exponents == tuple(before.exponents[place] for place in changed):
        return None

    def replaced(old: Sequence[Any] | None, new: Sequence[Any] | None) -> tuple[Any, ...] | None:
        if old is None or new is None:
            return None
        own = dict(zip(changed, new, strict=True))
        return tuple(own.get(place, one) for place, one in enumerate(old))

    exponents = replaced(before.exponents, found.exponents)
    assert exponents is not None
    ranges = replaced(before.ranges, found.ranges)
    return Scales(exponents, before.names, ranges, replaced(before.moments, found.moments))


def is_deleted(array: Any) -> bool:
    """Whether JAX took over an argument that no result replaces."""
    return isinstance(array, jax.Array) and array.is_deleted()


def _may_differ(array: np.ndarray, exponent: int | None) -> bool:
    """Whether the exponent of an array's root mean square may not be this one.

    One pass in F32, a tenth of the time of `measure`, which then decides.
    """
    flat = array.reshape(-1).astype(np.float32, copy=False)
    square = float(np.dot(flat, flat)) / max(1, flat.size)
    if exponent is None or not 0 < square < math.inf:
        return True
    return abs(0.5 * math.log2(square) - exponent) > 0.5


def dot_formats(text: str, options: dict[str, Any], distribution: Distribution) -> list[str]:
    """Returns the formats of a step's dots under some options of the compiler.

    On ranks, all ranks must call it, and the first one compiles, up to Precision.
    """
    mesh = distribution.mesh

    def rows() -> Iterable[dict[str, Any]]:
        if mesh is None:
            return cast(list[dict[str, Any]], explain(text, options)()["rows"])
        return cast(list[dict[str, Any]], explain_on(distribution, text, options)["rows"])

    def found() -> list[str]:
        return [row["format"] for row in Report(rows()).dots()]

    if mesh is None:
        return found()
    said = mesh.on_first_rank(lambda: json.dumps(found()).encode())
    return cast(list[str], json.loads(said))


def count_changes(
    entry: Entry, options: dict[str, Any], distribution: Distribution
) -> tuple[int, int]:
    """Returns how many of a step's dots other options of the compiler give other formats; and all.

    If the number of dots differs too, all count. On ranks, all ranks must call it.
    """
    found = dot_formats(entry.lowered.text, options, distribution)
    before = [row["format"] for row in entry.executable.report().dots()]
    if len(before) != len(found):
        return len(found), len(found)
    return sum(one != other for one, other in zip(before, found, strict=True)), len(found)
