"""Chooses how ranks reduce gradients within their memory limit, by the bytes they send.

If a step exceeds the limit, the compiler rematerialises all-gathers of sharded weights for the
backward (`memoryLimit`), or the gradients of each micro-batch are reduced separately and
accumulated as shards. Both send more bytes; of the choices that fit, the one that sends the fewest
is taken.
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
    """Returns a rank's peak memory and the bytes that it sends in a step, by its plan."""
    # A step that does not fit is measured too; under `strict` that would be an error.
    try:
        artefact, _ = build(text, {**options, "planOnly": True})
    except CompileError:
        if not options.get("memoryLimit") or not options.get("strict"):
            raise
        artefact, _ = build(text, {**options, "planOnly": True, "strict": False})
    manifest = manifest_of(artefact)
    sent = sum(int(row["sent"]) for row in collectives(manifest, 0))
    return int(manifest["memory"]["peak"]), sent


def choose_reduce(local: Callable[[Reduce], str], options: Mapping[str, Any]) -> Reduce:
    """Returns when ranks reduce the gradients that a loop over micro-batches accumulates.

    Returns "last", after the loop, which sends the fewest bytes, unless that exceeds `memoryLimit`
    of the options. Then returns the choice that fits and sends fewer bytes, or, if neither fits,
    the choice that needs less memory.

    Args:
        local: returns the program of a rank for a choice.
        options: of the compiler, for one rank; without `simulateRanks`, so that a process that
            runs alone makes the same choice as ranks.
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
