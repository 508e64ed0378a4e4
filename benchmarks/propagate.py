"""Times the compiler on the example's training step by depth, to check that it is linear in layers.

The step is lowered from types alone, nothing is allocated or run. Each depth goes through
scalify-opt in one thread, stage by stage. Times are processor seconds, which other work on the
machine does not change, the least of some runs. A stage's time is the difference of two runs;
`parse` includes printing. The last lines say how many times longer a step with k times the layers
takes.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import jax
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples" / "llama"))

import model
import optimizer
from config import ModelConfig, TrainConfig

__all__ = ["main"]

# The stages in order; each run adds one stage.
STAGES: dict[str, list[str]] = {
    "parse": [],
    "import": ["--scalify-import"],
    "propagate": ["--scalify-propagate=remarks=false"],
    "quantize": ["--scalify-precision=recipe=fp8 remarks=false"],
    "stablehlo": ["--scalify-to-stablehlo=fp8-form=xla-gpu"],
}


def lower(layers: int, plan: TrainConfig) -> str:
    """Returns the text of the step of an unrolled LLaMA, with locations."""
    cfg = ModelConfig(layers=layers, dim=1024, heads=16, kv_heads=16, ffn=2816, vocab=512, seq=512)
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    adamw = optimizer.make_optimizer(plan)
    state = jax.eval_shape(adamw.init, params)
    batch = jax.ShapeDtypeStruct((plan.batch, cfg.seq + 1), np.int32)
    step = jax.jit(optimizer.make_step(cfg, adamw), donate_argnums=(0, 1))
    return step.lower(params, state, batch).as_text(debug_info=True)


def run(path: pathlib.Path, opt: pathlib.Path, passes: list[str]) -> tuple[float, float]:
    """Returns the processor's seconds and the peak memory in MB of one run.

    Raises:
        RuntimeError: scalify-opt failed.
    """
    command = [str(opt), str(path), *passes, "-o", os.devnull, "--mlir-disable-threading"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(layers: int, opt: pathlib.Path, repeats: int) -> dict[str, float]:
    """Returns seconds per stage and the peak memory for a depth, the least of some runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "step.mlir"
        text = lower(layers, TrainConfig())
        path.write_text(text, encoding="utf-8")
        result: dict[str, float] = {"layers": layers, "lines": text.count("\n")}
        passes: list[str] = []
        before = 0.0
        for stage, more in STAGES.items():
            passes += more
            runs = [run(path, opt, passes) for _ in range(repeats)]
            seconds = min(seconds for seconds, _ in runs)
            result[stage], before = seconds - before, seconds
            result["MB"] = min(megabytes for _, megabytes in runs)
    return result


def show(rows: list[dict[str, float]]) -> None:
    """Prints the table and the growth from the first depth to each other."""
    print("layers   lines " + " ".join(f"{name:>14}" for name in STAGES) + "       MB")
    for row in rows:
        cells = " ".join(f"{row[name]:14.3f}" for name in STAGES)
        print(f"{row['layers']:6} {row['lines']:7} {cells} {row['MB']:8.0f}")
    for row in rows[1:]:
        growth = row["propagate"] / rows[0]["propagate"]
        times = row["layers"] / rows[0]["layers"]
        print(f"{times:.0f} times the layers: propagate {growth:.1f} times the seconds")


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--layers", type=int, nargs="*", default=[8, 16, 32, 80])
    parser.add_argument("--repeats", type=int, default=5, help="runs, of which the best (5)")
    parser.add_argument("--json", type=pathlib.Path, help="also write the numbers here")
    parser.add_argument("--limit", type=float, help="fail above these seconds of propagate")
    options = parser.parse_args()
    build = pathlib.Path(os.environ.get("SCALIFY_BUILD") or ROOT / "build")
    rows: list[dict[str, Any]] = []
    for layers in options.layers:
        rows.append(measure(layers, build / "bin" / "scalify-opt", options.repeats))
    show(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    slowest = max(row["propagate"] for row in rows)
    return int(options.limit is not None and slowest > options.limit)


if __name__ == "__main__":
    sys.exit(main())
