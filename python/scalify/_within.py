"""What ranks do to stay within their memory, and what that costs in bytes between them.

Where a step needs more than it may have, weights in shares are gathered again for the backward (the
compiler's `memoryLimit`), or gradients of micro-batches are summed one by one, and added up in
shares. Both move more bytes; of what fits, the one that moves the fewest is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from scalify._executable import build
from scalify._manifest import manifest_of
from scalify._wire import collectives
from scalify.errors import CompileError

__all__ = ["Reduce", "choose_reduce"]

Reduce = Literal["last", "each"]
CHOICES: tuple[Reduce, ...] = ("last", "each")


def needs(text: str, options: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the bytes that a rank needs for a step, and those that it sends, by its plan."""
    # What does not fit is measured as well; strict, it would be an error.
    try:
        artefact, _ = build(text, dict(options))
    except CompileError:
        if not options.get("memoryLimit") or not options.get("strict"):
            raise
        artefact, _ = build(text, {**options, "strict": False})
    manifest = manifest_of(artefact)
    sent = sum(int(row["sent"]) for row in collectives(manifest, 0))
    return int(manifest["memory"]["peak"]), sent


def choose_reduce(local: Callable[[Reduce], str], options: Mapping[str, Any]) -> Reduce:
    """Returns when ranks sum gradients that a loop over micro-batches adds up.

    Behind the last one, which moves the fewest bytes, unless that needs more than `memoryLimit` of
    the options: then whichever fits and moves fewer, or, where neither fits, needs less.

    Args:
        local: the program of a rank that sums so.
        options: of the compiler, for one rank; without `simulateRanks`, so that a process that
            runs alone chooses as ranks do.
    """
    limit = int(options.get("memoryLimit") or 0)
    if not limit:
        return "last"
    texts = {choice: local(choice) for choice in CHOICES}
    if texts["last"] == texts["each"]:
        return "last"
    found = {choice: needs(text, options) for choice, text in texts.items()}
    fitting = [choice for choice in CHOICES if found[choice][0] <= limit]
    if fitting:
        return min(fitting, key=lambda choice: found[choice][1])
    return min(CHOICES, key=lambda choice: found[choice][0])
