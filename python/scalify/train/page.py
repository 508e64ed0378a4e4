"""One HTML page of a run, or of several beside one another, that needs no network.

python -m scalify.train.page run-fp8 run-f32 -o compared.html
"""

from __future__ import annotations

import argparse
import dataclasses
import html
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from scalify._extras import require
from scalify._html_page import COLOURS, STYLE, grid, save_page
from scalify.train.log import SMOOTHING, read_records

__all__ = ["Curves", "main", "write_page"]

POINTS = 2000  # of a curve; a longer one shows means


@dataclasses.dataclass(frozen=True)
class Curves:
    """The records of one run.

    Attributes:
        name: of the run's folder.
        steps: records of steps.
        evaluations: records of evaluations.
        samples: texts that the model wrote, with their steps.
        config: of the run.
    """

    name: str
    steps: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    config: dict[str, Any]

    @staticmethod
    def read(folder: pathlib.Path) -> Curves:
        """Returns the records in a run's folder.

        Raises:
            ValueError: there are none.
        """
        found: dict[str, list[dict[str, Any]]] = {"step": [], "evaluation": [], "sample": []}
        for record in read_records(folder / "log.jsonl"):
            found.setdefault(record["kind"], []).append(record)
        if not found["step"]:
            raise ValueError(f"'{folder}' has no records of a run: expected log.jsonl with steps")
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return Curves(folder.name, found["step"], found["evaluation"], found["sample"], config)

    def curve(self, key: str) -> tuple[list[float], list[float]]:
        """Returns steps and values of a key, in at most POINTS means."""
        pairs = [(one["step"], one[key]) for one in self.steps if one.get(key) is not None]
        if len(pairs) > POINTS:
            parts = np.array_split(np.asarray(pairs, float), POINTS)
            pairs = [tuple(part.mean(axis=0)) for part in parts]
        return [float(x) for x, _ in pairs], [float(y) for _, y in pairs]


def smooth(values: Sequence[float]) -> list[float]:
    """Returns exponential means, whose first values are those of the values so far."""
    mean, weight, means = 0.0, 0.0, []
    for value in values:
        mean = SMOOTHING * mean + (1 - SMOOTHING) * value
        weight = SMOOTHING * weight + 1 - SMOOTHING
        means.append(mean / weight)
    return means


def write_page(folders: Sequence[pathlib.Path], path: pathlib.Path) -> None:
    """Writes the page of runs.

    Raises:
        ImportError: Bokeh is missing.
        OSError: a file cannot be read or written.
        ValueError: a folder has no records.
    """
    require("the page of a run", "train", "bokeh")
    runs = [Curves.read(folder) for folder in folders]
    title = ", ".join(run.name for run in runs)
    parts = [_header(runs), grid(_charts(runs)), _details(runs)]
    save_page(parts, path, f"Training: {title}")


def _charts(runs: Sequence[Curves]) -> list[Any]:
    loss = _chart("Loss", "nats a token")
    _lines(loss, runs, "loss", faint=True)
    for run, colour in zip(runs, COLOURS, strict=False):
        steps = [one["step"] for one in run.evaluations]
        losses = [one["loss"] for one in run.evaluations]
        if steps:
            label = f"{run.name}, validation"
            loss.scatter(steps, losses, size=7, color=colour, legend_label=label)
            loss.line(steps, losses, color=colour, line_dash="dashed")
    charts = [loss]
    for title, unit, key, scale in (
        ("Gradient norm", "global norm", "gradient_norm", "log"),
        ("Learning rate", "", "learning_rate", "linear"),
        ("Speed", "tokens a second", "tokens_per_second", "linear"),
        ("Values that casts flush to zero", "share of a step's", "flushed", "linear"),
        ("Values that casts saturate", "share of a step's", "saturated", "linear"),
    ):
        if not any(run.curve(key)[0] for run in runs):
            continue
        chart = _chart(title, unit, scale)
        _lines(chart, runs, key, faint=key in ("gradient_norm", "tokens_per_second"))
        charts.append(chart)
    return charts


def _chart(title: str, unit: str, scale: str = "linear") -> Any:
    from bokeh.models import DataRange1d, NumeralTickFormatter
    from bokeh.plotting import figure

    chart = figure(
        title=title,
        x_axis_label="step",
        y_axis_label=unit,
        y_axis_type=scale,
        width=500,
        height=300,
        tools="pan,wheel_zoom,box_zoom,reset,hover,save",
        tooltips=[("step", "@x"), (title, "@y")],
    )
    chart.xaxis.formatter = NumeralTickFormatter(format="0,0")
    if unit.startswith("tokens"):
        chart.yaxis.formatter = NumeralTickFormatter(format="0,0")
    if unit.startswith("share"):
        chart.y_range = DataRange1d(start=0, default_span=1e-3)
        chart.yaxis.formatter = NumeralTickFormatter(format="0.00 %")
    return chart


def _lines(chart: Any, runs: Sequence[Curves], key: str, faint: bool) -> None:
    for run, colour in zip(runs, COLOURS, strict=False):
        steps, values = run.curve(key)
        if not steps:
            continue
        if faint:
            chart.line(steps, values, color=colour, alpha=0.25)
        shown = smooth(values) if faint else values
        chart.line(steps, shown, color=colour, line_width=2, legend_label=run.name)
    if chart.legend and (len(runs) == 1 and key != "loss"):
        chart.legend.visible = False
    elif chart.legend:
        chart.legend.click_policy = "hide"
        chart.legend.label_text_font_size = "9pt"
        chart.legend.background_fill_alpha = 0.5


def _header(runs: Sequence[Curves]) -> str:
    rows = ["<tr><th>run<th>steps<th>recipe<th>last loss<th>validation loss<th>tokens/s</tr>"]
    for run in runs:
        recipe = run.config.get("recipe", {}).get("name", "")
        validation = f"{run.evaluations[-1]['loss']:.4f}" if run.evaluations else ""
        speeds = [one["tokens_per_second"] for one in run.steps if "tokens_per_second" in one]
        speed = f"{np.median(speeds):,.0f}" if speeds else ""
        last = smooth([one["loss"] for one in run.steps])[-1]
        rows.append(
            f"<tr><td>{html.escape(run.name)}<td>{run.steps[-1]['step']:,}<td>{html.escape(recipe)}"
            f"<td>{last:.4f}<td>{validation}<td>{speed}</tr>"
        )
    return f"{STYLE}<h1>Training</h1><table>{''.join(rows)}</table>"


def _details(runs: Sequence[Curves]) -> str:
    parts = []
    for run in runs:
        name = html.escape(run.name)
        for sample in run.samples[-3:]:
            parts.append(
                f"<h3>{name}, step {sample['step']:,}</h3><p>{html.escape(sample['text'])}</p>"
            )
        text = html.escape(json.dumps(run.config, indent=1))
        parts.append(
            f"<details><summary>{name}: configuration</summary><pre>{text}</pre></details>"
        )
    return "".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m scalify.train.page", description="Writes one page of runs side by side."
    )
    parser.add_argument("folders", nargs="+", type=pathlib.Path, help="log.folder of each run")
    parser.add_argument("-o", "--out", type=pathlib.Path, default=pathlib.Path("runs.html"))
    options = parser.parse_args(argv)
    try:
        write_page(options.folders, options.out)
    except (OSError, ValueError, ImportError) as error:
        print(f"page: {error}", file=sys.stderr)
        return 2
    print(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
