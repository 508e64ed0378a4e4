"""The replicas' exchanges in a step, and how much of them overlaps with computation."""

from __future__ import annotations

import dataclasses

from scalify_plan import costs, events
from scalify_plan.costs import BYTES
from scalify_plan.devices import Device
from scalify_plan.layer import Work
from scalify_plan.layout import Layout
from scalify_plan.memory import rank_parameters
from scalify_plan.models import Model

__all__ = ["Exchange", "exchange", "schedule", "volume"]

COMPUTE, REDUCE, GATHER = 0, 1, 2


@dataclasses.dataclass(frozen=True)
class Exchange:
    """The exchanges between replicas in a step.

    Attributes:
        exposed: seconds without concurrent computation.
        hidden: seconds concurrent with computation.
        slower: seconds that the concurrent computation takes longer.
        nvlink: bytes that a rank sends over NVLink.
        network: bytes that it sends over the network.
    """

    exposed: float = 0.0
    hidden: float = 0.0
    slower: float = 0.0
    nvlink: float = 0.0
    network: float = 0.0


def volume(model: Model, layout: Layout) -> tuple[float, float]:
    """Returns the bytes of gradients and of weights that a rank sends in a step."""
    count, (gradient, weight) = rank_parameters(model, layout), layout.wire
    share = (layout.data - 1) / layout.data * count
    times = layout.micro_batches if layout.gradients == "each" else 1
    sums = times * BYTES[gradient] * share
    if layout.zero == 0:
        return 2 * sums, 0.0
    gathers = 1
    if layout.zero == 3:
        gathers = layout.micro_batches * (2 if layout.drop_gathered else 1)
    return sums, gathers * BYTES[weight] * share


def _buckets(sizes: list[float], bucket: float) -> list[int]:
    """Returns the bucket number of each layer, for layers in the order in which they are ready."""
    numbers, number, filled = [], 0, 0.0
    for size in sizes:
        numbers.append(number)
        filled += size
        if filled >= bucket:
            number, filled = number + 1, 0.0
    return numbers


class _Schedule:
    """Builds the tasks of a rank."""

    def __init__(
        self, device: Device, model: Model, layout: Layout, forward: float, backward: float
    ) -> None:
        self.device, self.layout = device, layout
        self.forward, self.backward = forward, backward
        self.layers = model.layers // layout.pipeline
        total = rank_parameters(model, layout)
        each = model.layer_parameters / layout.tensor
        # The first layer includes the embedding.
        self.sizes = [total - each * (self.layers - 1)] + [each] * (self.layers - 1)
        self.group = costs.group(device, layout.data, layout.tensor)
        self.tasks: list[events.Task] = []
        self.gathered: dict[int, int] = {}
        self.exchanges = 0

    def add(self, stream: int, seconds: float, needs: tuple[int, ...], name: str) -> int:
        chunk = -1
        if stream != COMPUTE:
            chunk, self.exchanges = self.exchanges, self.exchanges + 1
        self.tasks.append(events.Task(stream, seconds, needs, name, chunk))
        return len(self.tasks) - 1

    def move(self, kind: str, elements: float, form: str, load: float = 1) -> float:
        size = elements * BYTES[form]
        own = 0.0
        if kind == "reduce_scatter" and form == "fp8":
            # The receiver sums FP8 data in F32.
            kind = "all_to_all"
            own = costs.kernel(self.device, size + elements / self.group.ranks * BYTES["f32"])
        return costs.collective(self.device, kind, size, self.group, load=load) + own

    def gather(self, layers: range, load: float = 1) -> None:
        """Adds the all-gathers of some layers, a bucket at a time, in the order of their use."""
        sizes = [self.sizes[layer] for layer in layers]
        numbers = _buckets(sizes, self.layout.bucket)
        for number in range(numbers[-1] + 1):
            inside = [at for at, n in zip(layers, numbers, strict=True) if n == number]
            elements = sum(self.sizes[at] for at in inside)
            form = self.layout.wire[1]
            place = self.add(GATHER, self.move("all_gather", elements, form, load), (), "gather")
            for at in inside:
                self.gathered[at] = place

    def go(self, layers: range, seconds: float, *, reduce: bool, name: str) -> None:
        """Adds a pass over layers in order; reduces gradients of full buckets."""
        waiting, filled, last = [], 0.0, list(layers)[-1]
        for at in layers:
            needs = (self.gathered[at],) if at in self.gathered else ()
            place = self.add(COMPUTE, seconds, needs, f"{name} {at}")
            if not reduce:
                continue
            waiting.append(place)
            filled += self.sizes[at]
            if filled >= self.layout.bucket or at == last:
                kind = "reduce_scatter" if self.layout.zero else "all_reduce"
                load = 0.5 if self.layout.zero == 3 and self.layout.drop_gathered else 1
                time = self.move(kind, filled, self.layout.wire[0], load)
                self.add(REDUCE, time, (waiting[-1],), "reduce")
                waiting, filled = [], 0.0


