"""Renewed decisions: which dots are sensitive depends on sizes, and training moves them.

Whether FP8 harms the gradients that pass a dot depends on the sizes of weights. Attention, for
example, becomes sharp as the weights of queries and keys grow, and then turns small errors of its
inputs into large ones of gradients. A decision made at initial weights does not hold for long.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalify._build import decide_formats
from scalify._entry import Entry
from scalify._ranks import decide_on
from scalify.mesh import Shard
from scalify.options import Distribution
from scalify.scales import Scales, measure

__all__ = [
    "DotFormats",
    "Formats",
    "is_deleted",
    "is_renewal_due",
    "may_narrow",
    "measure_after_step",
]

# Of a step's dots, in the order of the program, as Precision decides them.
Formats = tuple[str, ...]

# Options change with exponents of sizes. Asked for are those of the compiled step and of now.
_KEPT_OPTIONS = 4
# The factor between the steps at which decisions are renewed. A step of Adam moves a weight by the
# learning rate at most, so that sizes grow no faster than the number of steps. Errors of gradients
# grow no faster than the fourth power of sizes: scores of attention are products of two weights,
# and errors count by their squares. So until the next renewal they grow by the root of two at most,
# less than the analysis errs by (docs/research/noise-model.md). With a factor of 2^(1/4), 12 layers
# of LLaMA had a gradient cosine of 0.967 (worst tensor 0.88) after 379 steps, by the formats of
# step 320; those of step 340 have 0.9995.
_GROWTH = 2**0.125
# Dots may become narrower again from this multiple of `every` on: that saves time, but first takes
# as much as a compilation, which a short run would not get back.
_FIRST_NARROWING = 16


def is_renewal_due(steps: int, every: int) -> bool:
    """Whether to decide again after a number of steps; a resumed run decides at the same ones.

    It is the case at the multiple of `every` that is next to each of every * 2^(k/8).
    """
    mark = float(every)
    while mark <= steps - every / 2:
        mark *= _GROWTH
    return steps % every == 0 and mark <= steps + every / 2


def may_narrow(steps: int, every: int) -> bool:
    """Whether the renewal after a number of steps may make dots narrower by measured gradients."""
    return steps >= _FIRST_NARROWING * every


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
    with np.errstate(over="ignore", invalid="ignore"):
        flat = array.reshape(-1).astype(np.float32, copy=False)
        square = float(np.dot(flat, flat)) / max(1, flat.size)
    if exponent is None or not 0 < square < math.inf:
        return True
    return abs(0.5 * math.log2(square) - exponent) > 0.5


class DotFormats:
    """The formats of a step's dots by options of the compiler; keeps what was found last."""

    def __init__(self, text: str, distribution: Distribution) -> None:
        """Initialises the formats of a program, given as StableHLO."""
        self._text, self._distribution = text, distribution
        self._kept: dict[str, dict[int, Formats]] = {}

    def of(self, options: dict[str, Any], corrections: Sequence[int]) -> list[Formats]:
        """Returns the formats by each of some corrections, which replace that of the options.

        On ranks, all ranks must call it.
        """
        options = options | {"noiseExponent": None}
        key = json.dumps(options, sort_keys=True, default=str)
        known = self._kept.pop(key, {})
        missing = [each for each in corrections if each not in known]
        if missing:
            is_alone = self._distribution.mesh is None
            found = (
                decide_formats(self._text, options, missing)
                if is_alone
                else decide_on(self._distribution, self._text, options, missing)
            )
            known |= {one: tuple(formats) for one, formats in zip(missing, found, strict=True)}
        self._kept[key] = known
        while len(self._kept) > _KEPT_OPTIONS:
            del self._kept[next(iter(self._kept))]
        return [known[each] for each in corrections]

    def changes(self, before: dict[str, Any], after: dict[str, Any]) -> tuple[int, int]:
        """Returns how many dots have other formats by other options; and the number of all.

        If the number of dots differs too, all count.
        """
        old, new = (self.of(each, [each.get("noiseExponent") or 0])[0] for each in (before, after))
        if len(old) != len(new):
            return len(new), len(new)
        return sum(one != other for one, other in zip(old, new, strict=True)), len(new)
