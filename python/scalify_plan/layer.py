"""The work of one layer on one rank: products, kernels, and exchanges between tensor ranks."""

from __future__ import annotations

import dataclasses

from scalify_plan import costs
from scalify_plan.devices import Device
from scalify_plan.layout import Layout
from scalify_plan.models import Model

__all__ = ["Work", "backward", "ends", "forward"]


@dataclasses.dataclass
class Work:
    """Seconds and bytes of a piece of a step.

    Attributes:
        compute: seconds of products and kernels.
        exposed: seconds of exposed exchange between tensor ranks.
        hidden: seconds of exchange concurrent with products.
        tensor_bytes: bytes that a rank sends to its tensor ranks.
        flops: of products.
    """

    compute: float = 0.0
    exposed: float = 0.0
    hidden: float = 0.0
    tensor_bytes: float = 0.0
    flops: float = 0.0

    @property
    def seconds(self) -> float:
        """The total; hidden exchange adds nothing."""
        return self.compute + self.exposed

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    def times(self, factor: float) -> Work:
        """Returns the work done `factor` times."""
        return Work(*(value * factor for value in _values(self)))


def _values(work: Work) -> list[float]:
    return [getattr(work, field.name) for field in dataclasses.fields(work)]


@dataclasses.dataclass
class _Layer:
    """Builds the work of a layer."""

    device: Device
    model: Model
    layout: Layout
    work: Work = dataclasses.field(default_factory=Work)

    def __post_init__(self) -> None:
        self.tokens = self.layout.micro * self.model.seq
        # Tokens in a rank's norms and residuals: its part of the sequence, or all of it.
        self.own = self.tokens / (self.layout.tensor if self.layout.sequence else 1)
        self.group = costs.group(self.device, self.layout.tensor, 1)

    def gemm(self, m: int, n: int, k: int, *, batch: int = 1, out: float = 2, dtype: str) -> float:
        """Adds a product; returns its seconds."""
        seconds = costs.gemm(self.device, m, n, k, batch=batch, dtype=dtype, out=out)
        self.work.compute += seconds
        self.work.flops += 2.0 * batch * m * n * k
        return seconds

    def kernel(self, moved: float) -> None:
        """Adds a kernel that moves so many bytes."""
        self.work.compute += costs.kernel(self.device, moved)

    def cast(self, elements: float, transposed: bool) -> None:
        """Adds the bytes that a value's FP8 cast and its transpose add to the producer's."""
        if self.layout.compute == "fp8":
            copies = 2 if transposed else 1
            reads = self.layout.cast_reads
            self.work.compute += elements * (2 * reads + copies) / self.device.bandwidth

    def exchange(self, kind: str, size: float, beside: float = 0.0) -> None:
        """Adds an exchange between tensor ranks, concurrent with products of `beside` seconds."""
        ranks = self.layout.tensor
        if ranks == 1:
            return
        seconds = costs.collective(self.device, kind, size, self.group)
        self.work.tensor_bytes += costs.sent(kind, size, ranks)
        hidden = min(seconds, beside)
        self.work.hidden += hidden
        # Concurrent kernels have fewer multiprocessors.
        self.work.compute += hidden * self.device.comm_share
        self.work.exposed += seconds - hidden

    def dense(self, n: int, k: int) -> float:
        """Adds a linear layer's forward product."""
        return self.gemm(self.tokens, n, k, dtype=self.layout.compute)

    def pieces(self, seconds: float) -> float:
        """Returns a product's seconds that a piecewise exchange overlaps: all but one piece's."""
        return seconds * (1 - 1 / self.layout.tensor) if self.layout.overlap_tensor else 0.0