def schedule(
    device: Device, model: Model, layout: Layout, forward: float, backward: float, many: int
) -> list[events.Task]:
    """Returns the tasks of a rank: its layers' computation and the replicas' exchanges.

    With stages, only the passes at the start and at the end of the step, between which nothing is
    exchanged: with interleaved pieces, as many micro-batches go through a piece as there are
    stages.

    Args:
        device: the GPU.
        model: the model to train.
        layout: its layout.
        forward: seconds of a layer's forward.
        backward: seconds of its backward.
        many: number of micro-batches.
    """
    plan = _Schedule(device, model, layout, forward, backward)
    pieces = layout.interleave
    per = plan.layers // pieces
    parts = [range(piece * per, (piece + 1) * per) for piece in range(pieces)]
    if layout.gather_hidden and layout.zero in (1, 2):
        for part in parts:
            plan.gather(part)
    if layout.pipeline > 1:
        group = layout.pipeline if pieces > 1 else 1
        for part in parts:
            for _ in range(group):
                plan.go(part, forward, reduce=False, name="forward")
        for part in reversed(parts):
            for i in range(group):
                ends = i == group - 1 and layout.gradients != "at_end"
                plan.go(part[::-1], backward, reduce=ends, name="backward")
        return plan.tasks
    for i in range(many):
        if layout.zero == 3:
            plan.gather(parts[0])
        plan.go(parts[0], forward, reduce=False, name="forward")
        if layout.zero == 3 and layout.drop_gathered:
            plan.gather(parts[0][::-1], 0.5)
        reduce = layout.gradients == "each" or (layout.gradients == "last" and i == many - 1)
        plan.go(parts[0][::-1], backward, reduce=reduce, name="backward")
    return plan.tasks


def exchange(device: Device, model: Model, layout: Layout, one: Work, back: Work) -> Exchange:
    """Returns the replicas' exchanges in a step.

    Args:
        device: the GPU.
        model: the model to train.
        layout: its layout.
        one: a layer's forward.
        back: its backward.
    """
    if layout.data == 1:
        return Exchange()
    ranks = costs.group(device, layout.data, layout.tensor)
    exposed, hidden = 0.0, 0.0
    many = layout.micro_batches
    # Each micro-batch after the third adds as much as the third.
    few = min(many, 3) if layout.pipeline == 1 else 1
    steady = (0.0, 0.0)
    for count in sorted({max(few - 1, 1), few}):
        line = events.run(schedule(device, model, layout, one.seconds, back.seconds, count))
        steady = (line.exposed - exposed, line.hidden - hidden)
        exposed, hidden = line.exposed, line.hidden
    if many > few and layout.pipeline == 1 and (layout.gradients == "each" or layout.zero == 3):
        exposed, hidden = exposed + (many - few) * steady[0], hidden + (many - few) * steady[1]
    elements = rank_parameters(model, layout)
    if layout.gradients == "at_end":
        kind = "reduce_scatter" if layout.zero else "all_reduce"
        exposed += costs.collective(device, kind, elements * BYTES[layout.wire[0]], ranks)
    if layout.zero in (1, 2) and not layout.gather_hidden:
        exposed += costs.collective(device, "all_gather", elements * BYTES[layout.wire[1]], ranks)
    sent = sum(volume(model, layout))
    # In a ring across nodes one rank of each node sends over the network, through all its cards.
    far = 1.0 / ranks.inside if ranks.nodes > 1 else 0.0
    slower = hidden * costs.taken(device, ranks)
    return Exchange(exposed, hidden, slower, sent * (1 - far), sent * far)
