"""Renewed decisions: which dots are sensitive depends on sizes, and training moves them.

Whether FP8 harms the gradients that pass a dot depends on the sizes of weights. Attention, for
example, becomes sharp as the weights of queries and keys grow, and then turns small errors of its
inputs into large ones of gradients. A decision made at initial weights does not hold for long.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from scalify._entry import Entry
from scalify._executable import explain
from scalify._ranks import explain_on
from scalify.mesh import Shard
from scalify.options import Distribution
from scalify.report import Report
from scalify.scales import Scales, measure

__all__ = ["count_changes", "is_renewal_due", "measure_after_step"]

# The factor between the steps at which decisions are renewed. Sizes of weights grow like a power of
# the number of steps, and they count by binades. Measuring and deciding cost about as much as a few
# steps.
_GROWTH = 1.25


def is_renewal_due(steps: int, every: int) -> bool:
    """Whether to decide again after a number of steps; a resumed run decides at the same ones.

    It is the case at the first multiple of `every` at or after each of every * 1.25^k.
    """
    mark = float(every)
    while mark <= steps - every:
        mark *= _GROWTH
    return steps % every == 0 and mark <= steps


def measure_after_step(entry: Entry, leaves: Sequence[Any], results: Sequence[Any]) -> Scales:
    """Returns the scales of a step's arguments, donated ones as the step has left them.

    On ranks, all ranks must call it: whole arrays are measured, so that all find the same.
    """
    aliases = [argument["alias_result"] for argument in entry.executable.args[: len(leaves)]]
    now = [
        leaf if alias is None else results[alias]
        for leaf, alias in zip(leaves, aliases, strict=True)
    ]
    return measure([one.gather() if isinstance(one, Shard) else one for one in now])


def count_changes(
    entry: Entry, options: dict[str, Any], distribution: Distribution
) -> tuple[int, int]:
    """Returns how many of a step's dots other options of the compiler give other formats; and all.

    If the number of dots differs too, all count. On ranks, all ranks must call it, and the first
    one compiles, up to Precision.
    """
    mesh, text = distribution.mesh, entry.lowered.text

    def rows() -> Iterable[dict[str, Any]]:
        if mesh is None:
            return cast(list[dict[str, Any]], explain(text, options)()["rows"])
        return cast(list[dict[str, Any]], explain_on(distribution, text, options)["rows"])

    def after() -> list[str]:
        return [row["format"] for row in Report(rows()).dots()]

    if mesh is None:
        found = after()
    else:
        found = json.loads(mesh.on_first_rank(lambda: json.dumps(after()).encode()))
    before = [row["format"] for row in entry.executable.report().dots()]
    if len(before) != len(found):
        return len(found), len(found)
    return sum(one != other for one, other in zip(before, found, strict=True)), len(found)
