"""Tables of the long run: held-out losses, paired gaps, casts that moved, health over time."""

from __future__ import annotations

import statistics
from typing import Any

import corpus
import gradients
import seeds

__all__ = ["summary", "tables", "write"]

BASE = "none"
# Steps whose figures are one entry of a run's summary.
WINDOW = 25
# Entries of a run that a table shows at most.
SHOWN = 10


def summary(recipe: str, seed: int, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the figures of a run's log: by held-out evaluation, and by window of steps.

    Args:
        recipe: its name.
        seed: its seed.
        records: of log.jsonl.
    """
    steps = [row for row in records if row["kind"] == "step"]
    held = {row["step"]: row["loss"] for row in records if row["kind"] == "evaluation"}
    # The first step of a process compiles, and has no rate.
    times = [row["seconds"] for row in steps if "tokens_per_second" in row]
    windows = []
    for first in range(0, len(steps) - WINDOW + 1, WINDOW):
        part = steps[first : first + WINDOW]
        counted = [row for row in part if "moved" in row]
        entry: dict[str, Any] = {
            "step": part[-1]["step"],
            "loss": round(statistics.fmean(row["loss"] for row in part), 5),
        }
        if counted:
            entry |= {
                "moved": sum(row["moved"] for row in counted),
                "saturated": max(row["saturated"] for row in counted),
                "flushed": statistics.fmean(row["flushed"] for row in counted),
            }
        windows.append(entry)
    return {
        "recipe": recipe,
        "seed": seed,
        "steps": steps[-1]["step"] if steps else 0,
        "casts": max((row.get("casts", 0) for row in steps), default=0),
        "seconds": round(statistics.median(times), 3) if times else None,
        "held": {str(step): round(loss, 5) for step, loss in held.items()},
        "windows": windows,
    }


def _chosen(steps: list[int]) -> list[int]:
    """Returns at most SHOWN of the steps, evenly, the last one included."""
    stride = max(1, -(-len(steps) // SHOWN))
    return steps[::-1][::stride][::-1]


def _by(runs: list[dict[str, Any]], recipe: str) -> dict[int, dict[str, Any]]:
    return {run["seed"]: run for run in runs if run["recipe"] == recipe}


def _last_common(one: dict[str, Any], other: dict[str, Any]) -> int | None:
    """Returns the last step at which both runs were evaluated."""
    return max(map(int, one["held"].keys() & other["held"].keys()), default=None)


def curves(runs: list[dict[str, Any]]) -> str:
    """Returns the table of held-out losses by step."""
    steps = sorted({int(step) for run in runs for step in run["held"]})
    shown = _chosen(steps)
    rows = [
        [run["recipe"], str(run["seed"]), str(run["steps"])]
        + [f"{run['held'][str(s)]:.4f}" if str(s) in run["held"] else "-" for s in shown]
        for run in runs
    ]
    return gradients.table(["recipe", "seed", "steps so far", *map(str, shown)], rows)


def gaps(runs: list[dict[str, Any]]) -> str:
    """Returns the table of paired gaps to F32, at the last step that all of a recipe's pairs have.

    The gap is in percent of F32's held-out loss.
    """
    base, rows = _by(runs, BASE), []
    for recipe in dict.fromkeys(run["recipe"] for run in runs):
        own = _by(runs, recipe)
        pairs = {
            seed: step
            for seed in own
            if seed in base and (step := _last_common(own[seed], base[seed])) is not None
        }
        if recipe == BASE or not pairs:
            continue
        at = str(min(pairs.values()))
        gap = seeds.Gap(
            recipe,
            tuple(
                100 * (own[seed]["held"][at] / base[seed]["held"][at] - 1) for seed in sorted(pairs)
            ),
        )
        half = gap.half_width(seeds.STUDENT)
        interval = f"{gap.mean - half:+.2f} .. {gap.mean + half:+.2f} %"
        several = len(gap.gaps) > 1
        rows.append(
            [recipe, str(len(pairs)), at, f"{gap.mean:+.2f} %"]
            + ([f"{gap.high:+.2f} %", interval] if several else ["-", "-"])
            + [" ".join(f"{value:+.2f}" for value in gap.gaps)]
        )
    header = ["recipe", "seeds", "at step", "gap to F32, mean", "upper 95 % bound", "95 % interval"]
    return gradients.table([*header, "each seed"], rows)


def health(runs: list[dict[str, Any]]) -> str:
    """Returns the table of casts over time."""
    rows = []
    for run in runs:
        counted = [entry for entry in run["windows"] if "moved" in entry]
        if not counted:
            continue
        for step in _chosen([entry["step"] for entry in counted]):
            at = counted.index(next(entry for entry in counted if entry["step"] == step))
            entry = counted[at]
            rows.append(
                [
                    *(run["recipe"], str(run["seed"])),
                    f"{step - WINDOW + 1} to {step}",
                    str(run["casts"]),
                    str(entry["moved"]),
                    f"{100 * entry['saturated']:.2g} %",
                    f"{100 * entry['flushed']:.2g} %",
                ]
            )
    header = ["recipe", "seed", "steps", "casts", "moves of scales", "saturated, most of a step"]
    return gradients.table([*header, "flushed, mean"], rows)


def times(runs: list[dict[str, Any]]) -> str:
    """Returns the table of medians of a step's time, beside F32's of the same seed."""
    base, rows = _by(runs, BASE), []
    for run in runs:
        usual = base.get(run["seed"], {}).get("seconds")
        if run["seconds"] is not None:
            ratio = f"{usual / run['seconds']:.2f} x" if usual else "-"
            rows.append([run["recipe"], str(run["seed"]), f"{run['seconds']:.3f}", ratio])
    return gradients.table(["recipe", "seed", "a step, s", "F32's time over it"], rows)


def tables(results: dict[str, Any]) -> str:
    """Returns the tables in Markdown; times only if nothing else ran."""
    runs = results["runs"]
    parts = {"Held-out losses": curves, "Gaps": gaps, "Casts": health}
    if results["quiet"]:
        parts["Time"] = times
    return "\n\n".join(f"## {title}\n\n{part(runs)}" for title, part in parts.items())


def _described(results: dict[str, Any]) -> str:
    sources = ", ".join(f"`{one.package}` ({one.licence})" for one in corpus.SOURCES)
    reached = max((run["steps"] for run in results["runs"]), default=0)
    left = (
        f" The longest of these runs has {reached:,} of {results['steps']:,} steps so far: the "
        "tables say what was reached, and nothing is extrapolated."
        if reached < results["steps"]
        else ""
    )
    times = (
        ""
        if results["quiet"]
        else "\n\nTimes are not reported: the machine was shared with other programs."
    )
    return (
        f"On {results['machine']}: a LLaMA of 8.6 M parameters (6 layers, width 256), steps of "
        f"{results['tokens']:,} tokens, {results['steps']:,} steps in the full setting, on "
        f"{results['corpus'] / 1e6:.1f} M tokens of an 8,192-token BPE.{left}\n\n"
        f"The text is of Debian packages, fetched by apt: {sources}. Nothing of it is in the "
        "repository. 2 % of the documents are held out, chosen by a hash; losses of them are in "
        "nats, computed in F32 for all runs, on 32,768 tokens. Runs of one seed share initial "
        "weights (muS has its own) and the order of data.\n\n"
        "`mus` is the same model written as muS asks (Narayan et al. 2025, arXiv 2502.05967): "
        "[`mus.py`](../../benchmarks/numerics/mus.py) says what differs. Its learning rate is the "
        "best of [short runs](numerics-transfer.md), LLaMA's and muS's tau are not tuned, and its "
        "gap is between two models, so it is not one of precision. "
        "`fp8` casts by scales from rules, without an amax pass; `fp8-current` measures an amax "
        "for each cast.\n\n"
        "A move is a cast whose scale differs from the step before. Under `fp8-current` every "
        "scale follows its amax, so moves are usual; under `fp8` they are the carried scales that "
        "the [rescaling rule](../stages/rescaling.md#carried-scales) moved. Saturated and flushed "
        f"are shares of all cast values of a step.{times}"
    )


def write(results: dict[str, Any]) -> None:
    """Writes the page of the docs."""
    text = f"{_described(results)}\n\n{tables(results)}"
    gradients.write("docs/research/numerics-long-run.md", "A long run", text, "make long-run")
