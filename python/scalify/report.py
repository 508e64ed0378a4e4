"""The report: scales and formats of a step's values, their reasons, and statistics of casts."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from scalify._page import page
from scalify._predict import predict
from scalify._statistics import Statistics
from scalify._why import Row, Why, explain, find_row

__all__ = ["Report", "Row", "Why"]

_COLUMNS = ("value", "op", "scale", "format", "phase", "reason", "location")
_TEXTS = (
    *("value", "op", "location", "phase", "format", "rule", "reason", "cast", "source", "range"),
    *("kind", "weight", "scaling"),
)
_FLAGS = ("by_prior", "wide")
_NUMBERS = ("scale", "mean", "rms", "bound", "headroom")

# Returns the full report (docs/stages/explain.md).
Loader = Callable[[], dict[str, Any]]


class Report(Sequence[Row]):
    """The rows of one step, in graph order: one per value, and one per quantizing cast.

    A row is a dictionary. `value` is its name in the compiled text ("%412", an argument as
    "params['w']", a cast as "c12"). `op`, `location` and `phase` give its origin. `scale` is log2
    of its scale (None if the step measures it or there is none), `rule` the rule that set it.
    `format` is that of its elements (of a dot "f8E4M3FN x f8E5M2 -> f32"). `reason` is the rule, or
    why a dot stays wide. `mean`, `rms` and `bound` are the facts that determined the scale, `from`
    the `id`s of the rows that these facts came from. `headroom` is the number of binades to the top
    of the format, `cast` a cast's name in health(), `flops` the floating-point operations of a dot
    per step. In rows of `dots`, which are in every artefact, `value` is "precision:%12", its name
    in the snapshot after Precision.
    """

    def __init__(
        self,
        rows: Iterable[Row],
        load: Loader | None = None,
        statistics: Statistics | None = None,
        calls: Iterable[Row] = (),
    ) -> None:
        """Initialises a report.

        Args:
            rows: the brief rows: arguments, casts and dots.
            load: returns the full report, on demand; without it there are only the brief rows.
            statistics: of a run.
            calls: the step's calls into its process.
        """
        self._calls = list(calls)
        self._brief = [_rename_value(_normal(row)) for row in rows]
        self._load = load
        self._table: dict[str, Any] | None = None
        self.statistics = statistics

    def _full(self) -> dict[str, Any] | None:
        if self._table is None and self._load is not None:
            table = dict(self._load())
            table["rows"] = [_normal(row) for row in table["rows"]]
            self._table = table
        return self._table

    @property
    def _rows(self) -> list[Row]:
        table = self._full()
        return self._brief if table is None else table["rows"]

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
        return [row for row in self._brief if row["op"] == "quantize"]

    def dots(self) -> list[Row]:
        """Returns the rows of all dots and convolutions, whose format has an arrow."""
        return [row for row in self._brief if "->" in row["format"]]

    def calls(self) -> list[Row]:
        """Returns the step's calls into its process, in order: `name`, `location`, `by`.

        `by` is "python" for a callback, "xla" for ops that the CPU target cannot lower.
        """
        return [dict(row) for row in self._calls]

    def measured_arguments(self) -> list[Row]:
        """Returns the rows of arguments without a given scale, which each step measures."""
        return [
            row for row in self._brief if row["op"] == "argument" and row["scaling"] == "measured"
        ]

    def prior_casts(self) -> list[Row]:
        """Returns the rows of casts whose scales depend on priors, guesses about training.

        Their predicted scales differ between all priors and none. `scalify.jit` replaces the
        prediction by what such a cast sees of the first batch, unless `calibration=None`.
        """
        return [row for row in self.casts() if row["by_prior"]]

    def counts(self) -> dict[str, Any]:
        """Returns how often rules, scales, formats and reasons occur, and ops after each pass.

        Raises:
            ValueError: there is only the brief report.
        """
        return dict(self._require_full()["summary"])

    def why(self, name: str, depth: int = 6) -> Why:
        """Returns the chain of rules that led to the scale of a value, to be printed.

        Args:
            name: a value ("%412"), an argument ("params['w']"), a cast ("c12"), a row ("#17"), or
                a part of a location that only one value has.
            depth: steps to go back; 0 for all.

        Raises:
            KeyError: no value or several values have that name.
            ValueError: there is only the brief report.
        """
        rows = self._require_full()["rows"]
        return explain(rows, find_row(rows, name), depth)

    def _require_full(self) -> dict[str, Any]:
        table = self._full()
        if table is None:
            raise ValueError(
                "this artefact holds the brief report only: compile it with report='full'"
            )
        return table

    def summary(self) -> str:
        """Returns a few lines: casts and dots by format, and the reasons of dots that stay wide.

        The first lines give the number of arguments that each step measures, if any, and the share
        of narrow FLOPs.
        """
        measured = len(self.measured_arguments())
        lines = [f"{measured} arguments measured in each step"] if measured else []
        wide = [row["wide"] for row in self.dots()]
        flops = [row.get("flops", 0) for row in self.dots()]
        if sum(flops) > 0 and self.casts():
            narrow = sum(count for count, is_wide in zip(flops, wide, strict=True) if not is_wide)
            lines.append(f"{100 * narrow / sum(flops):.0f} % of the FLOPs of dots are narrow")
        if guessed := self.prior_casts():
            names = ", ".join(row["value"] for row in guessed)
            lines.append(f"{len(guessed)} casts by priors: {names}")
        for rows, what in ((self.casts(), "casts to"), (self.dots(), "dots")):
            counts = collections.Counter(row["format"] for row in rows)
            lines += [f"{count} {what} {form}" for form, count in counts.most_common()]
        reasons = collections.Counter(row["reason"] for row in self.dots() if row["wide"])
        lines += [f"{count} dots: {reason}" for reason, count in reasons.most_common()]
        lines += [f"{row['name']} by {row['by']}: {row['location']}" for row in self._calls]
        return "\n".join(lines) or "nothing is cast"

    def __str__(self) -> str:
        return _table(self._rows)

    def __repr__(self) -> str:
        return f"<scalify.Report of {len(self.casts())} casts and {len(self.dots())} dots>"

    def with_statistics(self, statistics: Statistics | None) -> Report:
        """Returns the report with the statistics of a run, for `save`."""
        report = Report(self._brief, self._load, statistics, self._calls)
        report._table = self._table
        return report

    def save(self, path: str | os.PathLike[str], statistics: Statistics | None = None) -> None:
        """Writes the report: `.json` as data, `.html` as one page that needs no other file.

        Args:
            path: of the file.
            statistics: of a run; by default those of the report.

        Raises:
            ValueError: the path has neither suffix.
            OSError: the file cannot be written.
        """
        target = pathlib.Path(path)
        if target.suffix == ".json":
            content = self._full() or {"schema": "scalify.report/1", "rows": self._brief}
            text = json.dumps(content) + "\n"
        elif target.suffix in (".html", ".htm"):
            text = self._page(self.statistics if statistics is None else statistics)
        else:
            raise ValueError(f"'{target.name}' ends in neither .html nor .json")
        target.write_text(text, encoding="utf-8")

    def _page(self, statistics: Statistics | None) -> str:
        table = self._full() or {}
        rows = self._rows
        if not table:
            rows = [dict(row, id=i) for i, row in enumerate(rows)]
        predictions = {row["id"]: known for row in rows if (known := predict(row)) is not None}
        steps = [] if statistics is None else statistics.steps
        return page(rows, table, self.summary(), predictions, steps)


def _normal(row: Row) -> Row:
    """Returns the row with `loc` renamed to `location`, and with every key."""
    normal = dict(row)
    if "loc" in normal:
        normal["location"] = normal.pop("loc")
    for key in _TEXTS:
        normal.setdefault(key, "")
    for key in _NUMBERS:
        normal.setdefault(key, None)
    for key in _FLAGS:
        normal.setdefault(key, False)
    normal.setdefault("id", None)
    normal.setdefault("from", [])
    # A brief row has one text for rule and reason.
    if not normal["rule"] and not normal["wide"]:
        normal["rule"] = normal["reason"]
    normal["reason"] = normal["reason"] or normal["rule"]
    return normal


def _rename_value(row: Row) -> Row:
    """Returns a brief row with a `value` that no other value of the compiled text has."""
    if row["cast"]:
        return row | {"value": row["cast"].split(":")[0]}
    return row | {"value": re.sub("^%", "precision:%", row["value"])}


def _cell(row: Row, column: str) -> str:
    if column == "scale":
        return "" if row["scale"] is None else f"2^{row['scale']}"
    if column == "reason":
        return str(row["reason"])
    return str(row[column])


def _table(rows: Sequence[Row]) -> str:
    cells = [list(_COLUMNS)] + [[_cell(row, column) for column in _COLUMNS] for row in rows]
    widths = [min(48, max(len(line[i]) for line in cells)) for i in range(len(_COLUMNS))]
    # The last column is not truncated.
    return "\n".join(
        "  ".join(
            cell if i == len(widths) - 1 else cell[: widths[i]].ljust(widths[i])
            for i, cell in enumerate(line)
        ).rstrip()
        for line in cells
    )
