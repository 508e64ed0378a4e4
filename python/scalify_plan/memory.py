"""Bytes that a rank holds, by purpose."""

from __future__ import annotations

import dataclasses

from scalify_plan.costs import BYTES
from scalify_plan.layout import Layout
from scalify_plan.models import Model

__all__ = ["activations", "held", "rank_parameters"]


def rank_parameters(model: Model, layout: Layout) -> float:
    """Returns the parameters of the rank that has most of them, on the first or last stage."""
    layers = model.layers // layout.pipeline * model.layer_parameters
    ends = model.embedding_parameters * (1 if model.tied or layout.pipeline > 1 else 2)
    return (layers + ends) / layout.tensor


def activations(model: Model, layout: Layout) -> float:
    """Returns the bytes that a layer keeps for the backward of a micro-batch.

    Counted as by Korthikanti et al. (2022): inputs of norms and of products, queries, keys and
    values, masks, and scores where attention is not fused.
    """
    h, tensor = model.hidden, layout.tensor
    tokens = layout.micro * model.seq
    narrow = 1.0 if layout.compute == "fp8" else 2.0
    own = tensor if layout.sequence else 1
    if layout.recompute == "full":
        return tokens * 2.0 * h / own
    # Inputs of two norms, and the norms' results, which products read.
    kept = (4.0 + 2 * narrow) * h / own
    kept += (2.0 * h if model.dropout else 0.0) / own
    kept += (2.0 * (h + 2 * model.kv) + narrow * h) / tensor
    kept += ((4.0 if model.gated else 2.0) + narrow) * model.ffn / tensor
    if not model.fused_attention and layout.recompute == "none":
        kept += (5.0 if model.dropout else 2.0) * model.heads * model.seq / tensor
    return tokens * kept


def held(model: Model, layout: Layout) -> dict[str, float]:
    """Returns the bytes of a rank: weights, gradients, state, activations, buckets, and peak.

    CUDA's context, libraries and fragmentation are not counted.
    """
    count, shares = rank_parameters(model, layout), layout.data
    # FP8 products read a weight in both orders; where BF16 weights are gathered, they stay too.
    weight = 2.0
    if layout.compute == "fp8" and layout.wire[1] != "fp8":
        weight = 4.0
    layers = model.layers // layout.pipeline
    # FP8-LM's o3 stores one order of each weight, and the other one of two layers.
    stored, turned = (1.0, 1.0) if layout.level == "o3" else (weight, 0.0)
    two_layers = 2 * model.layer_parameters / layout.tensor
    weights = stored * count + turned * two_layers
    gradients, state = layout.gradient_bytes * count, layout.state_bytes * count
    if layout.zero >= 1:
        state /= shares
    if layout.zero >= 2:
        # A share, and two buckets in flight.
        gradients = gradients / shares + 2 * min(layout.bucket, count) * BYTES[layout.wire[0]]
    if layout.zero == 3:
        # Two layers' weights are gathered at a time.
        weights = stored * count / shares + weight * two_layers
    flight = 1.0
    if layout.pipeline > 1:
        flight = min(
            float(layout.micro_batches),
            layout.pipeline + (layout.pipeline - 1) / layout.interleave
            if layout.interleave > 1
            else float(layout.pipeline),
        )
    kept = activations(model, layout) * layers * flight
    if layout.recompute == "full":
        kept += activations(model, dataclasses.replace(layout, recompute="none"))
    logits = 0.0
    if layout.pipeline == 1:
        logits = layout.micro * model.seq * model.vocab / layout.tensor * (2.0 + 4.0)
    wire = max(BYTES[layout.wire[0]], BYTES[layout.wire[1]])
    buckets = 2 * min(layout.bucket, count) * wire if shares > 1 and layout.zero < 2 else 0.0
    parts = {
        "weights": weights,
        "gradients": gradients,
        "state": state,
        "activations": kept,
        "logits": logits,
        "buckets": buckets,
    }
    return {**parts, "peak": sum(parts.values())}
