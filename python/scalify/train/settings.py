"""The sections of a run's configuration, as frozen dataclasses: one for each table of the file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

__all__ = [
    "CheckpointSection",
    "Config",
    "DataSection",
    "EvaluationSection",
    "ExportSection",
    "LogSection",
    "LoraSection",
    "ModelSection",
    "OptimizerSection",
    "RecipeSection",
    "SampleSection",
    "ScheduleSection",
    "Source",
    "TrainSection",
]


def _positive(section: str, **values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not value > 0:
            raise ValueError(f"{section}.{name} = {value}: expected more than 0")


def _one_of(key: str, value: str, *words: str) -> None:
    if value not in words:
        raise ValueError(f"{key} = '{value}': expected one of {', '.join(words)}")


def _share(key: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{key} = {value}: expected a share, 0 to 1")


@dataclasses.dataclass(frozen=True)
class ModelSection:
    """Which LLaMA is trained, and from which weights.

    Attributes:
        name: a configuration that `scalify.models.llama` knows by name.
        config: path of a Hugging Face config.json.
        weights: folder of a Hugging Face checkpoint, whose config.json applies; without it, weights
            are drawn from the seed.
        override: fields of the configuration that differ, or all of them.
        dtype: of the masters.
    """

    name: str | None = None
    config: str | None = None
    weights: str | None = None
    override: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    dtype: str = "float32"

    def __post_init__(self) -> None:
        given = [key for key in ("name", "config", "weights") if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError(f"model has {' and '.join(given)}: give one of them")
        if not given and not self.override:
            raise ValueError("model says no shape: give name, config, weights or model.override")
        _one_of("model.dtype", self.dtype, "float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Source:
    """A file of tokens and its share of the samples, relative to the other sources."""

    path: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        _positive("data source", weight=self.weight)


@dataclasses.dataclass(frozen=True)
class DataSection:
    """Where samples come from.

    Attributes:
        train: files of `scalify tokenize`, with weights.
        validation: the same, for evaluation.
        sequence: tokens of a sample.
        packing: "stream" cuts the concatenated documents into samples; "documents" fills each
            sample with whole documents and pads the rest, as for instructions.
        tokenizer: path of a tokenizer.json or its folder, for samples of text and exports; by
            default that of `model.weights`.
    """

    train: tuple[Source, ...]
    validation: tuple[Source, ...] = ()
    sequence: int = 512
    packing: str = "stream"
    tokenizer: str | None = None

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("data.train is empty: name a file that `scalify tokenize` wrote")
        _positive("data", sequence=self.sequence)
        _one_of("data.packing", self.packing, "stream", "documents")


@dataclasses.dataclass(frozen=True)
class OptimizerSection:
    """AdamW with decoupled decay of matrices, after clipping by the global norm; 0: no clipping."""

    learning_rate: float = 3e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.1
    clip: float = 1.0

    def __post_init__(self) -> None:
        _positive("optimizer", learning_rate=self.learning_rate, eps=self.eps)
        _share("optimizer.beta1", self.beta1)
        _share("optimizer.beta2", self.beta2)
        if self.clip < 0 or self.weight_decay < 0:
            raise ValueError("optimizer.clip and optimizer.weight_decay: expected 0 or more")


@dataclasses.dataclass(frozen=True)
class ScheduleSection:
    """The learning rate by the step.

    Attributes:
        kind: "cosine", "wsd" (warm-up, stable, then decay) or "constant".
        warmup: steps from 0 to the peak.
        decay: steps of the decay at the end, for "wsd".
        final: the last rate, as a share of the peak.
    """

    kind: str = "cosine"
    warmup: int = 0
    decay: int = 0
    final: float = 0.1

    def __post_init__(self) -> None:
        _one_of("schedule.kind", self.kind, "cosine", "wsd", "constant")
        _share("schedule.final", self.final)
        if self.warmup < 0 or self.decay < 0:
            raise ValueError("schedule.warmup and schedule.decay: expected 0 or more steps")
        if (self.kind == "wsd") != (self.decay > 0):
            raise ValueError(
                f"schedule.decay = {self.decay} with kind '{self.kind}': 'wsd' needs the steps of "
                "its decay, and other kinds have none"
            )


@dataclasses.dataclass(frozen=True)
class TrainSection:
    """How long, how much at once, and on which ranks.

    Attributes:
        steps: updates of the weights.
        batch: samples of an update, over all ranks and micro-batches.
        micro_batches: parts of the batch whose gradients are computed one after another.
        seed: of initial weights and of the order of data.
        mesh: sizes of the axes of ranks, "data" and "tensor", as {data = 2}; without it all
            launched ranks are of data.
        zero: level of ZeRO, 0 to 3.
    """

    steps: int
    batch: int
    micro_batches: int = 1
    seed: int = 0
    mesh: Mapping[str, int] = dataclasses.field(default_factory=dict)
    zero: int = 0

    def __post_init__(self) -> None:
        _positive("train", steps=self.steps, batch=self.batch, micro_batches=self.micro_batches)
        if self.zero not in range(4):
            raise ValueError(f"train.zero = {self.zero}: expected a level, 0 to 3")
        for axis, size in self.mesh.items():
            if axis not in ("data", "tensor") or not isinstance(size, int) or size < 1:
                raise ValueError(
                    f"train.mesh has {axis} = {size}: expected data = ranks, tensor = ranks, or "
                    "both"
                )
        parts = self.micro_batches * self.mesh.get("data", 1)
        if self.batch % parts:
            raise ValueError(
                f"train.batch = {self.batch} is no multiple of {parts}, its micro-batches times "
                "ranks"
            )


@dataclasses.dataclass(frozen=True)
class EvaluationSection:
    """The loss on `data.validation`.

    Attributes:
        every: steps between evaluations, 0 for none; the last step has one too.
        batches: batches of `train.batch` samples, the same each time.
        recipe: under which the loss is computed.
    """

    every: int = 0
    batches: int = 8
    recipe: str = "none"

    def __post_init__(self) -> None:
        _positive("evaluation", batches=self.batches)


@dataclasses.dataclass(frozen=True)
class SampleSection:
    """A text that the model writes every `every` steps, 0 for none, from `prompt`."""

    every: int = 0
    prompt: str = ""
    tokens: int = 64


@dataclasses.dataclass(frozen=True)
class RecipeSection:
    """The precision of the step.

    Attributes:
        name: a preset or the text of a recipe.
        replace: parts of the recipe that differ, as `scalify.Recipe.replace` takes them.
        health: the policy for casts that clip: "report", "rescale", "adapt", "widen", "off", or
            "" for the step's own.
        health_every: steps between two checks by the policy.
    """

    name: str = "fp8"
    replace: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    health: str = ""
    health_every: int = 20

    def __post_init__(self) -> None:
        words = ("", "report", "rescale", "adapt", "widen", "off")
        _one_of("recipe.health", self.health, *words)
        _positive("recipe", health_every=self.health_every)


@dataclasses.dataclass(frozen=True)
class CheckpointSection:
    """Checkpoints in `folder`, by default the run's own: every `every` steps and at the end."""

    folder: str | None = None
    every: int = 100
    keep: int = 2

    def __post_init__(self) -> None:
        _positive("checkpoint", every=self.every, keep=self.keep)


