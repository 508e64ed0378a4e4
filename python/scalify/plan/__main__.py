"""Says what a training step would cost on GPUs that are not there. Everything is simulated.

scalify-plan step.mlir --mesh 64x8 --device h100 --recipe fp8 --zero best
scalify-plan --model llama-70b --mesh 16x4x8 --batch 1024 --micro 2
scalify-plan --model llama-13b --gpus 64 --batch 1024
scalify-plan --published
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
import sys
from typing import Any

from scalify.errors import CompileError
from scalify.plan import chakra, choose, disturb, events, graph, published, search, text
from scalify.plan.devices import DEVICES, Device
from scalify.plan.layout import Layout
from scalify.plan.models import MODELS
from scalify.plan.step import predict

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scalify-plan", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("step", nargs="?", type=pathlib.Path, help="StableHLO text, or an artefact")
    parser.add_argument("--model", choices=sorted(MODELS), help="in place of a step")
    parser.add_argument(
        "--mesh", help="sizes of the mesh's axes, as 64x8; of a model, data x tensor x stages"
    )
    parser.add_argument("--device", choices=sorted(DEVICES), default="h100")
    parser.add_argument("--recipe", default="fp8", help="of a step; 'bf16' also makes a model BF16")
    parser.add_argument("--zero", choices=["0", "1", "2", "3", "best"], default="1")
    parser.add_argument("--gpus", type=int, help="of a model: search for the layout")
    parser.add_argument("--batch", type=int, default=1024, help="sequences of a model's step")
    parser.add_argument("--micro", type=int, default=1, help="sequences of a micro-batch")
    parser.add_argument("--interleave", type=int, default=1, help="pieces of a stage")
    parser.add_argument("--cap", type=float, help="GB that a rank may hold")
    parser.add_argument("--chakra", type=pathlib.Path, help="folder for a step's Chakra traces")
    parser.add_argument("--ranks", type=int, default=8, help="of how many ranks, at most")
    parser.add_argument("--json", action="store_true", help="print data")
    parser.add_argument("--published", action="store_true", help="published rows beside ours")
    return parser


def _sizes(mesh: str | None) -> list[int]:
    try:
        sizes = [int(size) for size in (mesh or "").split("x") if size]
    except ValueError:
        sizes = [0]
    if any(size < 1 for size in sizes):
        raise ValueError(f"--mesh {mesh}: give sizes of axes, as 64x8")
    return sizes


def _artefacts(options: argparse.Namespace) -> dict[int, bytes]:
    """Returns the step's artefact, by level of ZeRO."""
    content = options.step.read_bytes()
    if content[:8] == b"SCALIFY1":
        return {-1: content}
    levels = [0, 1, 3] if options.zero == "best" else [int(options.zero)]
    source = content.decode("utf-8")
    return {
        level: graph.compile_step(source, recipe=options.recipe, zero=level) for level in levels
    }


def _check_mesh(found: graph.Graph, options: argparse.Namespace) -> None:
    sizes, own = _sizes(options.mesh), list(found.mesh.values())
    if sizes and sizes != own:
        has = "x".join(map(str, own)) or "none"
        raise ValueError(f"--mesh {options.mesh}: the step's own mesh is {has}")


def _plan_step(device: Device, options: argparse.Namespace) -> tuple[str, Any]:
    cap = (options.cap * 1e9) if options.cap else device.memory
    texts: list[str] = []
    data: list[Any] = []
    best: tuple[bool, float, int] | None = None
    for level, artefact in _artefacts(options).items():
        found = graph.read(graph.manifest_of(artefact), device)
        _check_mesh(found, options)
        plan = choose.outcome(device, found)
        serial = choose.outcome(device, found, choose.Choice(overlap=False))
        every = choose.choices(device, found) if found.mesh else []
        made, wires = choose.tasks(device, found, choose.Choice())
        wrong = disturb.losses(made) if found.mesh else []
        if options.chakra:
            folder = options.chakra if level < 0 else options.chakra / f"zero{level}"
            count = min(options.ranks, math.prod(found.mesh.values()))
            chakra.write(folder, range(count), events.run(made), wires)
        bucket = choose.bucket(device, found)
        title = "" if level < 0 else f"ZeRO-{level}, "
        mesh = ", ".join(f"{name} {size}" for name, size in found.mesh.items()) or "one rank"
        texts.append(f"{title}{mesh}, {len(found.commands)} commands")
        texts.append(text.of_outcomes(plan, serial, every, found.memory, wrong, bucket))
        data.append(
            {
                "zero": level,
                "mesh": found.mesh,
                "memory": found.memory,
                "bucket": bucket,
                "plan": dataclasses.asdict(plan),
                "serial": dataclasses.asdict(serial),
                "choices": [dataclasses.asdict(one) for one in every[:3]],
            }
        )
        rank = (found.memory["peak"] > cap, plan.seconds, level)
        best = rank if best is None else min(best, rank)
    if best is not None and len(data) > 1:
        fits = "none fits" if best[0] else f"ZeRO-{best[2]}"
        texts.append(f"fastest level that fits into {cap / 1e9:g} GB: {fits}")
    return "\n".join(texts), {"simulated": True, "levels": data}


def _plan_model(device: Device, options: argparse.Namespace) -> tuple[str, Any]:
    model = MODELS[options.model]
    compute = "bf16" if options.recipe == "bf16" or device.name == "a100" else "fp8"
    if options.gpus:
        cap = options.cap * 1e9 if options.cap else None
        several = search.search(
            device, model, options.gpus, batch=options.batch, compute=compute, cap=cap, best=3
        )
        lines = [f"{text.of_layout(one.layout)}\n{text.of_prediction(one.step)}" for one in several]
        data = [
            {"layout": dataclasses.asdict(one.layout), "step": dataclasses.asdict(one.step)}
            for one in several
        ]
        return "\n".join(lines), {"simulated": True, "layouts": data}
    data_ranks, tensor, stages = (*_sizes(options.mesh), 1, 1, 1)[:3]
    zero = 1 if options.zero == "best" else int(options.zero)
    layout = Layout(
        tensor=tensor,
        pipeline=stages,
        data=data_ranks,
        batch=options.batch,
        micro=options.micro,
        interleave=options.interleave,
        zero=zero,  # type: ignore[arg-type]
        gradients="each" if zero >= 2 else "last",
        compute=compute,
    )
    if options.zero == "best":
        cap = options.cap * 1e9 if options.cap else None
        layout = search.tune(device, model, layout, cap)[0].layout
    step = predict(device, model, layout)
    both = {"layout": dataclasses.asdict(layout), "step": dataclasses.asdict(step)}
    return f"{text.of_layout(layout)}\n{text.of_prediction(step)}", {"simulated": True, **both}


def main() -> int:
    """Prints a plan; returns 1, with the error, where there is none."""
    parser = _parser()
    options = parser.parse_args()
    if options.published:
        print(text.of_rows(published.rows()))
        return 0
    if (options.step is None) == (options.model is None):
        parser.error("give a step, or --model")
    device = DEVICES[options.device]
    try:
        made = _plan_step(device, options) if options.step else _plan_model(device, options)
    except (CompileError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(made[1], indent=1) if options.json else f"{text.HEAD}\n{made[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
