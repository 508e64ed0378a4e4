"""Statistics of a step's casts: amax, rms, saturation, flushing and SQNR, step by step."""

from __future__ import annotations

import json
import math
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

__all__ = ["COLUMNS", "Statistics"]

# Columns of the table that the pass scalify-collect-statistics adds to main's results.
COLUMNS = ("elements", "amax", "square", "noise", "saturated", "flushed", "nonfinite", "scale")

Figures = dict[str, float | None]


class Statistics:
    """Figures of every cast, per step; recorded by `collect` and by `transform(statistics=True)`.

    The figures are a dictionary: `elements`, `amax` and `rms` of the wide value; `saturated`, the
    share of elements beyond the format's largest value; `flushed`, the share of nonzero elements
    that became zero; `sqnr`, the signal-to-quantization-noise ratio in dB; `scale`. Figures that
    were not collected are None: an executable only counts saturated and flushed elements.
    """

    def __init__(self, steps: Sequence[Mapping[str, Figures]] = ()) -> None:
        self._steps: list[dict[str, Figures]] = [dict(step) for step in steps]
        self._pending: list[tuple[tuple[str, ...], Any]] = []

    def add_table(self, casts: Sequence[str], table: Any) -> None:
        """Records one step from the table of the instrumented program.

        Args:
            casts: the name of each row's cast.
            table: f32[len(casts), 8] with the columns `COLUMNS`; read when figures are requested.
        """
        self._pending.append((tuple(casts), table))

    def add_health(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Records one step from `Executable.health()`."""
        self._read_pending()
        step: dict[str, Figures] = {}
        for row in rows:
            count = max(1, row["elements"])
            step[row["cast"]] = {
                "elements": row["elements"],
                "amax": None,
                "rms": None,
                "saturated": row["saturated"] / count,
                "flushed": row["flushed"] / count,
                "nonfinite": None,
                "sqnr": None,
                "scale": None,
            }
        self._steps.append(step)

    def recorder(self, casts: Sequence[str]) -> Callable[[Any], None]:
        """Returns a function that records a table, also from inside `jax.jit`."""
        names = tuple(casts)
        return lambda table: self.add_table(names, table)

    def _read_pending(self) -> None:
        if self._pending:
            jax.effects_barrier()
        pending, self._pending = self._pending, []
        for casts, table in pending:
            rows = np.asarray(table, np.float64)
            self._steps.append({name: _figures(row) for name, row in zip(casts, rows, strict=True)})

    @property
    def steps(self) -> list[dict[str, Figures]]:
        """The figures of each cast by its name, per step."""
        jax.effects_barrier()
        self._read_pending()
        return self._steps

    @property
    def casts(self) -> list[str]:
        """The names of all casts, in order."""
        return list(dict.fromkeys(name for step in self.steps for name in step))

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        return f"<scalify.Statistics of {len(self.casts)} casts over {len(self)} steps>"

    def of(self, cast: str) -> list[Figures | None]:
        """Returns the figures of a cast per step; None for a step without the cast.

        Args:
            cast: "c12: x", or "c12".

        Raises:
            KeyError: no step has the cast.
        """
        names = [name for name in self.casts if cast in (name, name.split(":")[0])]
        if not names:
            raise KeyError(f"no cast is called '{cast}': there are {', '.join(self.casts[:6])}")
        return [step.get(names[0]) for step in self.steps]

    def worst(self, count: int = 10) -> list[dict[str, Any]]:
        """Returns the casts of least SQNR, with the largest saturated and flushed of any step."""
        rows: list[dict[str, Any]] = []
        for cast in self.casts:
            known = [figures for figures in self.of(cast) if figures is not None]
            rows.append(
                {
                    "cast": cast,
                    "sqnr": _extreme(known, "sqnr", min),
                    "saturated": _extreme(known, "saturated", max),
                    "flushed": _extreme(known, "flushed", max),
                }
            )
        rows.sort(key=lambda row: _badness(row["sqnr"], row["saturated"], row["flushed"]))
        return rows[:count]

    def __str__(self) -> str:
        lines = [repr(self)[1:-1]]
        for row in self.worst():
            sqnr = "" if row["sqnr"] is None else f"{row['sqnr']:6.1f} dB, "
            lines.append(
                f"{row['cast']}: {sqnr}{row['saturated'] or 0:.2%} saturated, "
                f"{row['flushed'] or 0:.2%} flushed"
            )
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the figures as JSON."""
        content = {"schema": "scalify.statistics/1", "steps": _finite(self.steps)}
        pathlib.Path(path).write_text(json.dumps(content) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Statistics:
        """Reads a file that `save` wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: it does not contain statistics.
        """
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("schema") != "scalify.statistics/1":
            raise ValueError(f"'{os.fspath(path)}' does not hold statistics")
        return Statistics(content["steps"])


def _figures(row: np.ndarray[Any, Any]) -> Figures:
    given = dict(zip(COLUMNS, map(float, row), strict=True))
    count = max(1.0, given["elements"] + given["nonfinite"])
    finite = max(1.0, given["elements"])
    sqnr: float | None = None
    if given["square"] > 0:
        noise = given["noise"] / given["square"]
        sqnr = -10 * math.log10(noise) if noise > 0 else math.inf
    return {
        "elements": given["elements"] + given["nonfinite"],
        "amax": given["amax"],
        "rms": math.sqrt(given["square"] / finite) * given["scale"],
        "saturated": given["saturated"] / count,
        "flushed": given["flushed"] / count,
        "nonfinite": given["nonfinite"] / count,
        "sqnr": sqnr,
        "scale": given["scale"],
    }


def _extreme(figures: Sequence[Figures], key: str, choose: Callable[..., float]) -> float | None:
    values = [value for one in figures if (value := one[key]) is not None]
    return choose(values) if values else None


def _badness(sqnr: float | None, saturated: float | None, flushed: float | None) -> Any:
    return (math.inf if sqnr is None else sqnr, -(saturated or 0) - (flushed or 0))


def _finite(value: Any) -> Any:
    """Returns the value with None for numbers that JSON cannot represent."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
