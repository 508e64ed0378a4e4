"""Simulates the cost of a training step on GPUs that need not exist.

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
import sys
from typing import Any

from scalify.errors import CompileError
from scalify.partition import mesh_of
from scalify.recipe import recipes
from scalify_plan import chakra, choose, disturb, events, graph, published, search, text
from scalify_plan.devices import DEVICES, Device
from scalify_plan.layout import Layout, Level
from scalify_plan.models import MODELS
from scalify_plan.options import parse
from scalify_plan.step import predict

__all__ = ["main"]

_LEVELS: dict[str, Level] = {"fp8-lm-o1": "o1", "fp8-lm-o2": "o2", "fp8-lm-o3": "o3"}


def _artefacts(options: argparse.Namespace) -> tuple[dict[int, bytes], list[int]]:
    """Returns the step's artefact by level of ZeRO, and the mesh sizes to check against it."""
    asked = list(options.mesh or ())
    content = options.step.read_bytes()
    if content[:8] == b"SCALIFY1":
        for name in ("recipe", "zero"):
            if name in options.given:
                raise ValueError(f"'{options.step}' is compiled already: --{name} does not apply")
        return {-1: content}, asked
    levels = [0, 1, 3] if options.zero == "best" else [int(options.zero)]
    source, ranks = content.decode("utf-8"), math.prod(asked)
    if asked and not mesh_of(source):
        asked = [ranks]  # sharded by rows over all ranks
    return {
        level: graph.compile_step(source, recipe=options.recipe, zero=level, ranks=ranks)
        for level in levels
    }, asked


def _check_mesh(found: graph.Graph, sizes: list[int]) -> None:
    own = list(found.mesh.values())
    if sizes and sizes != own:
        asked, has = ("x".join(map(str, one)) or "none" for one in (sizes, own))
        raise ValueError(f"--mesh {asked}: the step's own mesh is {has}")


def _plan_step(device: Device, options: argparse.Namespace) -> tuple[str, Any]:
    cap = (options.cap * 1e9) if options.cap else device.memory
    texts: list[str] = []
    data: list[Any] = []
    best: tuple[bool, float, int] | None = None
    artefacts, asked = _artefacts(options)
    for level, artefact in artefacts.items():
        found = graph.read(graph.manifest_of(artefact), device)
        _check_mesh(found, asked)
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


def _format(device: Device, recipe: str) -> str:
    """Returns the format of a model's products under a preset.

    Raises:
        ValueError: the planner does not simulate the preset, or the device lacks the format.
    """
    known = [name for name in recipes() if name != "none"]
    if recipe == "none":
        raise ValueError("a model is simulated in 16 bits or FP8, and 'none' computes in F32")
    if recipe not in known:
        raise ValueError(f"'{recipe}' is no recipe of a model: give one of {', '.join(known)}")
    if not recipe.startswith("fp8"):
        return "bf16"
    if not device.has_fp8:
        raise ValueError(f"{device.name} has no products in FP8: plan it with --recipe bf16")
    return "fp8"


def _plan_model(device: Device, options: argparse.Namespace) -> tuple[str, Any]:
    model = MODELS[options.model]
    compute = _format(device, options.recipe)
    level = _LEVELS.get(options.recipe, "")
    if options.gpus:
        cap = options.cap * 1e9 if options.cap else None
        several = search.search(
            device,
            model,
            options.gpus,
            batch=options.batch,
            compute=compute,
            level=level,
            cap=cap,
            best=3,
        )
        lines = [f"{text.of_layout(one.layout)}\n{text.of_prediction(one.step)}" for one in several]
        data = [
            {"layout": dataclasses.asdict(one.layout), "step": dataclasses.asdict(one.step)}
            for one in several
        ]
        return "\n".join(lines), {"simulated": True, "layouts": data}
    data_ranks, tensor, stages = (*(options.mesh or ()), 1, 1, 1)[:3]
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
        wire=search.WIRES[-1] if level else search.WIRES[0],
        level=level,
    )
    if options.zero == "best":
        cap = options.cap * 1e9 if options.cap else None
        layout = search.tune(device, model, layout, cap)[0].layout
    step = predict(device, model, layout)
    both = {"layout": dataclasses.asdict(layout), "step": dataclasses.asdict(step)}
    return f"{text.of_layout(layout)}\n{text.of_prediction(step)}", {"simulated": True, **both}


def main() -> int:
    """Prints a plan; if there is none, prints the error and returns 1."""
    options = parse((__doc__ or "").splitlines()[0])
    if options.published:
        print(text.of_rows(published.rows()))
        return 0
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