@dataclasses.dataclass(frozen=True)
class ExportSection:
    """Weights for other programs at the end of a run, adapters merged.

    Attributes:
        folder: for Hugging Face's layout; None writes nothing.
        fp8: folder for the same with linear layers in FP8, as compressed-tensors has them.
        dtype: of the first; "" for that of the masters.
    """

    folder: str | None = None
    fp8: str | None = None
    dtype: str = ""

    def __post_init__(self) -> None:
        _one_of("export.dtype", self.dtype, "", "float32", "bfloat16", "float16")
        if self.fp8 and not self.folder:
            raise ValueError("export.fp8 is made from export.folder: name that folder too")


@dataclasses.dataclass(frozen=True)
class LogSection:
    """The files that a run writes about itself.

    Attributes:
        folder: of the run: log.jsonl, config.json, checkpoints, report.html.
        every: steps between lines for a reader without a terminal.
        health_every: steps between records of saturated and flushed shares.
        tensorboard: also write events for TensorBoard.
        page: write report.html at the end.
        peak_flops: of one device, for the MFU; None: no MFU.
    """

    folder: str = "run"
    every: int = 10
    health_every: int = 10
    tensorboard: bool = False
    page: bool = True
    peak_flops: float | None = None

    def __post_init__(self) -> None:
        _positive(
            "log", every=self.every, health_every=self.health_every, peak_flops=self.peak_flops
        )


@dataclasses.dataclass(frozen=True)
class LoraSection:
    """Adapters of low rank in place of training the weights (Hu et al. 2021, section 4.1).

    Attributes:
        rank: of the adapters; 0 trains all weights.
        alpha: an adapter's product is multiplied by alpha / rank.
        targets: projections that get adapters, by their names in Hugging Face's layout.
    """

    rank: int = 0
    alpha: float = 16.0
    targets: tuple[str, ...] = (
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    )

    def __post_init__(self) -> None:
        _positive("lora", alpha=self.alpha)
        if self.rank < 0:
            raise ValueError(f"lora.rank = {self.rank}: expected 0 or more")


@dataclasses.dataclass(frozen=True)
class Config:
    """A run, as its file describes it."""

    model: ModelSection
    data: DataSection
    train: TrainSection
    optimizer: OptimizerSection = OptimizerSection()
    schedule: ScheduleSection = ScheduleSection()
    evaluation: EvaluationSection = EvaluationSection()
    sample: SampleSection = SampleSection()
    recipe: RecipeSection = RecipeSection()
    checkpoint: CheckpointSection = CheckpointSection()
    export: ExportSection = ExportSection()
    log: LogSection = LogSection()
    lora: LoraSection = LoraSection()

    def __post_init__(self) -> None:
        if self.evaluation.every and not self.data.validation:
            raise ValueError("evaluation.every needs data.validation: name a file of tokens")
        if self.sample.every and self.data.tokenizer is self.model.weights is None:
            raise ValueError("sample.every needs data.tokenizer: name a tokenizer.json")
        if self.schedule.warmup + self.schedule.decay > self.train.steps:
            raise ValueError(
                f"schedule.warmup + schedule.decay are more than train.steps = {self.train.steps}"
            )
