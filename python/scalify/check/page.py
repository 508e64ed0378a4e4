"""One HTML page of a check."""

from __future__ import annotations

import html
import pathlib
from typing import Any

from scalify._extras import require
from scalify._html_page import COLOURS, STYLE, grid, save_page
from scalify.check.results import BARS, Check, Result

__all__ = ["write_page"]

_TENSORS = 40  # in a chart, the worst ones
_CASTS = 20  # in a table, those that lose most


def write_page(check: Check, path: pathlib.Path) -> None:
    """Writes the page.

    Raises:
        ImportError: Bokeh is missing.
        OSError: the file cannot be written.
    """
    require("the page of a check", "check", "bokeh")
    charts = [
        _cosines(check),
        _drifts(check),
        _bars(check, "Time of a step", "ms", _times(check)),
        _bars(check, "Memory", "MB", _memories(check)),
    ]
    parts = [_header(check), grid(charts), _wide(check), _health(check), _noise(check)]
    save_page(parts, path, f"Check of {check.name}")


def _shown(check: Check) -> list[Result]:
    return [result for result in check.results if result.looks]


def _cosines(check: Check) -> Any:
    from bokeh.plotting import figure

    worst: dict[str, float] = {}
    for result in _shown(check):
        for name, value in result.looks[-1].tensors.items():
            worst[name] = min(value, worst.get(name, 1.0))
    names = sorted(worst, key=lambda name: -worst[name])[-_TENSORS:]
    chart = figure(
        title=f"Cosine to F32, the {len(names)} worst tensors",
        y_range=names or ["none"],
        width=500,
        height=max(300, 14 * len(names) + 80),
        tools="pan,box_zoom,reset,hover,save",
        tooltips=[("tensor", "@y"), ("cosine", "@x{0.0000}")],
    )
    for result, colour in zip(_shown(check), COLOURS, strict=False):
        tensors = result.looks[-1].tensors
        known = [name for name in names if name in tensors]
        chart.scatter(
            [tensors[name] for name in known],
            known,
            size=6,
            color=colour,
            alpha=0.8,
            legend_label=result.label,
        )
    chart.line([BARS.worst] * 2, [0, max(1, len(names))], color="#888888", line_dash="dashed")
    _legend(chart, "bottom_left")
    return chart


def _drifts(check: Check) -> Any:
    from bokeh.plotting import figure

    chart = figure(
        title="Drift of the scales of casts",
        x_axis_label="cast, in the order of the step",
        y_axis_label="log2(true rms / scale)",
        width=500,
        height=300,
        tools="pan,box_zoom,reset,hover,save",
        tooltips=[("cast", "@name"), ("drift", "@y{+0.0}")],
    )
    for result, colour in zip(_shown(check), COLOURS, strict=False):
        known = [(i, cast) for i, cast in enumerate(result.casts) if cast.drift is not None]
        if not known:
            continue
        source = {
            "x": [i for i, _ in known],
            "y": [cast.drift for _, cast in known],
            "name": [f"{cast.cast}, {cast.phase}" for _, cast in known],
        }
        chart.scatter("x", "y", source=source, size=5, color=colour, legend_label=result.label)
    _legend(chart, "top_left")
    return chart


def _legend(chart: Any, place: str) -> None:
    if chart.legend:
        chart.legend.location = place
        chart.legend.click_policy = "hide"
        chart.legend.label_text_font_size = "9pt"
        chart.legend.background_fill_alpha = 0.5


def _times(check: Check) -> dict[str, float]:
    found = {"jax.jit": 1e3 * check.jax_seconds}
    if check.none_seconds is not None:
        found["Scalify, none"] = 1e3 * check.none_seconds
    return found | {
        result.label: 1e3 * result.seconds for result in check.results if result.seconds is not None
    }


def _memories(check: Check) -> dict[str, float]:
    found = {} if check.jax_memory is None else {"jax.jit": check.jax_memory / 1e6}
    return found | {
        result.label: result.memory / 1e6 for result in check.results if result.memory is not None
    }


def _bars(check: Check, title: str, unit: str, values: dict[str, float]) -> Any:
    from bokeh.plotting import figure

    names = list(reversed(values)) or [check.name]
    chart = figure(
        title=title,
        y_range=names,
        x_axis_label=unit,
        width=500,
        height=max(150, 30 * len(names) + 80),
        tools="hover,save",
        tooltips=[("", "@y"), (unit, "@right{0.0}")],
    )
    chart.hbar(
        y=names, right=[values.get(name, 0.0) for name in names], height=0.6, color=COLOURS[0]
    )
    chart.x_range.start = 0
    return chart


def _table(header: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _header(check: Check) -> str:
    lines = "<br>".join(map(html.escape, check.verdict.lines))
    rows = []
    for result in check.results:
        looks = "; ".join(
            f"{look.whole:.4f} / {look.worst[0]:.4f}" + (f" after {look.step}" if look.step else "")
            for look in result.looks
        )
        bars = result.error or "; ".join(result.faults) or "holds"
        rows.append([result.label, looks, f"{100 * result.narrow:.0f} %", bars])
    table = _table(["recipe", "cosine, all / worst tensor", "narrow FLOPs", "bars"], rows)
    compared = f"{check.judged} tensors ({check.compared}) beside the step as written"
    if check.is_first_iteration:
        compared += ", in the first iteration of its loop"
    return (
        f"{STYLE}<h1>Check of {html.escape(check.name)}</h1><p>{lines}</p><p>{compared}</p>{table}"
    )


def _wide(check: Check) -> str:
    parts = []
    for result in _shown(check):
        rows = [
            [f"{100 * share.flops:.1f} %", str(share.dots), share.reason, ", ".join(share.names)]
            for share in result.wide
        ]
        if rows:
            table = _table(["FLOPs", "products", "stays wide because", "weights"], rows)
            parts.append(f"<h3>{html.escape(result.label)}: what stays wide</h3>{table}")
    return "".join(parts)


def _health(check: Check) -> str:
    parts = []
    for result in _shown(check):
        rows = sorted(result.casts, key=lambda cast: -cast.saturated - cast.flushed)[:_CASTS]
        table = _table(
            ["cast", "format", "saturated", "flushed", "drift", "at"],
            [
                [
                    cast.cast,
                    cast.format,
                    f"{100 * cast.saturated:.3g} %",
                    f"{100 * cast.flushed:.3g} %",
                    "" if cast.drift is None else f"{cast.drift:+.1f}",
                    cast.location,
                ]
                for cast in rows
            ],
        )
        label = html.escape(result.label)
        parts.append(f"<details><summary>{label}: health of casts</summary>{table}</details>")
    return "".join(parts)


def _noise(check: Check) -> str:
    if not check.noise:
        return ""
    rows = [[name, f"{value:.4f}"] for name, value in check.noise.items()]
    table = _table(
        ["left out: zero or rounding noise in F32 already", "cosine of F32 to F32"], rows
    )
    return f"<h3>Not judged</h3>{table}"
