"""What a step sends to other ranks, by its plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scalify._dtypes import to_numpy

__all__ = ["collectives"]


def collectives(manifest: Mapping[str, Any], rank: int) -> list[dict[str, Any]]:
    """Returns a row for each collective of a step, in the order in which all ranks issue them.

    Args:
        manifest: of an artefact.
        rank: whose bytes are counted.
    """
    buffers = manifest["buffers"]
    return [
        _row(command, buffers[command["src"]], rank)
        for command in manifest["functions"]["step"]
        if command["op"] == "collective"
    ]


def _row(command: Mapping[str, Any], source: Mapping[str, Any], rank: int) -> dict[str, Any]:
    elements = math.prod(source["shape"])
    if command["kind"] == "message":
        groups = [[rank, command["to"]] if "to" in command else [command["from"], rank]]
    else:
        groups = command["groups"]
    sent = _sent(command["kind"], groups, elements, rank)
    return {
        "kind": command["kind"],
        "join": command.get("join", "none"),
        "loc": command["loc"],
        "dtype": source["dtype"],
        "elements": elements,
        "groups": groups,
        "sent": sent * to_numpy(source["dtype"]).itemsize,
    }


def _sent(kind: str, groups: list[list[int]], elements: int, rank: int) -> int:
    """Returns how many elements a rank sends."""
    if kind in ("permute", "message"):
        return sum(elements for source, target in groups if source == rank != target)
    members = next(group for group in groups if rank in group)
    others = len(members) - 1
    if kind == "all_gather":
        return elements * others
    if kind == "all_reduce":
        # To each other member its piece, to be joined there; then one's own, joined, to all. The
        # first members' pieces have one element more where they are not equal.
        own = elements // len(members) + (members.index(rank) < elements % len(members))
        return (elements - own + own * others) if others else 0
    return elements // len(members) * others
