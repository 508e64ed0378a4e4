"""A simulated search for a model's fastest layout on a number of GPUs under a memory cap."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from scalify_plan.devices import Device
from scalify_plan.layout import Layout, Level
from scalify_plan.memory import held
from scalify_plan.models import Model
from scalify_plan.step import Prediction, least, predict

__all__ = ["WIRES", "Found", "candidates", "fastest", "search", "tune"]

WIRES = (("f32", "bf16"), ("bf16", "bf16"), ("fp8", "fp8"))
BUCKETS = (2.5e7, 1e8, 4e8)
# The share of a GPU's memory that its context, libraries' workspaces and fragmentation leave.
ROOM = 0.88
TUNED_LAYOUTS = 12


@dataclasses.dataclass(frozen=True)
class Found:
    """A layout and its step."""

    layout: Layout
    step: Prediction


def candidates(
    model: Model, gpus: int, batch: int, compute: str, node: int, level: Level = ""
) -> Iterator[Layout]:
    """Yields layouts of a model on so many GPUs; tensor ranks stay in a node.

    ZeRO-1 reduces gradients in the last micro-batch; 2 and 3 reduce them in each, without stages.
    """
    powers = [1, 2, 4, 8, 16, 32]
    levels: tuple[Literal[1, 2, 3], ...] = (1, 2, 3)
    kinds: tuple[Literal["none", "full"], ...] = ("none", "full")
    for tensor, pipeline in itertools.product(powers, powers):
        if tensor > node or gpus % (tensor * pipeline):
            continue
        data = gpus // (tensor * pipeline)
        for micro, pieces, zero, again, parts in itertools.product(
            (1, 2, 4, 8), (1, 2, 4, 5, 8), levels, kinds, (False, True)
        ):
            if parts and tensor == 1:
                continue
            layout = Layout(
                tensor=tensor,
                pipeline=pipeline,
                data=data,
                batch=batch,
                micro=micro,
                interleave=pieces,
                sequence=parts,
                recompute=again,
                gradients="last" if zero == 1 else "each",
                zero=zero,
                compute=compute,
                wire=WIRES[-1] if compute == "fp8" else WIRES[1],
                level=level,
            )
            if batch >= data * micro and not layout.faults(model):
                yield layout


def search(
    device: Device,
    model: Model,
    gpus: int,
    *,
    batch: int,
    compute: str = "fp8",
    level: Level = "",
    cap: float | None = None,
    best: int = 1,
) -> list[Found]:
    """Returns the fastest layouts that fit, fastest first.

    Formats of the wire and sizes of buckets are tried on the fastest dozen.

    Args:
        device: the kind of GPU.
        model: the model to train.
        gpus: their number.
        batch: sequences of a step.
        compute: format of linear layers' products.
        level: FP8-LM's, as in `Layout`.
        cap: bytes that a rank may hold; by default the share `ROOM` of the device's memory.
        best: the number of layouts to return.

    Raises:
        ValueError: no layout fits; with the bytes of the smallest, and of the smallest under
            FP8-LM's o3.
    """
    cap = device.memory * ROOM if cap is None else cap
    layouts = list(candidates(model, gpus, batch, compute, device.links.node, level))
    fits = [layout for layout in layouts if held(model, layout)["peak"] <= cap]
    if not fits:
        smallest = _smallest(model, layouts)
        fault = (
            f"no layout of '{model.name}' on {gpus} GPUs fits into {cap:.3g} bytes a rank; the "
            f"smallest takes {smallest:.3g}"
        )
        if compute == "fp8" and level != "o3":
            narrow = [dataclasses.replace(layout, level="o3") for layout in layouts]
            fault += f", {_smallest(model, narrow):.3g} under 'fp8-lm-o3'"
        raise ValueError(fault)
    # Replicas' exchanges only add to the lower bound, so layouts with higher bounds are skipped.
    bounds = sorted(((least(device, model, one), one) for one in fits), key=lambda pair: pair[0])
    found: list[Found] = []
    for bound, layout in bounds:
        if len(found) >= TUNED_LAYOUTS and bound > _seconds(found[TUNED_LAYOUTS - 1]):
            break
        found = sorted([*found, Found(layout, predict(device, model, layout))], key=_seconds)
    tuned = [
        one for near in found[:TUNED_LAYOUTS] for one in _try_wires(device, model, near.layout, cap)
    ]
    return sorted(tuned, key=_seconds)[:best]


def _smallest(model: Model, layouts: Iterable[Layout]) -> float:
    return min((held(model, layout)["peak"] for layout in layouts), default=float("inf"))


def _try_wires(device: Device, model: Model, layout: Layout, cap: float) -> Iterator[Found]:
    """Yields the layout with each wire and bucket for which it fits."""
    # BF16 products read weights that FP8 cannot represent.
    wires: Sequence[tuple[str, str]] = WIRES if layout.compute == "fp8" else WIRES[:2]
    if layout.level:
        wires = WIRES[-1:]
    for wire, bucket in itertools.product(wires, BUCKETS):
        other = dataclasses.replace(layout, wire=wire, bucket=bucket)
        if held(model, other)["peak"] <= cap:
            yield Found(other, predict(device, model, other))


def tune(device: Device, model: Model, layout: Layout, cap: float | None = None) -> list[Found]:
    """Returns a layout with each level of ZeRO, wire and bucket that fits, fastest first.

    Raises:
        ValueError: the layout does not fit the model, or nothing fits into the cap.
    """
    cap = device.memory * ROOM if cap is None else cap
    if fault := dataclasses.replace(layout, zero=1, gradients="last").faults(model):
        raise ValueError(f"'{model.name}' in this layout: {fault}")
    levels = (
        dataclasses.replace(layout, zero=1, gradients="last"),
        dataclasses.replace(layout, zero=2, gradients="each"),
        dataclasses.replace(layout, zero=3, gradients="each"),
    )
    found = [
        one
        for level in levels
        if not level.faults(model)
        for one in _try_wires(device, model, level, cap)
    ]
    if not found:
        raise ValueError(f"no level of ZeRO lets '{model.name}' fit into {cap:.3g} bytes a rank")
    return sorted(found, key=_seconds)


def _seconds(found: Found) -> float:
    # Rounded, so that ties keep their order: fewer tensor ranks and wider formats first.
    return round(found.step.seconds, 4)


def fastest(device: Device, model: Model, layout: Layout, cap: float) -> Found:
    """Returns the fastest micro-batch and interleave that fit; the rest is as in `layout`.

    Raises:
        ValueError: none fits.
    """
    best: Found | None = None
    pieces = [count for count in range(1, 33) if layout.pipeline > 1 or count == 1]
    for micro, interleave in itertools.product((1, 2, 4, 8), pieces):
        other = dataclasses.replace(layout, micro=micro, interleave=interleave)
        if other.faults(model) or held(model, other)["peak"] > cap:
            continue
        found = Found(other, predict(device, model, other))
        if best is None or found.step.seconds < best.step.seconds:
            best = found
    if best is None:
        raise ValueError(f"no micro-batch of '{model.name}' fits into {cap:.3g} bytes")
    return best
