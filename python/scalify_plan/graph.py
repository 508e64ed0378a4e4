"""The commands of a compiled step's plan, with their costs on a GPU.

A step with shardings is partitioned and compiled for `sm_90a` as for a run; its manifest lists
products, kernels and collectives in order, on streams, with the events between them. Nothing is
run, and the devices of the mesh need not exist.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from scalify.artefact import build, manifest_of
from scalify.partition import data_parallel, mesh_of, partition
from scalify_plan import costs
from scalify_plan.devices import Device
from scalify_plan.wire import Wire, read_wire

__all__ = ["Command", "Graph", "compile_step", "manifest_of", "read"]

Manifest = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of the plan.

    Attributes:
        op: "gemm", "attention", "kernel", "copy", "fill" or "collective".
        name: with its place in the program.
        stream: 0 is the compute stream.
        needs: commands on other streams that it waits for.
        seconds: on the device, alone; of a collective as planned.
        moved: bytes of memory that it reads and writes.
        flops: of a product.
        wire: of a collective.
        reads: of a collective, its source buffer.
        writes: of a collective, its destination buffer.
    """

    op: str
    name: str
    stream: int
    needs: tuple[int, ...]
    seconds: float
    moved: float = 0.0
    flops: float = 0.0
    wire: Wire | None = None
    reads: int = -1
    writes: int = -1


@dataclasses.dataclass(frozen=True)
class Graph:
    """A step of one rank.

    Attributes:
        commands: in the order of the program.
        mesh: sizes of its axes by name.
        memory: bytes by purpose, from the plan.
    """

    commands: Sequence[Command]
    mesh: dict[str, int]
    memory: dict[str, Any]


def compile_step(text: str, *, recipe: str, zero: int = 0, ranks: int = 1) -> bytes:
    """Returns the artefact for `sm_90a` of a step; with a mesh, that of one of its ranks.

    Args:
        text: StableHLO as JAX lowers it.
        recipe: a preset's name, or a recipe's text.
        zero: level of ZeRO.
        ranks: data-parallel ranks, over which a step without a mesh is sharded by rows of its
            batch.

    Raises:
        CompileError: the step cannot be partitioned or compiled.
    """
    if ranks > 1 and not mesh_of(text):
        text = data_parallel(text, ranks)
    if mesh_of(text):
        text = partition(text, zero=zero).text
    # No buckets, since the planner chooses them. Each reduction is one command, costed as NCCL's.
    options: dict[str, Any] = {"recipe": recipe, "target": "sm_90a", "bucketBytes": 0}
    options |= {"sums": "nccl", "planOnly": True}
    artefact, _ = build(text, options)
    return artefact


def read(manifest: Manifest, device: Device) -> Graph:
    """Returns the step of a manifest, each command with its seconds on the device.

    Raises:
        ValueError: the step has products in FP8, which the device lacks.
    """
    reader = _Reader(manifest, device)
    for command in manifest["functions"]["step"]:
        reader.add(command)
    mesh = {str(name): int(size) for name, size in manifest.get("mesh") or ()}
    return Graph(reader.commands, mesh, dict(manifest["memory"]))


class _Reader:
    """Converts a manifest's commands; events become needs."""

    def __init__(self, manifest: Manifest, device: Device) -> None:
        self.manifest = manifest
        self.buffers = manifest["buffers"]
        self.device = device
        self.commands: list[Command] = []
        self.last: dict[int, int] = {}
        self.events: dict[int, int | None] = {}
        self.waits: dict[int, set[int]] = {}

    def add(self, command: Mapping[str, Any]) -> None:
        """Adds a command, or applies an event."""
        stream = int(command.get("stream", 0))
        if command["op"] == "record":
            self.events[command["event"]] = self.last.get(stream)
            return
        if command["op"] == "wait":
            place = self.events[command["event"]]
            if place is not None:
                self.waits.setdefault(stream, set()).add(place)
            return
        needs = tuple(sorted(self.waits.pop(stream, set())))
        name = f"{command.get('name', command['op'])} {command.get('loc', '')}".strip()
        seconds, moved, flops, wire = self._cost(command)
        made = Command(command["op"], name, stream, needs, seconds, moved, flops, wire)
        if wire is not None:
            made = dataclasses.replace(made, reads=command["src"], writes=command["dst"])
        self.last[stream] = len(self.commands)
        self.commands.append(made)

    def _cost(self, command: Mapping[str, Any]) -> tuple[float, float, float, Wire | None]:
        """Returns seconds, bytes of memory, FLOPs, and the wire of a collective."""
        op = command["op"]
        if op == "gemm":
            return self._gemm(command)
        if op == "attention":
            batch, heads, group, rows, columns, head = command["sizes"]
            products = 5 if command["gradient"] else 2
            flops = products * 2.0 * batch * heads * group * rows * columns * head
            flops *= 0.5 if command["causal"] else 1.0
            backward = bool(command["gradient"])
            return costs.attention(self.device, flops, backward=backward), 0.0, flops, None
        if op == "collective":
            wire = read_wire(command, self.manifest, self.device.links.node)
            return wire.seconds(self.device), 0.0, 0.0, wire
        moved = float(command["bytes"]) * (2 if op == "copy" else 1)
        return costs.kernel(self.device, moved), moved, 0.0, None

    def _gemm(self, command: Mapping[str, Any]) -> tuple[float, float, float, None]:
        dtype = self.buffers[command["a"]]["dtype"]
        narrow = "f8" in dtype
        if narrow and not self.device.has_fp8:
            raise ValueError(
                f"{self.device.name} has no products in FP8, which the step has at "
                f"{command.get('loc', '')}: plan it with --recipe bf16"
            )
        form = "fp8" if narrow else command.get("compute", "f32") if dtype == "f32" else "bf16"
        batch = math.prod(int(dim["n"]) for dim in command["batch"])
        m, n, k = int(command["m"]), int(command["n"]), int(command["k"])
        out = float(costs.itemsize(self.buffers[command["c"]]["dtype"]))
        out *= 1 if not command["beta"] else 2
        seconds = costs.gemm(self.device, m, n, k, batch=batch, dtype=form, out=out)
        moved = batch * (float(m + n) * k * costs.BYTES[form] + m * n * out)
        return seconds, moved, 2.0 * batch * m * n * k, None
