"""The chain of rules that led to one scale, over the rows of a full report."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import Any, overload

__all__ = ["Why", "explain", "find_row"]

Row = dict[str, Any]

_MAX_MATCHES = 6


class Why(Sequence[Row]):
    """A value and the sources of its scale: rows with `depth`, in pre-order of the tree.

    `repeated` marks a row whose sources are listed above, `cut` a row whose sources are below the
    requested depth. `str()` is an indented tree.
    """

    def __init__(self, lines: Sequence[Row]) -> None:
        self._lines = list(lines)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        return self._lines[index]

    def __len__(self) -> int:
        return len(self._lines)

    def __str__(self) -> str:
        return "\n".join(map(_line, self._lines))

    __repr__ = __str__


def _names(row: Row) -> list[str]:
    return [name for name in (row["value"], row["source"], row["cast"]) if name]


def find_row(rows: Sequence[Row], name: str) -> int:
    """Returns the id of the row with a name.

    Args:
        rows: of a full report.
        name: a value ("%412"), an argument ("params['w']"), a cast ("c12"), a row ("#17"), or a
            part of a location that only one value has.

    Raises:
        KeyError: no value or several values have that name; the message lists near matches.
    """
    name = name.strip()
    if name.startswith("#") and name[1:].isdecimal() and int(name[1:]) < len(rows):
        return int(name[1:])
    exact = [row for row in rows if name in _names(row)]
    # If Import expanded one op of the text into several, the last one has its result.
    if exact and len({row["location"] for row in exact}) == 1:
        return int(exact[-1]["id"])
    found = exact or [row for row in rows if name and name in row["location"]]
    if len(found) == 1:
        return int(found[0]["id"])
    if found:
        shown = ", ".join(map(_quote, found[:_MAX_MATCHES]))
        more = len(found) - _MAX_MATCHES
        shown += f", and {more} more" if more > 0 else ""
        raise KeyError(f"{len(found)} values match '{name}': {shown}")
    every = list(dict.fromkeys(known for row in rows for known in _names(row)))
    near = difflib.get_close_matches(name, every, _MAX_MATCHES, 0.5)
    hint = "; near it: " + ", ".join(f"'{known}'" for known in near) if near else ""
    raise KeyError(
        f"no value is called '{name}'{hint} (give a value such as '%4', an argument's name, a "
        "cast such as 'c0', or a part of a location)"
    )


def _quote(row: Row) -> str:
    where = f" at {row['location']}" if row["location"] else ""
    return f"#{row['id']} {row['cast'] or row['value']} ({row['op']}{where})"


def explain(rows: Sequence[Row], start: int, depth: int) -> Why:
    """Returns the chain of sources of a row, down to `depth` steps (0: all of it)."""
    lines: list[Row] = []
    seen: set[int] = set()
    # An explicit stack, since chains of a deep step have thousands of rows.
    stack = [(start, 0)]
    while stack:
        number, level = stack.pop()
        row = rows[number]
        repeated = number in seen
        cut = not repeated and 0 < depth <= level and bool(row["from"])
        line = dict(row, depth=level, repeated=repeated and bool(row["from"]), cut=cut)
        lines.append(line)
        if repeated or cut:
            continue
        seen.add(number)
        stack += [(source, level + 1) for source in reversed(row["from"])]
    return Why(lines)


def facts(row: Row) -> str:
    """Returns `mean 0, rms 0.125, bound 4`, or "" if they are not known."""
    if row["rms"] is None:
        return ""
    text = f"mean {row['mean']:.3g}, rms {row['rms']:.3g}"
    if row["bound"] is not None and math.isfinite(row["bound"]):
        text += f", bound {row['bound']:.3g}"
    return text


def _line(row: Row) -> str:
    text = f"{row['cast'] or row['value'] or '#' + str(row['id'])} = {row['op']}"
    if row["scale"] is not None:
        text += f", 2^{row['scale']}"
    if row["rule"]:
        text += f", {row['rule']}"
    if known := facts(row):
        text += f" [{known}]"
    if row["reason"] and row["reason"] != row["rule"]:
        text += f"; {row['reason']}"
    if row["location"]:
        text += f" at {row['location']}"
    if row["repeated"]:
        text += " (see above)"
    elif row["cut"]:
        text += f" ({len(row['from'])} more below)"
    return "  " * row["depth"] + text
