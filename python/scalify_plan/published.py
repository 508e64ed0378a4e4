"""Published times of training steps beside the planner's.

No number of the cost model was fitted to any of these rows. Where a publication omits a setting,
such as the micro-batch of Megatron-LM's H100 rows, the planner chooses the fastest that fits.
Megatron-LM's H100 rows are shown twice more with one factor: fitted for each row on the others, and
from one row of Megatron-LLaMA on A100.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

from scalify_plan.devices import A100, H100, Device
from scalify_plan.layout import Layout
from scalify_plan.memory import held
from scalify_plan.models import MODELS, Model, gpt
from scalify_plan.replicas import volume
from scalify_plan.search import fastest
from scalify_plan.step import predict

__all__ = ["Row", "calibration", "rows", "share_on_a100"]


@dataclasses.dataclass(frozen=True)
class Row:
    """A published figure beside the planner's.

    Attributes:
        table: the publication.
        name: of the row.
        unit: of both figures.
        published: the measured figure.
        simulated: the planner's figure.
        bar: the largest allowed error: relative, or in points where the unit is "%"; None where the
            row is only shown.
    """

    table: str
    name: str
    unit: str
    published: float
    simulated: float
    bar: float | None

    @property
    def error(self) -> float:
        """The planner's error: relative, or in points where the unit is "%"."""
        if self.unit == "%":
            return self.simulated - self.published
        return self.simulated / self.published - 1

    @property
    def holds(self) -> bool:
        """Whether the bar is met."""
        return self.bar is None or abs(self.error) <= self.bar


# Korthikanti et al. 2022 (arXiv 2205.05198), tables 3 and 5: A100 with 80 GB, no replicas.
# Stages, pieces per stage, sequences, micro-batch; seconds with full and with selective recompute.
_SELENE = {
    "gpt-22b": (1, 1, 4, 4, 1.42, 1.10),
    "gpt-175b": (8, 3, 64, 1, 18.13, 13.75),
    "gpt-530b": (35, 3, 280, 1, 49.05, 37.83),
    "gpt-1t": (64, 1, 512, 1, 94.42, 71.49),
}


def _unfused_model(name: str) -> Model:
    """Returns a model with dropout, and one kernel for each operation of attention and loss."""
    changed = dataclasses.replace(MODELS[name], dropout=True, fused_attention=False)
    return dataclasses.replace(changed, fused_loss=False)


def _selene() -> Iterator[Row]:
    for name, (stages, pieces, batch, micro, full, selective) in _SELENE.items():
        # As in 2022: only the backward overlaps exchanges.
        model = _unfused_model(name)
        common = Layout(
            8, stages, 1, batch, micro, pieces, overlap_tensor=False, overlap_pipeline=False
        )
        whole = dataclasses.replace(common, recompute="full", sequence=False)
        scores = dataclasses.replace(common, recompute="attention", sequence=True)
        for kind, seconds, layout in (("full", full, whole), ("selective", selective, scores)):
            found = predict(A100, model, layout).seconds
            yield Row("Megatron, A100", f"{name}, {kind}", "s", seconds, found, 0.10)


# Figure 1 of the same: GiB of parameters and state, of activations without recomputation, and of
# activations with selective recomputation and sequence parallelism.
_SELENE_GIB = {
    "gpt-22b": (45.56, 59.25, 9.56),
    "gpt-175b": (45.56, 66.84, 12.35),
    "gpt-530b": (31.64, 114.02, 23.08),
    "gpt-1t": (32.96, 131.25, 26.56),
}


def _selene_memory() -> Iterator[Row]:
    table = "Megatron, A100, memory"
    for name, (state, activations, few) in _SELENE_GIB.items():
        stages, pieces, batch, micro, *_ = _SELENE[name]
        model = _unfused_model(name)
        whole = Layout(8, stages, 1, batch, micro, pieces, sequence=False)
        scores = dataclasses.replace(whole, sequence=True, recompute="attention")
        plain, less = held(model, whole), held(model, scores)
        kept = plain["weights"] + plain["gradients"] + plain["state"]
        for what, gib, found in (
            ("parameters, state", state, kept),
            ("activations", activations, plain["activations"]),
            ("activations, selective", few, less["activations"]),
        ):
            yield Row(table, f"{name}, {what}", "GiB", gib, found / 2**30, 0.10)


