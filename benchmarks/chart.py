"""Draws the chart of the README: speedups of twelve models by recipe, from results of suite.py.

    python benchmarks/chart.py benchmarks/results/suite-....json docs/images/speedup.svg

It needs matplotlib (requirements-docs.txt); `make chart` has it. Equal results give equal files.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
from typing import Any

__all__ = ["geometric_means", "main", "title"]

# What is drawn, with its label, colour and marker: colours differ in lightness too.
SHOWN = {
    "jax.jit bf16": ("jax.jit, BF16", "#999999", "o"),
    "scalify none": ("Scalify, none", "#e69f00", "s"),
    "scalify fp8": ("Scalify, fp8", "#d55e00", "D"),
    "scalify bf16": ("Scalify, bf16", "#0072b2", "^"),
}
MEAN = "geometric mean"


def geometric_means(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Returns each contender's geometric mean over the models."""
    names = dict.fromkeys(row["name"] for row in rows)
    return {
        name: statistics.geometric_mean(row["speedup"] for row in rows if row["name"] == name)
        for name in names
    }


def title(results: dict[str, Any]) -> str:
    """Returns the chart's title, which says what was measured where."""
    unit = results["unit"].upper().replace("_", "-")
    return f"Training steps, {results['machine']}, {unit}, {results['date']}"


def main() -> None:
    """Reads the results and writes the chart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()
    results = json.loads(options.results.read_text(encoding="utf-8"))

    import matplotlib

    # Text stays text, which readers can search; identifiers are no random numbers.
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "scalify"})
    matplotlib.rcParams.update({"font.family": "sans-serif", "font.size": 10})
    import matplotlib.pyplot as plt

    rows = results["rows"]
    models = list(dict.fromkeys(row["model"] for row in rows))
    found = {(row["model"], row["name"]): row["speedup"] for row in rows}
    means = geometric_means(rows)
    found |= {(MEAN, name): mean for name, mean in means.items()}
    places = {model: -index for index, model in enumerate([*models, MEAN])}

    figure, axes = plt.subplots(figsize=(8, 5.6), layout="constrained")
    for name, (label, colour, marker) in SHOWN.items():
        speedups = [found[model, name] for model in places]
        label = f"{label}: {means[name]:.2f}x"
        axes.scatter(
            speedups, list(places.values()), s=42, c=colour, marker=marker, label=label, zorder=3
        )
    axes.axvline(1, color="black", linewidth=1)
    axes.axhline(places[MEAN] + 0.5, color="black", linewidth=0.5)
    axes.set_yticks(list(places.values()), list(places))
    axes.set_xlim(0, None)
    axes.set_xlabel("times as fast as jax.jit in F32")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_title(title(results), fontsize=10, loc="left")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, title="geometric means")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
