"""The most bytes of its arena that a step uses at once, counted from its commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scalify._dtypes import to_numpy

__all__ = ["live_bytes"]


def _buffers(command: Mapping[str, Any]) -> Iterator[int]:
    """Yields the numbers of the buffers that a command reads or writes."""
    yield from command.get("bufs", ())
    for name in ("src", "dst", "a", "b", "c"):
        if isinstance(number := command.get(name), int):
            yield number


def _ends(commands: Sequence[Mapping[str, Any]]) -> list[int]:
    """Returns for each command the index of the command at which it is known to be done."""
    ends = list(range(len(commands)))
    open_, recorded = [], {}
    for place, command in enumerate(commands):
        is_aside = command.get("stream", 0) == 1
        if command["op"] == "collective" and is_aside:
            open_.append(place)
        elif command["op"] == "record" and is_aside:
            recorded[command["event"]] = list(open_)
        elif command["op"] == "wait" and not is_aside:
            for other in recorded.get(command["event"], ()):
                if other in open_:
                    ends[other] = place
                    open_.remove(other)
    for other in open_:
        ends[other] = len(commands) - 1
    return ends


def live_bytes(manifest: Mapping[str, Any]) -> int:
    """Returns the largest number of live bytes of the arena at any command.

    A temporary is live from the first command that names it to the last one, a collective's until
    it has been waited for.
    """
    commands, buffers = manifest["functions"]["step"], manifest["buffers"]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, (command, end) in enumerate(zip(commands, _ends(commands), strict=True)):
        for number in _buffers(command):
            if buffers[number]["kind"] == "temp":
                first.setdefault(number, place)
                last[number] = max(last.get(number, 0), end)
    most = 0
    for place in range(len(commands)):
        total = reached = 0
        # Parts of one array lie in its memory, which counts once.
        for start, end in sorted(
            (buffers[n]["offset"], buffers[n]["offset"] + _size(buffers[n]))
            for n in first
            if first[n] <= place <= last[n]
        ):
            total += max(0, end - max(start, reached))
            reached = max(reached, end)
        most = max(most, total)
    return most


def _size(buffer: Mapping[str, Any]) -> int:
    return int(np.prod(buffer["shape"], dtype=np.int64)) * to_numpy(buffer["dtype"]).itemsize