# Megatron-LM's README, H100 in BF16: layers, hidden, heads, tensor, stages, batch, TFLOP/s.
_EOS = {
    "1.7B": (24, 2048, 16, 1, 1, 192, 408.8),
    "7.1B": (30, 4096, 32, 2, 1, 192, 465.9),
    "16B": (32, 6144, 48, 4, 1, 192, 489.1),
    "32B": (48, 7168, 56, 8, 1, 192, 459.6),
    "70B": (84, 8192, 64, 8, 2, 384, 419.7),
    "119B": (92, 10240, 80, 8, 4, 768, 420.5),
    "177B": (96, 12288, 96, 8, 6, 1152, 432.8),
    "314B": (96, 16384, 128, 8, 8, 1536, 474.4),
    "462B": (112, 18432, 144, 8, 16, 3072, 459.9),
}


# The same README: 177B, batch 1152, on 96 and on 4,608 GPUs.
_STRONG = {1: 47.0, 48: 42.0}


def _eos_mfu(name: str, stages: int, replicas: int) -> float:
    layers, hidden, heads, tensor, _, batch, _ = _EOS[name]
    model = gpt(name, layers, hidden, heads, 4096, 131072, fused_loss=False)
    found = fastest(H100, model, Layout(tensor, stages, replicas, batch), H100.memory)
    return 100 * found.step.mfu


@functools.cache
def _eos_rows() -> dict[str, tuple[float, float]]:
    """Returns the MFU of each row in percent: published, and simulated."""
    found = {
        name: (100 * flops / 989.4, _eos_mfu(name, stages, 48))
        for name, (*_, stages, _, flops) in _EOS.items()
    }
    for replicas, mfu in _STRONG.items():
        found[f"177B on {96 * replicas}"] = mfu, _eos_mfu("177B", 12, replicas)
    return found


def calibration(without: str | None = None) -> float:
    """Returns the ratio of published to simulated MFU of Megatron-LM on H100.

    Fitted by least squares to that README's rows. Like `share_on_a100` it is from times of training
    steps, and is used for these rows alone.

    Args:
        without: a row to leave out of the fit, so that the row can be judged by the fit.
    """
    pairs = [pair for name, pair in _eos_rows().items() if name != without]
    products = sum(published * simulated for published, simulated in pairs)
    return products / sum(simulated**2 for _, simulated in pairs)


def share_on_a100() -> float:
    """Returns the ratio of published to simulated rate of Megatron-LLaMA on 32 A100.

    It is from one published row, whose GPU, network, model and optimizer differ from those of the
    H100 rows that are judged by it; it depends on none of these rows.
    """
    row = _llama_on_32()
    return row.published / row.simulated


def _eos() -> Iterator[Row]:
    table = "Megatron-LM, H100"
    for name, (mfu, found) in _eos_rows().items():
        yield Row(table, name, "%", mfu, found, 4.0)
        yield Row(f"{table}, calibrated", name, "%", mfu, calibration(name) * found, 4.0)
        yield Row(f"{table}, by one row on A100", name, "%", mfu, share_on_a100() * found, 4.0)


# Megatron-LLaMA's README: 13B, 4 x 200 Gb/s a node, tokens/s/GPU of its overlapped optimizer and of
# the distributed one. That table does not give its batch; the table of 32 GPUs does.
_ODO = {256: (1890.0, 1630.0), 512: (1845.0, 1430.0)}


def _megatron_llama_setup() -> tuple[Device, Model]:
    links = dataclasses.replace(A100.links, network=A100.links.network / 2)
    model = dataclasses.replace(MODELS["llama-13b"], seq=2048, fused_loss=False)
    return dataclasses.replace(A100, links=links), model


@functools.cache
def _llama_on_32() -> Row:
    small = Layout(2, 1, 16, 2048, 4, overlap_tensor=False, gradients="each", zero=2, bucket=4e8)
    rate = predict(*_megatron_llama_setup(), small).flops / 1e12
    return Row("Megatron-LLaMA, 13B", "32 GPUs", "TFLOP/s", 180, rate, None)


