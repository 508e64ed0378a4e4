"""SIMULATED tables of the planner: published rows, layouts of LLaMA, disturbed links.

Nothing is run; no such machine was available.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks" / "numerics"))

import gradients

from scalify_plan import DEVICES, MODELS, Layout, disturb, published, text
from scalify_plan.layout import Level
from scalify_plan.search import Found, search

__all__ = ["disturbed_links_table", "layouts", "main"]

H100 = DEVICES["h100"]
# Sequences of 4,096 tokens: four million tokens per step.
BATCH = 1024


def layouts() -> str:
    """Returns the table of layouts for LLaMA on 8, 64 and 512 GPUs."""
    header = ["SIMULATED", "GPUs", "data x tensor x stages", "micro-batch, pieces"]
    header += [
        "ZeRO",
        "FP8-LM",
        "recompute",
        "wire",
        "step",
        "tokens/s/GPU",
        "TFLOP/s",
        "exposed",
        "GB",
    ]
    lines = []
    for name in ("llama-7b", "llama-13b", "llama-70b"):
        for gpus in (8, 64, 512):
            found = _layout(name, gpus)
            layout, step = found.layout, found.step
            parallel = " + SP" if layout.sequence and layout.tensor > 1 else ""
            lines.append(
                [
                    name,
                    str(gpus),
                    f"{layout.data} x {layout.tensor} x {layout.pipeline}{parallel}",
                    f"{layout.micro}, {layout.interleave}",
                    str(layout.zero),
                    layout.level or "-",
                    layout.recompute,
                    f"{layout.wire[0]} / {layout.wire[1]}, {layout.bucket:.0e}",
                    f"{step.seconds:.2f} s",
                    f"{step.tokens:,.0f}",
                    f"{step.flops / 1e12:.0f}",
                    f"{(step.tensor + step.replicas + step.stages) / step.seconds:.1%}",
                    f"{step.memory['peak'] / 1e9:.0f}",
                ]
            )
    return gradients.table(header, lines)


def _layout(name: str, gpus: int) -> Found:
    """Returns the fastest layout with F32 state, else under FP8-LM's first level that fits."""
    levels: tuple[Level, ...] = ("", "o1", "o2")
    for level in levels:
        with contextlib.suppress(ValueError):
            return search(H100, MODELS[name], gpus, batch=BATCH, level=level)[0]
    return search(H100, MODELS[name], gpus, batch=BATCH, level="o3")[0]


def disturbed_links_table() -> str:
    """Returns the table of the cost of disturbed links, overlapped and serial."""
    header = ["SIMULATED", "wire", "links", "overlapped", "serial", "lost overlapped", "serial"]
    common = Layout(2, 1, 256, BATCH, 4, gradients="each", zero=2, compute="fp8", bucket=1e8)
    lines = []
    for wire in (("f32", "bf16"), ("fp8", "fp8")):
        layout = dataclasses.replace(common, wire=wire)
        for case in disturb.of_model(H100, MODELS["llama-13b"], layout):
            times = (case.overlapped, case.serial, case.lost, case.serial_lost)
            cells = [f"{1e3 * seconds:.0f} ms" for seconds in times]
            lines.append(["13B, 512 H100", f"{wire[0]} / {wire[1]}", case.name, *cells])
    return gradients.table(header, lines)


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="to docs/research/planner-tables.md")
    options = parser.parse_args()
    share = published.calibration()
    parts = [
        "**Simulated: none of this was run.** [The planner](../planner.md) describes the model.",
        "## Published rows",
        text.of_rows(published.rows()),
        "A calibrated row of Megatron-LM is the uncalibrated one times a factor fitted on the "
        f"other ten; the factor fitted on all is {share:.3f}. The factor by one row on A100 is "
        f"{published.share_on_a100():.3f}, the share of the simulated rate that Megatron-LLaMA "
        "reached on 32 A100.",
        "## Layouts of LLaMA",
        f"The fastest layout that fits into 70.4 GB a rank; {BATCH} sequences of 4,096 tokens, "
        "linear layers in FP8, state of 12 bytes a parameter, or, if nothing fits with that, "
        "FP8-LM's first level that fits. Wire: gradients / weights, elements of a bucket. "
        "No losses to hosts, data or clocks are modelled: for Megatron-LM's rows these are a "
        f"factor of {share:.2f}.",
        layouts(),
        "## Links that misbehave",
        "Layers and exchanges of replicas, without head and update. A straggler: one exchange is "
        "late by a tenth of the step.",
        disturbed_links_table(),
    ]
    table = "\n\n".join(parts)
    print(table)
    if options.write:
        page = f"# Tables of the planner\n\nWritten by `make planner ARGS=--write`.\n\n{table}\n"
        (ROOT / "docs" / "research" / "planner-tables.md").write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
