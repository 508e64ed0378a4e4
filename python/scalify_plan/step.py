"""The simulated time of a model's training step in a layout."""

from __future__ import annotations

import dataclasses
import functools

from scalify_plan import costs, layer
from scalify_plan.devices import Device
from scalify_plan.layout import Layout
from scalify_plan.memory import held, rank_parameters
from scalify_plan.models import Model
from scalify_plan.replicas import exchange

__all__ = ["Prediction", "least", "predict"]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """A simulated step. Exposed seconds add up to `seconds`; bytes are those that one rank sends.

    Attributes:
        seconds: of the step.
        compute: products and kernels of the slowest stage.
        bubble: in which it waits for other stages.
        tensor: exposed exchange between tensor ranks.
        stages: exposed sends between stages.
        replicas: exposed exchange between replicas.
        optimizer: the update.
        hidden: exchange concurrent with computation.
        nvlink: bytes over NVLink.
        network: bytes over the network.
        memory: bytes of a rank by purpose, and their "peak".
        tokens: per second and GPU.
        flops: of the model per second and GPU, as Megatron counts.
        mfu: share of the BF16 peak, or of the FP8 peak where products are FP8.
    """

    seconds: float
    compute: float
    bubble: float
    tensor: float
    stages: float
    replicas: float
    optimizer: float
    hidden: float
    nvlink: float
    network: float
    memory: dict[str, float]
    tokens: float
    flops: float
    mfu: float
    simulated: bool = True


@dataclasses.dataclass(frozen=True)
class _Stage:
    """A micro-batch's work on the slowest stage."""

    forward: layer.Work
    backward: layer.Work
    layer_forward: layer.Work
    layer_backward: layer.Work


@functools.lru_cache(maxsize=1 << 12)
def _pieces(device: Device, model: Model, layout: Layout) -> tuple[layer.Work, ...]:
    """Returns forward and backward of a layer, and of both ends of the model."""
    one, back = layer.forward(device, model, layout), layer.backward(device, model, layout)
    return (one, back, *layer.ends(device, model, layout))


def _stages(device: Device, model: Model, layout: Layout) -> tuple[_Stage, float]:
    """Returns the slowest stage, and the seconds of a micro-batch on all the others."""
    # The fields that a micro-batch's work depends on; the others have their defaults.
    alike = Layout(
        tensor=layout.tensor,
        micro=layout.micro,
        sequence=layout.sequence,
        recompute=layout.recompute,
        overlap_tensor=layout.overlap_tensor,
        compute=layout.compute,
        cast_reads=layout.cast_reads,
    )
    one, back, into, out_of, head, head_back = _pieces(device, model, alike)
    count = model.layers // layout.pipeline
    first = (one.times(count) + into, back.times(count) + out_of)
    last = (one.times(count) + head, back.times(count) + head_back)
    if layout.pipeline == 1:
        first = last = (first[0] + head, first[1] + head_back)
    middle = one.times(count).seconds + back.times(count).seconds
    both = [sum(work.seconds for work in stage) for stage in (first, last)]
    slow = first if both[0] >= both[1] else last
    others = min(both) + max(layout.pipeline - 2, 0) * middle if layout.pipeline > 1 else 0.0
    return _Stage(*slow, one, back), others


def _sends(device: Device, model: Model, layout: Layout) -> tuple[float, float, float]:
    """Returns the seconds of a send between stages, its bytes, and whether it uses the network."""
    if layout.pipeline == 1:
        return 0.0, 0.0, 0.0
    size = 2.0 * layout.micro * model.seq * model.hidden / layout.tensor
    inside = layout.tensor * layout.data * 2 <= device.links.node
    pair = costs.Group(2, 2 if inside else 1)
    return costs.collective(device, "send", size, pair), size, float(not inside)


def update_seconds(device: Device, model: Model, layout: Layout) -> float:
    """Returns the seconds of the optimizer, which reads and writes master, moments and weights.

    It reads the gradient for its norm and for the update; all gradients are zeroed.
    """
    count = rank_parameters(model, layout)
    share = count / (layout.data if layout.zero else 1)
    gradient, weight = layout.gradient_bytes, 1 if layout.level == "o3" else 2
    moved = share * (2 * layout.state_bytes + 2 * gradient + weight) + gradient * count
    return costs.kernel(device, moved)


def _weight_transposes(device: Device, model: Model, layout: Layout) -> layer.Work:
    """Returns a micro-batch's transposes of FP8 weights, which are stored in one order alone."""
    if layout.level != "o3":
        return layer.Work()
    each = costs.kernel(device, 2 * model.layer_parameters / layout.tensor)
    return layer.Work(compute=each).times(model.layers // layout.pipeline)


@dataclasses.dataclass(frozen=True)
class _StepWithoutExchanges:
    """A step without the replicas' exchanges."""

    stage: _Stage
    work: layer.Work
    bubble: float
    sends: float
    beside: float
    sent: float
    far: float
    optimizer: float

    @property
    def seconds(self) -> float:
        return self.work.seconds + self.sends + self.bubble + self.optimizer


def _bare(device: Device, model: Model, layout: Layout) -> _StepWithoutExchanges:
    if fault := layout.faults(model):
        raise ValueError(f"'{model.name}' in this layout: {fault}")
    stage, others = _stages(device, model, layout)
    many = layout.micro_batches
    work = (stage.forward + stage.backward + _weight_transposes(device, model, layout)).times(many)
    send, size, far = _sends(device, model, layout)
    # Each piece of the model receives once forward and once backward.
    sends = many * 2 * layout.interleave * send
    exposed, beside = (0.0, sends) if layout.overlap_pipeline else (sends, 0.0)
    bubble = others / layout.interleave + 2 * (layout.pipeline - 1) * send
    sent = 2 * layout.interleave * many * size
    update = update_seconds(device, model, layout)
    return _StepWithoutExchanges(stage, work, bubble, exposed, beside, sent, far, update)


def least(device: Device, model: Model, layout: Layout) -> float:
    """Returns the seconds of a step without the replicas' exchanges, a lower bound.

    Raises:
        ValueError: the layout does not fit the model; the reason.
    """
    return _bare(device, model, layout).seconds


def predict(device: Device, model: Model, layout: Layout) -> Prediction:
    """Returns a simulated step.

    Raises:
        ValueError: the layout does not fit the model; the reason.
    """
    bare = _bare(device, model, layout)
    between = exchange(device, model, layout, bare.stage.layer_forward, bare.stage.layer_backward)
    seconds = bare.seconds + between.exposed + between.slower
    tokens = layout.batch * model.seq / layout.ranks / seconds
    flops = tokens * model.flops()
    return Prediction(
        seconds=seconds,
        compute=bare.work.compute + between.slower,
        bubble=bare.bubble,
        tensor=bare.work.exposed,
        stages=bare.sends,
        replicas=between.exposed,
        optimizer=bare.optimizer,
        hidden=bare.work.hidden + between.hidden + bare.beside,
        nvlink=bare.work.tensor_bytes + between.nvlink + bare.sent * (1 - bare.far),
        network=between.network + bare.sent * bare.far,
        memory=held(model, layout),
        tokens=tokens,
        flops=flops,
        mfu=flops / device.peak[layout.compute],
    )