def _odo() -> Iterator[Row]:
    yield _llama_on_32()
    device, model = _megatron_llama_setup()
    for gpus, (overlapped, plain) in _ODO.items():
        common = Layout(2, 1, gpus // 2, 2048, 4, overlap_tensor=False)
        ours = dataclasses.replace(common, gradients="each", zero=2, bucket=4e8)
        theirs = dataclasses.replace(common, gradients="at_end", zero=1, gather_hidden=False)
        ratio = predict(device, model, theirs).seconds / predict(device, model, ours).seconds
        yield Row(
            "Megatron-LLaMA, ODO / DistOpt", f"{gpus} GPUs", "x", overlapped / plain, ratio, 0.10
        )


def _titan() -> Iterator[Row]:
    # torchtitan's GPUs: 96 GB of HBM2e, 2.4 TB/s; attention is PyTorch's, FlashAttention-2. BF16
    # weights are gathered, F32 gradients reduced. Its recomputation is not modelled.
    device = dataclasses.replace(
        H100, bandwidth=2.4e12 * 0.91, memory=96e9, attention=(333e12, 280e12)
    )
    model = MODELS["llama-8b"]
    found = {}
    for ranks, form in itertools.product((8, 128), ("bf16", "fp8")):
        wire = ("f32", form)
        layout = Layout(
            1,
            1,
            ranks,
            2 * ranks,
            2,
            zero=3,
            gradients="each",
            compute=form,
            cast_reads=1,
            wire=wire,
        )
        found[ranks, form] = predict(device, model, layout).tokens
    for form, published in (("bf16", 6667.0), ("fp8", 8532.0)):
        yield Row("torchtitan, 8B", f"8 GPUs, {form}", "tokens/s", published, found[8, form], None)
    gain = found[8, "fp8"] / found[8, "bf16"]
    yield Row("torchtitan, 8B", "float8 / bf16, 8 GPUs", "x", 8532 / 6667, gain, 0.10)
    for form, published in (("bf16", 6514 / 6667), ("fp8", 8380 / 8532)):
        weak = found[128, form] / found[8, form]
        yield Row("torchtitan, 8B", f"128 / 8 GPUs, {form}", "x", published, weak, 0.10)


def _nemo() -> Iterator[Row]:
    model = MODELS["gpt-175b"]
    layout = Layout(4, 8, 16, 2048, 2, 6, compute="fp8", cast_reads=0)
    found = predict(H100, model, layout)
    yield Row("NeMo, FP8", "GPT3-175B, 512 H100", "TFLOP/s", 932, found.flops / 1e12, 0.15)


# FP8-LM's table of volumes: tensor, stages, replicas, reduction of the volume in percent.
_VOLUMES = {
    "gpt-7b": (1, 1, 32, 62.6),
    "gpt-13b": (2, 1, 16, 63.8),
    "gpt-175b": (8, 4, 4, 65.0),
}


def _volumes() -> Iterator[Row]:
    for name, (tensor, stages, replicas, less) in _VOLUMES.items():
        model = dataclasses.replace(MODELS[name], vocab=50304 // tensor * tensor)
        wide = Layout(tensor, stages, replicas, replicas, zero=1, wire=("f32", "bf16"))
        narrow = dataclasses.replace(wide, wire=("fp8", "fp8"))
        before, after = sum(volume(model, wide)), sum(volume(model, narrow))
        # Dense layers are in FP8; embedding and learnt positions keep their formats.
        kept = (model.vocab + model.seq * tensor) * model.hidden / tensor
        share = kept / (kept + model.layers // stages * model.layer_parameters / tensor)
        found = 100 * (1 - (after * (1 - share) + before * share) / before)
        yield Row("FP8-LM, volume", name, "%", less, found, 2.0)


_TABLES: tuple[Callable[[], Iterator[Row]], ...] = (
    _selene,
    _selene_memory,
    _eos,
    _odo,
    _titan,
    _nemo,
    _volumes,
)


def rows() -> list[Row]:
    """Returns all published rows with the planner's figures."""
    return [row for table in _TABLES for row in table()]
