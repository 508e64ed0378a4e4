"""One self-contained HTML page of a training: loss curves, scales, casts."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from config import ModelConfig, TrainConfig

if TYPE_CHECKING:
    from train import Run

__all__ = ["render"]

WIDTH, HEIGHT, LEFT, BOTTOM = 760, 320, 46, 30
COLOURS = ["#5b6ee1", "#d9622b", "#3c9d63", "#a04fb8"]
STYLE = """
:root { color-scheme: light dark; --ink: #222; --dim: #8883; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 900px; }
body { padding: 0 1rem; }
svg { width: 100%; height: auto; }
svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
table { border-collapse: collapse; font-size: 13px; }
th, td { text-align: left; padding: 2px 10px; border-bottom: 1px solid var(--dim); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
summary { cursor: pointer; font-weight: 600; } details { overflow-x: auto; }
"""

Point = tuple[float, float]


def smooth(values: Sequence[float], weight: float = 0.9) -> list[float]:
    """Returns the bias-corrected running mean: single batches are noisy."""
    mean, found = 0.0, []
    for index, value in enumerate(values, 1):
        mean = weight * mean + (1 - weight) * value
        found.append(mean / (1 - weight**index))
    return found


def plot(
    lines: Sequence[tuple[str, str, Sequence[Point], float]],
    dots: Sequence[tuple[str, Sequence[Point]]],
    axes: tuple[str, str],
) -> str:
    """Returns an SVG of (label, colour, points, opacity) lines and (colour, points) dots."""
    every = [p for _, _, points, _ in lines for p in points] + [p for _, ps in dots for p in ps]
    if not every:
        return ""
    low_x, high_x = min(p[0] for p in every), max(p[0] for p in every)
    low_y, high_y = min(p[1] for p in every), max(p[1] for p in every)
    span_x, span_y = max(high_x - low_x, 1e-9), max(high_y - low_y, 1e-9)

    def place(point: Point) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - 10) * (point[0] - low_x) / span_x
        y = 10 + (HEIGHT - BOTTOM - 10) * (high_y - point[1]) / span_y
        return x, y

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">']
    for tick in range(6):
        value = low_y + span_y * tick / 5
        y = place((low_x, value))[1]
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8883"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        )
        value = low_x + span_x * tick / 5
        x = place((value, low_y))[0]
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle">{value:.0f}</text>')
    for index, (label, colour, points, opacity) in enumerate(lines):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, points))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" '
            f'stroke-opacity="{opacity}"/>'
        )
        if label:
            y = 22 + 16 * index
            parts.append(
                f'<text x="{WIDTH - 20}" y="{y}" text-anchor="end" style="fill:{colour}">'
                f"{html.escape(label)}</text>"
            )
    for colour, points in dots:
        for x, y in map(place, points):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>')
    parts.append(
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 1}" text-anchor="middle">{html.escape(axes[0])}</text>'
        f'<text x="{LEFT}" y="8">{html.escape(axes[1])}</text></svg>'
    )
    return "".join(parts)


def grid(rows: Sequence[dict[str, Any]]) -> str:
    """Returns a table of rows, a column for every key."""
    if not rows:
        return ""
    keys = list(dict.fromkeys(key for row in rows for key in row))

    def cell(value: Any) -> str:
        kind = ' class="n"' if isinstance(value, int | float) else ""
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        return f"<td{kind}>{html.escape(shown)}</td>"

    head = "".join(f"<th>{html.escape(key)}</th>" for key in keys)
    body = "".join(
        "<tr>" + "".join(cell(row.get(key, "")) for key in keys) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def scales(run: Run) -> str:
    """Returns a plot of the casts' log2(scale) in program order, and the whole report's table."""
    casts = [row for row in run.report if row["op"] == "quantize" and row["scale"] is not None]
    if not casts:
        return ""
    kinds = sorted({f"{row['phase']}, {row['format']}" for row in casts})
    dots: list[tuple[str, list[Point]]] = []
    lines: list[tuple[str, str, list[Point], float]] = []
    for colour, kind in zip(COLOURS * len(kinds), kinds, strict=False):
        points = [
            (float(index), float(row["scale"]))
            for index, row in enumerate(casts)
            if f"{row['phase']}, {row['format']}" == kind
        ]
        dots.append((colour, points))
        lines.append((kind, colour, points[:1], 1.0))
    columns = ("value", "op", "scale", "format", "phase", "reason", "location")
    shown = [{key: row[key] for key in columns} for row in run.report]
    return (
        f"<h2>Scales of the {html.escape(run.recipe)} run</h2>"
        + plot(lines, dots, ("quantising cast, in program order", "log2(scale)"))
        + f"<details><summary>{len(run.report)} values</summary>{grid(shown)}</details>"
    )


def render(runs: list[Run], cfg: ModelConfig, plan: TrainConfig) -> str:
    """Returns the page."""
    lines = []
    for colour, run in zip(COLOURS, runs, strict=False):
        name = "f32" if run.recipe == "none" else run.recipe
        steps = range(1, len(run.losses) + 1)
        lines.append(("", colour, list(zip(steps, run.losses, strict=True)), 0.25))
        label = f"{name}: validation {run.validation:.4f}"
        lines.append((label, colour, list(zip(steps, smooth(run.losses), strict=True)), 1.0))
    summary = [
        {
            "run": "f32" if run.recipe == "none" else run.recipe,
            "validation loss": run.validation,
            "gap in %": 100 * (run.validation / runs[0].validation - 1),
            "training in s": run.seconds,
        }
        for run in runs
    ]
    health = "".join(
        f"<h2>Casts of the last step, {html.escape(run.recipe)}</h2><details><summary>"
        f"{len(run.health)} casts</summary>{grid(run.health)}</details>"
        for run in runs
        if run.health
    )
    title = f"LLaMA, {cfg.layers} layers, dim {cfg.dim}, {plan.steps} steps, seed {plan.seed}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style><h1>{title}</h1>{grid(summary)}"
        f"<h2>Training loss</h2>{plot(lines, [], ('step', 'cross entropy in nats'))}"
        f"{''.join(scales(run) for run in runs)}{health}</html>\n"
    )
