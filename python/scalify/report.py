"""The report: what got which scale and format, and why."""

from __future__ import annotations

import collections
import html
import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

__all__ = ["Report", "Row"]

# value, op, location, phase, scale (log2, or None where measured in the step), format, reason;
# a quantizing cast also has `cast`, its name in health().
Row = dict[str, Any]

_COLUMNS = ("value", "op", "scale", "format", "phase", "reason", "location")


class Report(Sequence[Row]):
    """The rows of one compiled step, in program order."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = [_normal(row) for row in rows]

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def casts(self) -> list[Row]:
        """Returns the rows of the quantizing casts."""
        return [row for row in self._rows if row["op"] == "quantize"]

    def dots(self) -> list[Row]:
        """Returns the rows of all dots."""
        return [row for row in self._rows if row["op"] == "dot_general"]

    def summary(self) -> str:
        """Returns a few lines: casts and dots by format, and every dot that stays wide."""
        lines = []
        for rows, what in ((self.casts(), "casts to"), (self.dots(), "dots")):
            counts = collections.Counter(row["format"] for row in rows)
            lines += [f"{count} {what} {form}" for form, count in counts.most_common()]
        reasons = collections.Counter(
            row["reason"] for row in self.dots() if row["reason"].startswith("stays wide")
        )
        lines += [f"{count} dots: {reason}" for reason, count in reasons.most_common()]
        return "\n".join(lines) or "nothing is cast"

    def __str__(self) -> str:
        return _table(self._rows)

    def __repr__(self) -> str:
        return f"<scalify.Report of {len(self)} values>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the report: `.json` as rows, `.html` as one page that needs no other file.

        Raises:
            ValueError: the name ends in neither.
            OSError: the file cannot be written.
        """
        target = pathlib.Path(path)
        if target.suffix == ".json":
            text = json.dumps(self._rows, indent=1) + "\n"
        elif target.suffix in (".html", ".htm"):
            text = _page(self)
        else:
            raise ValueError(f"'{target.name}' ends in neither .html nor .json")
        target.write_text(text, encoding="utf-8")


def _normal(row: Row) -> Row:
    """Returns the row as Python has it: `location` in full, a scale also if there is none."""
    normal = dict(row)
    if "loc" in normal:
        normal["location"] = normal.pop("loc")
    normal.setdefault("scale", None)
    for key in _COLUMNS:
        normal.setdefault(key, "")
    return normal


def _cell(row: Row, column: str) -> str:
    value = row[column]
    if column == "scale":
        return "" if value is None else f"2^{value}"
    return str(value)


def _table(rows: Sequence[Row]) -> str:
    cells = [list(_COLUMNS)] + [[_cell(row, column) for column in _COLUMNS] for row in rows]
    widths = [min(48, max(len(line[i]) for line in cells)) for i in range(len(_COLUMNS))]
    # The last column is as long as it is.
    return "\n".join(
        "  ".join(
            cell if i == len(widths) - 1 else cell[: widths[i]].ljust(widths[i])
            for i, cell in enumerate(line)
        ).rstrip()
        for line in cells
    )


_STYLE = """
body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#222}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.2em .6em;border-bottom:1px solid #ddd;vertical-align:top}
th{position:sticky;top:0;background:#fff;cursor:pointer}
tr.cast{background:#eef6ff}tr.wide{background:#fff6e5}
pre{background:#f6f6f6;padding:1em}input{width:24em;padding:.3em;margin:1em 0}
""".strip()

_SCRIPT = """
const box=document.querySelector('input'),rows=[...document.querySelectorAll('tbody tr')];
box.oninput=()=>rows.forEach(r=>r.hidden=!r.textContent.includes(box.value));
document.querySelectorAll('th').forEach((th,i)=>th.onclick=()=>{
 const key=r=>{const t=r.cells[i].textContent;return t.startsWith('2^')?+t.slice(2):t};
 rows.sort((a,b)=>key(a)>key(b)?1:-1).forEach(r=>r.parentNode.append(r))});
""".strip()


def _page(report: Report) -> str:
    body = []
    for row in report:
        kind = "cast" if row["op"] == "quantize" else ""
        if row["reason"].startswith("stays wide"):
            kind = "wide"
        cells = "".join(f"<td>{html.escape(_cell(row, column))}</td>" for column in _COLUMNS)
        body.append(f'<tr class="{kind}">{cells}</tr>')
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Scales and formats</title>"
        f"<style>{_STYLE}</style><h1>Scales and formats</h1>"
        f"<pre>{html.escape(report.summary())}</pre>"
        "<label>Show rows that contain <input></label>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        f"<script>{_SCRIPT}</script></html>\n"
    )
