"""The cost of slow or irregular links to a model's step, overlapped and serial."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from scalify_plan import events, layer, replicas
from scalify_plan.devices import Device
from scalify_plan.layout import Layout
from scalify_plan.models import Model

__all__ = ["Loss", "losses", "serial"]


@dataclasses.dataclass(frozen=True)
class Loss:
    """A step under a disturbance, in seconds.

    Attributes:
        name: of the disturbance.
        overlapped: the step, with exchanges concurrent with computation.
        serial: the step, one task after the other.
        lost: by the overlapped step, relative to no disturbance.
        serial_lost: by the serial one.
    """

    name: str
    overlapped: float
    serial: float
    lost: float
    serial_lost: float


def serial(tasks: Sequence[events.Task]) -> list[events.Task]:
    """Returns the tasks on one stream, in the order of the list."""
    return [dataclasses.replace(task, stream=0) for task in tasks]


def losses(tasks: Sequence[events.Task]) -> list[Loss]:
    """Returns the losses of a schedule under four disturbances.

    Half and a quarter of the bandwidth, exchanges of up to twice the time at random, and one
    exchange in the middle that is late by a tenth of the step. Without exchanges nothing is lost.
    """
    plain = events.run(tasks).seconds
    slow = events.run(serial(tasks)).seconds
    chunks = [task.chunk for task in tasks if task.chunk >= 0]
    middle = chunks[len(chunks) // 2] if chunks else -1
    cases = (
        ("half the bandwidth", events.Disturbance(bandwidth=0.5)),
        ("a quarter of the bandwidth", events.Disturbance(bandwidth=0.25)),
        ("jitter, up to twice as long", events.Disturbance(jitter=1.0)),
        ("a straggler", events.Disturbance(straggler=middle, late=plain / 10)),
    )
    found = [Loss("nothing", plain, slow, 0.0, 0.0)]
    for name, case in cases:
        ours = events.run(tasks, case).seconds
        theirs = events.run(serial(tasks), case).seconds
        found.append(Loss(name, ours, theirs, ours - plain, theirs - slow))
    return found


def of_model(device: Device, model: Model, layout: Layout) -> list[Loss]:
    """Returns the losses of a model's step: of its layers and its replicas' exchanges."""
    one = layer.forward(device, model, layout).seconds
    back = layer.backward(device, model, layout).seconds
    return losses(replicas.schedule(device, model, layout, one, back, layout.micro_batches))
