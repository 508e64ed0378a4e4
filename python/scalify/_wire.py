"""The collectives of a step's plan, and the bytes that a rank sends in each."""

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
        rank: whose bytes are counted; in a pipeline, mapped to the rank of the artefact's stage
            with the same place in its stage.
    """
    buffers = manifest["buffers"]
    ranks = None
    if "pipeline" in manifest:
        # The plan of a pipeline numbers ranks within the stage, and names other stages.
        ranks = manifest["pipeline"]["ranks"]
        rank = manifest["pipeline"]["stage"] * ranks + rank % ranks
    return [
        _row(command, buffers[command["src"]], rank, ranks)
        for command in manifest["functions"]["step"]
        if command["op"] == "collective"
    ]


def _groups(command: Mapping[str, Any], rank: int, ranks: int | None) -> list[list[int]]:
    """Returns the ranks of a collective's groups; those of the rank's own stage in a pipeline."""
    if ranks is None:
        return list(command["groups"])
    place = rank % ranks
    if command["kind"] != "message":
        return [[rank - place + member for member in group] for group in command["groups"]]
    if "to" in command:
        return [[rank, command["to"] * ranks + place]]
    return [[command["from"] * ranks + place, rank]]


def _row(
    command: Mapping[str, Any], source: Mapping[str, Any], rank: int, ranks: int | None
) -> dict[str, Any]:
    elements = math.prod(source["shape"])
    groups = _groups(command, rank, ranks)
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
    if kind == "broadcast":
        return elements * others if members[0] == rank else 0
    if kind == "all_reduce":
        # A reduce-scatter, then an all-gather of the reduced shard. The first members' shards are
        # one element larger where the size does not divide.
        own = elements // len(members) + (members.index(rank) < elements % len(members))
        return (elements - own + own * others) if others else 0
    return elements // len(members) * others
