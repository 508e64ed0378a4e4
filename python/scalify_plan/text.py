"""The planner's results as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalify_plan.choose import Choice, Outcome
from scalify_plan.disturb import Loss
from scalify_plan.layout import Layout
from scalify_plan.published import Row
from scalify_plan.step import Prediction

__all__ = ["HEAD", "of_layout", "of_outcomes", "of_prediction", "of_rows"]

HEAD = "SIMULATED: nothing of this was run, no figure was measured here"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms" if seconds < 1 else f"{seconds:,.3f} s"


def _size(count: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:,.2f} {unit}"
    return f"{count:.0f} B"


def _lines(pairs: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in pairs)


def of_layout(layout: Layout) -> str:
    """Returns the text of a layout, in one line."""
    parts = [f"data {layout.data}", f"tensor {layout.tensor}", f"stages {layout.pipeline}"]
    if layout.interleave > 1:
        parts.append(f"{layout.interleave} pieces a stage")
    if layout.sequence and layout.tensor > 1:
        parts.append("sequence parallel")
    parts += [f"micro-batch {layout.micro}", f"ZeRO-{layout.zero}"]
    if layout.recompute != "none":
        parts.append(f"recompute {layout.recompute}")
    if layout.level:
        parts.append(f"FP8-LM's {layout.level.upper()}")
    parts.append(f"gradients {layout.wire[0].upper()}, weights {layout.wire[1].upper()}")
    parts.append(f"buckets of {layout.bucket:.3g}")
    return ", ".join(parts)


def of_prediction(step: Prediction) -> str:
    """Returns the text of a model's step."""
    memory = ", ".join(f"{name} {_size(count)}" for name, count in step.memory.items() if count)
    return _lines(
        [
            ("step", _time(step.seconds)),
            ("compute", _time(step.compute)),
            ("bubble", _time(step.bubble)),
            ("optimizer", _time(step.optimizer)),
            ("exposed, tensor ranks", _time(step.tensor)),
            ("exposed, stages", _time(step.stages)),
            ("exposed, replicas", _time(step.replicas)),
            ("hidden exchange", _time(step.hidden)),
            ("sent over NVLink", f"{_size(step.nvlink)} a rank"),
            ("sent over the network", f"{_size(step.network)} a rank"),
            ("memory", memory),
            ("tokens", f"{step.tokens:,.0f} a second and GPU"),
            ("rate", f"{step.flops / 1e12:,.0f} TFLOP/s a GPU, MFU {step.mfu:.1%}"),
        ]
    )


def _choice(choice: Choice) -> str:
    formats = [
        f"gradients {choice.gradients.upper() or 'as they are'}",
        f"weights {choice.weights.upper() or 'as they are'}",
    ]
    bucket = f"buckets of {_size(choice.bucket)}" if choice.bucket else "no buckets"
    return ", ".join([*formats, bucket])


def of_outcomes(
    plan: Outcome,
    serial: Outcome,
    found: Sequence[Outcome],
    memory: Mapping[str, Any],
    wrong: Sequence[Loss],
    bucket: float,
) -> str:
    """Returns the text of a compiled step: the plan, the best choices, and disturbances."""
    kept = _size(sum(memory["arguments"].values()))
    lines = [
        ("step", f"{_time(plan.seconds)}; {_time(serial.seconds)} where nothing overlaps"),
        ("compute", _time(plan.compute)),
        ("exposed exchange", _time(plan.exposed)),
        ("hidden exchange", _time(plan.hidden)),
        ("sent over NVLink", f"{_size(plan.nvlink)} a rank"),
        ("sent over the network", f"{_size(plan.network)} a rank"),
        ("memory", _size(memory["peak"])),
        ("of it", f"arguments {kept}, arena {_size(memory['arena'])}"),
    ]
    best = [(_time(one.seconds), _choice(one.choice)) for one in found[:3]]
    cases = [
        (one.name, f"{_time(one.lost)} lost overlapped, {_time(one.serial_lost)} serial")
        for one in wrong[1:]
    ]
    parts = [_lines(lines)]
    if bucket:
        lines = [("90 % of the links' rate", f"from {_size(bucket)} a gather on")]
        parts.append(_lines(lines))
    if best:
        parts += ["fastest choices:", _lines(best)]
    if cases:
        parts += ["links that misbehave:", _lines(cases)]
    return "\n".join(parts)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def of_rows(found: Sequence[Row]) -> str:
    """Returns the rows as a table in Markdown."""
    lines = ["| rows | | published | SIMULATED | error | bar | |", "|---|---|---|---|---|---|---|"]
    for row in found:
        points = row.unit == "%"
        error = f"{row.error:+.1f} points" if points else f"{row.error:+.1%}"
        bar = "" if row.bar is None else f"{row.bar:g} points" if points else f"{row.bar:.0%}"
        cells = [
            row.table,
            row.name,
            f"{_figure(row.published)} {row.unit}",
            f"{_figure(row.simulated)} {row.unit}",
            error,
            bar,
            "" if row.bar is None else "met" if row.holds else "**missed**",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
