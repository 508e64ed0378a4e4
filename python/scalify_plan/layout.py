"""How a model is laid out on ranks, and how a step iterates over its batch."""

from __future__ import annotations

import dataclasses
from typing import Literal

from scalify_plan.models import Model

__all__ = ["Layout", "Level"]

Level = Literal["", "o1", "o2", "o3"]


@dataclasses.dataclass(frozen=True)
class Layout:
    """A parallel layout.

    Attributes:
        tensor: ranks that shard each matrix; consecutive ones.
        pipeline: stages.
        data: replicas.
        batch: sequences of a step.
        micro: sequences of a micro-batch.
        interleave: pieces of the model on each stage.
        sequence: whether norms and residuals are sharded over the tensor ranks too.
        recompute: what the backward recomputes: nothing, attention's scores, or whole layers.
        gradients: when replicas reduce gradients. "at_end": when all are there; "last": concurrent
            with the backward of the last micro-batch; "each": concurrent with that of every
            micro-batch, into shares.
        zero: 1 shards the optimizer's state, 2 gradients too, 3 weights too; 0 nothing.
        gather_hidden: whether weights are gathered during the forward, not before it.
        overlap_tensor: whether tensor ranks exchange in pieces concurrently with the products.
        overlap_pipeline: whether stages send concurrently with computation.
        compute: format of the linear layers' products.
        cast_reads: how often a value is read before its FP8 cast, which is written with the value:
            0 with known scales, 1 with scales from its own amax.
        wire: formats of gradients and of weights between replicas.
        bucket: elements of a bucket.
        master: bytes of state per parameter: master and moments.
        level: FP8-LM's level, for data between steps and micro-batches (Peng et al. 2023, section
            2). "o1": gradients in FP8, accumulated over micro-batches in BF16. "o2": also 5 bytes
            of state, master and second moment in FP16, first moment in FP8. "o3": also weights in
            FP8, in one order: those that the backward reads are transposed layer by layer.
        drop_gathered: with ZeRO-3, whether weights are gathered again for the backward.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    batch: int = 1
    micro: int = 1
    interleave: int = 1
    sequence: bool = True
    recompute: Literal["none", "attention", "full"] = "none"
    gradients: Literal["at_end", "last", "each"] = "last"
    zero: Literal[0, 1, 2, 3] = 1
    gather_hidden: bool = True
    overlap_tensor: bool = True
    overlap_pipeline: bool = True
    compute: str = "bf16"
    cast_reads: int = 0
    wire: tuple[str, str] = ("f32", "bf16")
    bucket: float = 2e8
    master: float = 12
    level: Level = ""
    drop_gathered: bool = True

    @property
    def ranks(self) -> int:
        """The number of all ranks."""
        return self.tensor * self.pipeline * self.data

    @property
    def micro_batches(self) -> int:
        """Micro-batches of one replica in a step."""
        return self.batch // (self.data * self.micro)

    @property
    def state_bytes(self) -> float:
        """Bytes of the optimizer's state per parameter."""
        return 5.0 if self.level in ("o2", "o3") else self.master

    @property
    def gradient_bytes(self) -> float:
        """Bytes of the gradient per parameter, as accumulated over a step's micro-batches."""
        if not self.level:
            return 4.0
        return 1.0 if self.micro_batches == 1 else 2.0

    def faults(self, model: Model) -> str:
        """Returns why the layout does not fit a model; empty if it fits."""
        parts = self.pipeline * self.interleave
        if self.batch % (self.data * self.micro):
            return f"{self.batch} sequences are no multiple of {self.data} x {self.micro}"
        if model.layers % parts:
            return f"{model.layers} layers are no multiple of {parts} pieces"
        if model.heads % self.tensor or model.kv_heads % self.tensor or model.ffn % self.tensor:
            return f"heads or channels are no multiple of {self.tensor} tensor ranks"
        if self.interleave > 1 and self.pipeline == 1:
            return "pieces of a model need stages to interleave"
        if self.interleave > 1 and self.micro_batches % self.pipeline:
            return f"{self.micro_batches} micro-batches are no multiple of {self.pipeline} stages"
        if self.pipeline > 1 and (self.zero == 3 or self.gradients == "each"):
            return "exchanges of replicas in each micro-batch are not simulated with stages"
        return ""
