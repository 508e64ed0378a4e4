"""The report as one HTML page that needs no other file and no network."""

from __future__ import annotations

import html
import json
import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from scalify._dtypes import limits

__all__ = ["page"]

_ASSETS = pathlib.Path(__file__).parent / "assets"
# Columns with few distinct texts, encoded as a list of texts and indices into it.
_CODED = ("op", "phase", "format", "rule", "reason", "location", "group")
_LAYER = re.compile(r"\b((?:layers?|blocks?|h|stage|encoder|decoder)[._-]?\d+)\b", re.IGNORECASE)
_METRICS = ("sqnr", "saturated", "flushed", "rms", "amax")


def page(
    rows: Sequence[Mapping[str, Any]],
    table: Mapping[str, Any],
    summary: str,
    predictions: Mapping[int, Mapping[str, float]],
    steps: Sequence[Mapping[str, Mapping[str, Any]]],
) -> str:
    """Returns the page.

    Args:
        rows: of the report; `id` is a row's index.
        table: the full report, or empty.
        summary: a few lines of text.
        predictions: the expected shares and SQNR of each cast, by its `id`.
        steps: the statistics of a run, per step and cast; may be empty.
    """
    data = {
        "recipe": table.get("recipe", ""),
        "summary": table.get("summary", {}),
        "text": summary,
        "rows": _columns(rows),
        "formats": _formats(rows),
        "predicted": {
            str(number): [_number(known[key]) for key in ("underflow", "overflow", "sqnr")]
            for number, known in predictions.items()
        },
        "statistics": _statistics(rows, steps),
    }
    # A "</script>" in a name must not end the element.
    payload = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    template = (_ASSETS / "report.html").read_text(encoding="utf-8")
    parts = {
        "TITLE": html.escape(f"Scales and formats {table.get('recipe', '')}".strip()),
        "STYLE": (_ASSETS / "report.css").read_text(encoding="utf-8"),
        "DATA": payload,
        "SCRIPT": (_ASSETS / "report.js").read_text(encoding="utf-8"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _group(row: Mapping[str, Any]) -> str:
    """Returns the layer named in a row's location or value; "" if there is none."""
    match = _LAYER.search(row["location"]) or re.search(r"layers'\]\[(\d+)\]", row["value"])
    if match is None:
        return ""
    return match[1] if not match[1].isdecimal() else f"layer{match[1]}"


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the rows column by column, since thousands of rows share few texts."""
    columns: dict[str, Any] = {}
    texts = {key: [row[key] for row in rows] for key in _CODED if key != "group"}
    texts["group"] = [_group(row) for row in rows]
    for key, values in texts.items():
        known = {text: place for place, text in enumerate(dict.fromkeys(values))}
        columns[key] = {"texts": list(known), "places": [known[text] for text in values]}
    for key in ("value", "cast", "source", "range", "from", "scale", "wide"):
        columns[key] = [row[key] for row in rows]
    for key in ("mean", "rms", "bound", "headroom"):
        columns[key] = [_number(row[key]) for row in rows]
    columns["body"] = [row["id"] for row in rows if row.get("body")]
    columns["dropped"] = [row["id"] for row in rows if row.get("dropped")]
    return columns


def _formats(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Returns log2 of the smallest and of the largest magnitude of each cast's format."""
    elements = {row["format"] for row in rows if row["op"] == "quantize"}
    return {element: [math.log2(limit) for limit in limits(element)] for element in elements}


def _statistics(
    rows: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Mapping[str, Any]]]
) -> dict[str, Any]:
    """Returns each metric as a list per cast of its value at each step."""
    places = {row["cast"]: row["id"] for row in rows if row["op"] == "quantize"}
    casts = [name for name in places if any(name in step for step in steps)]
    return {
        "steps": len(steps),
        "casts": [places[name] for name in casts],
        "metrics": {
            metric: [[_number(step.get(name, {}).get(metric)) for step in steps] for name in casts]
            for metric in _METRICS
        },
    }


def _number(value: float | None) -> float | None:
    """Returns the value to four digits; None if JSON cannot represent it."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.4g}")
