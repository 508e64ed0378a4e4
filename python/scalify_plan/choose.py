"""A compiled step's time, as planned and with other buckets, formats and schedules."""

from __future__ import annotations

import dataclasses
import math

from scalify_plan import costs, events
from scalify_plan.devices import Device
from scalify_plan.graph import Graph
from scalify_plan.wire import SUMS, Wire

__all__ = ["BUCKETS", "FORMATS", "Choice", "Outcome", "choices", "outcome", "tasks"]

FORMATS = ("f32", "bf16", "fp8")
BUCKETS = (0.0, 4e6, 16e6, 64e6, 256e6, 1e9)
# The properties that exchanges of one bucket share: kind, group, format and stream.
_Key = tuple[str, int, costs.Group, str, int]


@dataclasses.dataclass(frozen=True)
class Choice:
    """A variant of a compiled step.

    Attributes:
        gradients: format of the replicas' reductions; empty for the plan's.
        weights: format of the replicas' all-gathers; empty for the plan's.
        bucket: bytes at which a bucket of exchanges of one kind is full; 0 for no buckets.
        overlap: whether exchanges run concurrently with computation.
    """

    gradients: str = ""
    weights: str = ""
    bucket: float = 0.0
    overlap: bool = True


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A compiled step, simulated; bytes are those that one rank sends.

    Attributes:
        choice: the simulated variant.
        seconds: of the step.
        compute: of products and kernels.
        exposed: of exchange without concurrent computation.
        hidden: of exchange concurrent with computation.
        nvlink: bytes over NVLink.
        network: bytes over the network.
    """

    choice: Choice
    seconds: float
    compute: float
    exposed: float
    hidden: float
    nvlink: float
    network: float
    simulated: bool = True


def _form(wire: Wire, data_stride: int, choice: Choice) -> Wire:
    """Returns the wire in the formats of the choice; wires of other groups are unchanged."""
    if wire.stride != data_stride or wire.ranks.ranks == 1:
        return wire
    wanted = choice.gradients if wire.kind in SUMS else ""
    if wire.kind == "all_gather":
        wanted = choice.weights
    if not wanted:
        return wire
    dtype = {"f32": "f32", "bf16": "bf16", "fp8": "f8E4M3FN"}[wanted]
    return dataclasses.replace(wire, dtype=dtype)


def tasks(device: Device, graph: Graph, choice: Choice) -> tuple[list[events.Task], list[Wire]]:
    """Returns the tasks of a step under a choice, and the wire of each exchange, by its chunk."""
    stride = data_stride(graph)
    made: list[events.Task] = []
    wires: list[Wire] = []
    places: dict[int, int] = {}
    # Buckets that are not full yet: key -> indices of commands.
    open_buckets: dict[_Key, list[int]] = {}

    def close(key: _Key) -> None:
        members = open_buckets.pop(key)
        commands = [graph.commands[at] for at in members]
        formed = [_form(c.wire, stride, choice) for c in commands if c.wire is not None]
        wire = dataclasses.replace(formed[0], elements=sum(one.elements for one in formed))
        needs = tuple(sorted({places[n] for c in commands for n in c.needs}))
        name = commands[0].name if len(commands) == 1 else f"{wire.kind} of {len(commands)}"
        stream = commands[0].stream if choice.overlap else 0
        made.append(events.Task(stream, wire.seconds(device), needs, name, len(wires)))
        wires.append(wire)
        for at in members:
            places[at] = len(made) - 1

    for at, command in enumerate(graph.commands):
        for key, members in list(open_buckets.items()):
            # Also if an exchange reads a member's result, a dependence that has no event.
            brought = any(graph.commands[member].writes == command.reads for member in members)
            if set(members) & set(command.needs) or (command.wire is not None and brought):
                close(key)
        if command.wire is None:
            needs = tuple(places[need] for need in command.needs)
            task = events.Task(command.stream, command.seconds, needs, command.name)
            made.append(dataclasses.replace(task, flops=command.flops, moved=command.moved))
            places[at] = len(made) - 1
            continue
        wire = _form(command.wire, stride, choice)
        key = (wire.kind, wire.stride, wire.ranks, wire.dtype, command.stream)
        if command.stream == 0 or wire.is_message:
            # On the compute stream an exchange delays all that follows; messages may have different
            # peers. Neither is joined with others.
            open_buckets[key] = [at]
            close(key)
            continue
        open_buckets.setdefault(key, []).append(at)
        total = sum(
            one.size for member in open_buckets[key] if (one := graph.commands[member].wire)
        )
        if total >= choice.bucket:
            close(key)
    for key in list(open_buckets):
        close(key)
    return made, wires


def bucket(device: Device, graph: Graph) -> float:
    """Returns the bytes from which gathers between replicas reach 90 % of their links' rate."""
    stride = data_stride(graph)
    groups = [c.wire.ranks for c in graph.commands if c.wire and c.wire.stride == stride]
    return costs.bucket(device, groups[0]) if groups else 0.0


def data_stride(graph: Graph) -> int:
    """Returns the stride of the replicas' groups, along the mesh's first, outermost axis."""
    return math.prod(list(graph.mesh.values())[1:])


def outcome(
    device: Device,
    graph: Graph,
    choice: Choice | None = None,
    disturbance: events.Disturbance | None = None,
) -> Outcome:
    """Returns the simulation of a step under a choice, with or without a disturbance."""
    choice = choice or Choice()
    made, wires = tasks(device, graph, choice)
    line = events.run(made, disturbance)
    links = [wire.links() for wire in wires]
    # Exchanges in the order of the list have the order of their wires.
    slower = sum(
        costs.taken(device, wire.ranks) * seconds
        for wire, seconds in zip(wires, line.beside(), strict=True)
    )
    return Outcome(
        choice=choice,
        seconds=line.seconds + slower,
        compute=line.compute + slower,
        exposed=line.exposed,
        hidden=line.hidden,
        nvlink=sum(near for near, _ in links),
        network=sum(far for _, far in links),
    )


def choices(device: Device, graph: Graph) -> list[Outcome]:
    """Returns the step under each choice of formats and bucket, fastest first.

    Of equally fast choices, wider formats and smaller buckets come first.
    """
    found = [
        outcome(device, graph, Choice(gradients, weights, bucket))
        for gradients in FORMATS
        for weights in FORMATS
        for bucket in BUCKETS
    ]
    return sorted(found, key=lambda one: round(one.seconds, 6))