def _widths(model: Model, tensor: int) -> list[tuple[int, int]]:
    """Returns (outputs, inputs) of the linear layers of a rank: qkv, out, up, down."""
    h, ffn = model.hidden, model.ffn
    up = (2 if model.gated else 1) * ffn // tensor
    return [((h + 2 * model.kv) // tensor, h), (h, h // tensor), (up, h), (h, ffn // tensor)]


def _scores(layer: _Layer, *, backward: bool) -> None:
    """Adds the attention between a layer's projections."""
    model, tensor = layer.model, layer.layout.tensor
    heads = layer.layout.micro * model.heads // tensor
    seq, head = model.seq, model.head
    if model.fused_attention:
        # A causal mask removes half of the scores. The forward has two products, the backward five.
        products = 5 if backward else 2
        flops = products * 2.0 * heads * seq * seq * head / 2
        layer.work.compute += costs.attention(layer.device, flops, backward=backward)
        layer.work.flops += flops
        return
    area = heads * seq * seq
    for _ in range(2 if backward else 1):
        layer.gemm(seq, seq, head, batch=heads, dtype="bf16")
        layer.gemm(seq, head, seq, batch=heads, dtype="bf16")
    # Softmax reads and writes one array; its gradient reads two. Dropout's mask is in bytes.
    layer.kernel(area * (6 if backward else 4))
    if model.dropout:
        layer.kernel(area * 5)


def forward(device: Device, model: Model, layout: Layout) -> Work:
    """Returns the forward of one layer over a micro-batch."""
    layer = _Layer(device, model, layout)
    qkv, out, up, down = _widths(model, layout.tensor)
    hidden, whole = model.hidden, 2.0 * layer.tokens * model.hidden
    for first, second in ((qkv, out), (up, down)):
        layer.kernel(4.0 * layer.own * hidden)
        layer.cast(layer.tokens * hidden, transposed=True)
        made = layer.dense(*first)
        if layout.sequence:
            layer.exchange("all_gather", whole, layer.pieces(made))
        _add_inner_forward(layer, first is qkv)
        made = layer.dense(*second)
        kind = "reduce_scatter" if layout.sequence else "all_reduce"
        layer.exchange(kind, whole, layer.pieces(made) if layout.sequence else 0.0)
        # Bias, dropout with its mask, and the residual's sum.
        layer.kernel(layer.own * hidden * (7 if model.dropout else 6))
    return layer.work


def _add_inner_forward(layer: _Layer, attends: bool) -> None:
    """Adds the kernels between a block's two linear layers in the forward."""
    model, tensor = layer.model, layer.layout.tensor
    if attends:
        if not model.biases:
            layer.kernel(4.0 * layer.tokens * (model.hidden + model.kv) / tensor)
        _scores(layer, backward=False)
        layer.cast(layer.tokens * model.hidden / tensor, transposed=True)
    else:
        layer.kernel((6.0 if model.gated else 4.0) * layer.tokens * model.ffn / tensor)
        layer.cast(layer.tokens * model.ffn / tensor, transposed=True)


def backward(device: Device, model: Model, layout: Layout) -> Work:
    """Returns the backward of one layer over a micro-batch, with its recomputation."""
    layer = _Layer(device, model, layout)
    qkv, out, up, down = _widths(model, layout.tensor)
    hidden, whole = model.hidden, 2.0 * layer.tokens * model.hidden
    for first, second in ((up, down), (qkv, out)):
        if model.dropout:
            layer.kernel(layer.own * hidden * 5)
        made = _add_linear_gradients(layer, *second)
        if layout.sequence:
            layer.exchange("all_gather", whole, layer.pieces(made[0]))
        _add_inner_backward(layer, first is qkv)
        made = _add_linear_gradients(layer, *first)
        if layout.sequence:
            # The backward gathers the product's input again, concurrent with the input's gradient.
            layer.exchange("all_gather", whole, made[0])
            layer.exchange("reduce_scatter", whole, made[1])
        else:
            layer.exchange("all_reduce", whole, made[1])
        # The norm's gradient reads two arrays, and its result is added to the residual's.
        layer.kernel(layer.own * hidden * 8)
    again = Work()
    if layout.recompute == "full":
        again = forward(device, model, layout)
    elif layout.recompute == "attention" and not model.fused_attention:
        scores = _Layer(device, model, layout)
        _scores(scores, backward=False)
        again = scores.work
    return layer.work + again


def _add_linear_gradients(layer: _Layer, n: int, k: int) -> tuple[float, float]:
    """Adds a linear layer's gradients; returns the seconds of the input's and the weight's."""
    tokens, dtype = layer.tokens, layer.layout.compute
    layer.cast(tokens * n, transposed=True)
    if layer.model.biases:
        layer.kernel(2.0 * tokens * n)
    to_input = layer.gemm(tokens, k, n, dtype=dtype)
    # Weights' gradients are accumulated over micro-batches in F32.
    to_weight = layer.gemm(n, k, tokens, out=8, dtype=dtype)
    return to_input, to_weight


def _add_inner_backward(layer: _Layer, attends: bool) -> None:
    """Adds the kernels between a block's two linear layers in the backward."""
    model, tensor = layer.model, layer.layout.tensor
    if attends:
        _scores(layer, backward=True)
        if not model.biases:
            layer.kernel(4.0 * layer.tokens * (model.hidden + model.kv) / tensor)
    else:
        layer.kernel((10.0 if model.gated else 6.0) * layer.tokens * model.ffn / tensor)


def ends(device: Device, model: Model, layout: Layout) -> tuple[Work, Work, Work, Work]:
    """Returns the work of a micro-batch before and after the layers.

    Returns:
        Forward and backward of the embedding, forward and backward of head and loss.
    """
    tokens, hidden = layout.micro * model.seq, model.hidden
    own, columns = tokens / (layout.tensor if layout.sequence else 1), model.vocab // layout.tensor
    into, out_of = _Layer(device, model, layout), _Layer(device, model, layout)
    into.kernel(4.0 * tokens * hidden)
    out_of.kernel(8.0 * own * hidden)
    kind = "reduce_scatter" if layout.sequence else "all_reduce"
    into.exchange(kind, 2.0 * tokens * hidden)
    first, second = _Layer(device, model, layout), _Layer(device, model, layout)
    first.gemm(tokens, columns, hidden, dtype="bf16")
    if layout.sequence:
        first.exchange("all_gather", 2.0 * tokens * hidden)
    # Fused: logits to F32, their maximum, exponentials and sum; then the gradient, rounded.
    # Unfused, as in Megatron-LM, each in place: subtract the maximum, exponentials, their sum, the
    # quotient.
    first.kernel(tokens * columns * (18.0 if model.fused_loss else 6 + 4 + 8 + 8 + 4 + 8))
    second.kernel(tokens * columns * (10.0 if model.fused_loss else 8 + 6))
    to_input = second.gemm(tokens, hidden, columns, dtype="bf16")
    second.gemm(columns, hidden, tokens, out=8, dtype="bf16")
    second.exchange(kind, 2.0 * tokens * hidden, to_input)
    return into.work, out_of.work, first.work, second.work
