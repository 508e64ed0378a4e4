"""One layer's forward and backward by TransformerEngine, if available."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import memory

__all__ = ["RECIPES", "measure"]

RECIPES = ("bf16", "fp8 delayed", "fp8 current")
WARM_UPS = 5


def _context(recipe: str) -> Callable[[], Any]:
    """Returns a function that creates the context in which a layer's products are FP8."""
    if recipe == "bf16":
        return contextlib.nullcontext
    import transformer_engine.common.recipe as recipes
    import transformer_engine.pytorch as te

    kind = recipes.DelayedScaling if recipe == "fp8 delayed" else recipes.Float8CurrentScaling
    chosen = kind(fp8_format=recipes.Format.HYBRID)
    if hasattr(te, "autocast"):  # its name since 2.8
        return lambda: te.autocast(enabled=True, recipe=chosen)
    return lambda: te.fp8_autocast(enabled=True, fp8_recipe=chosen)


def _layer(sizes: dict[str, Any]) -> Any:
    """Returns the layer: RMSNorm, grouped queries, SwiGLU, no bias, as in the example."""
    import torch
    import transformer_engine.pytorch as te

    return te.TransformerLayer(
        sizes["dim"],
        sizes["ffn"],
        sizes["heads"],
        num_gqa_groups=sizes["kv_heads"],
        layernorm_epsilon=sizes["norm_eps"],
        hidden_dropout=0.0,
        attention_dropout=0.0,
        self_attn_mask_type="causal",
        normalization="RMSNorm",
        activation="swiglu",
        bias=False,
        attn_input_format="bshd",
        fuse_qkv_params=True,
        params_dtype=torch.bfloat16,
    )


def measure(sizes: dict[str, Any], batch: int, recipe: str, steps: int = 30) -> dict[str, Any]:
    """Returns the milliseconds of one layer's forward and backward with BF16 weights.

    Args:
        sizes: members of ModelConfig.
        batch: sequences.
        recipe: one of RECIPES.
        steps: the number of timed steps.

    Raises:
        ImportError: TransformerEngine is not installed.
    """
    import transformer_engine
    from transformer_engine.pytorch.attention import RotaryPositionEmbedding

    before = memory.free()
    import torch

    torch.manual_seed(0)
    context, layer = _context(recipe), _layer(sizes)
    size = sizes["dim"] // sizes["heads"]
    rotary = RotaryPositionEmbedding(size, rotary_base=sizes["rope_theta"])(sizes["seq"])
    rotary = rotary.to("cuda")
    extents = (batch, sizes["seq"], sizes["dim"])
    x, grad = (torch.randn(extents, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    x.requires_grad_()

    def run() -> None:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        with context():
            # Weights are cast in each step, as in ours.
            y = layer(x, rotary_pos_emb=rotary, is_first_microbatch=None)
        y.backward(grad)

    times = []
    for _ in range(steps + WARM_UPS):
        torch.cuda.synchronize()
        started = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - started))
    started = time.perf_counter()
    for _ in range(steps):
        run()
    torch.cuda.synchronize()
    together = 1e3 * (time.perf_counter() - started) / steps
    return {
        "ms": min(statistics.median(times[WARM_UPS:]), together),
        "ms_all": times[WARM_UPS:],
        "ms_without_stops": together,
        "clocks": memory.clocks(),
        "memory_taken": memory.taken(before),
        "memory_peak_by_torch": torch.cuda.max_memory_allocated(),
        "version": transformer_engine.__version__,
    }
