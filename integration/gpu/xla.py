"""Steps and a layer by jax.jit, in BF16 and in FP8, to compare ours with.

XLA reads its flags once, when jax first requests a device, so each variant needs a process.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import memory

import weights
from runtime import Tensor

__all__ = ["VARIANTS", "Variant", "measure", "measure_block"]

LLAMA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "llama"
WARM_UPS = 3


@dataclasses.dataclass(frozen=True)
class Variant:
    """A configuration of jax.jit for a step.

    Attributes:
        flags: XLA's, beside its defaults, which include CUDA graphs and measured products.
        attention: "cudnn", or "own" as in the example.
        products: "bf16", "fp8" with scales that are arguments, "fp8 current" with scales from
            largest elements.
    """

    flags: str = ""
    attention: str = "cudnn"
    products: str = "bf16"


HIDING = "--xla_gpu_enable_latency_hiding_scheduler=true"
NO_TRITON = "--xla_gpu_enable_triton_gemm=false"
VARIANTS = {
    "bf16": Variant(),
    "bf16, latency hiding": Variant(HIDING),
    "bf16, no triton gemm": Variant(NO_TRITON),
    "bf16, no command buffers": Variant("--xla_gpu_enable_command_buffer="),
    "bf16, attention as written": Variant(attention="own"),
    "fp8": Variant(products="fp8"),
    "fp8, no triton gemm": Variant(NO_TRITON, products="fp8"),
    "fp8 current": Variant(products="fp8 current"),
}


def _filled(prefix: str, tree: Any) -> Any:
    """Returns a tree of shapes as arrays of the GPU, with the initial values of our step."""
    import jax
    import jax.numpy as jnp

    names = {"float32": "f32", "int32": "i32", "bfloat16": "bf16"}

    def leaf(path: Any, shape: Any) -> Any:
        name = prefix + jax.tree_util.keystr(path)
        if not name.startswith(("params", "batch", "layer", "x", "grad")):
            return jnp.zeros(shape.shape, shape.dtype)
        tensor = Tensor(name, names[str(shape.dtype)], shape.shape, 0, -1)
        return jax.device_put(weights.fill(tensor))

    return jax.tree_util.tree_map_with_path(leaf, tree)


def _start(variant: Variant) -> None:
    """Sets the variables that jax reads at its start, and starts it.

    Raises:
        RuntimeError: it does not run on a GPU.
    """
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {variant.flags}".strip()
    # By default jax reserves three quarters of the memory, which hides a step's use.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    sys.path.insert(0, str(LLAMA))
    import jax

    if jax.default_backend() != "gpu":
        raise RuntimeError(f"jax runs on '{jax.default_backend()}' here, not on a GPU")


def _traced(variant: Variant, model: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function with an additional first argument, scales, traced by a variant."""
    import blocks

    def run(scales: Any, *args: Any) -> Any:
        attend = blocks.cudnn_attention if variant.attention == "cudnn" else None
        dot: blocks.Dot = blocks.plain_dot
        if variant.products != "bf16":
            dot = blocks.fp8_dot(scales if variant.products == "fp8" else None)
        with blocks.parts(model, attend, dot):
            return fn(*args)

    return run


def _about(compiled: Any) -> dict[str, Any]:
    """Returns XLA's figures of a program: its planned memory, and its FP8 products."""
    text = compiled.as_text()
    # A product with an FP8 operand is FP8: cuBLASLt's own call, or a fusion of Triton's.
    triton = re.findall(r'__triton_\w*gemm\w*"?', text)
    found: dict[str, Any] = {
        "fp8_calls_of_cublaslt": len(re.findall(r"__cublas\$lt\$matmul\$f8\"", text)),
        "calls_of_cublaslt": len(re.findall(r"__cublas(?:\$lt\$matmul|\$gemm)\"", text)),
        "fusions_of_triton": len(triton),
        "calls_of_cudnn_attention": len(re.findall(r"__cudnn\$fmha\w*\"", text)),
    }
    if (sizes := compiled.memory_analysis()) is not None:
        parts = (sizes.argument_size_in_bytes, sizes.output_size_in_bytes)
        taken_over = sizes.alias_size_in_bytes
        found["memory_planned"] = sum(parts) + sizes.temp_size_in_bytes - taken_over
    return found


def _times(step: Callable[[], Any], steps: int) -> dict[str, Any]:
    """Returns milliseconds of each step by itself, and per step of several without a stop.

    Ours ends each step with its results available. The faster of jax's two counts.
    """
    import jax

    times = []
    for _ in range(steps + WARM_UPS):
        started = time.perf_counter()
        jax.block_until_ready(step())
        times.append(1e3 * (time.perf_counter() - started))
    started = time.perf_counter()
    last = None
    for _ in range(steps):
        last = step()
    jax.block_until_ready(last)
    together = 1e3 * (time.perf_counter() - started) / steps
    alone = statistics.median(times[WARM_UPS:])
    return {
        "ms": min(alone, together),
        "ms_all": times[WARM_UPS:],
        "ms_without_stops": together,
        "clocks": memory.clocks(),
    }


def _memory(before: int | None) -> dict[str, Any]:
    import jax

    stats = jax.devices()[0].memory_stats() or {}
    return {
        "memory_peak_by_jax": stats.get("peak_bytes_in_use"),
        "memory_taken": memory.taken(before),
        "flags": os.environ["XLA_FLAGS"],
        "jax": jax.__version__,
    }


def measure(sizes: dict[str, Any], batch: int, variant: str, steps: int = 10) -> dict[str, Any]:
    """Returns the milliseconds of a step, its first loss, and the GPU's memory.

    Args:
        sizes: members of ModelConfig.
        batch: sequences.
        variant: one of VARIANTS.
        steps: the number of timed steps, after three that warm up.
    """
    chosen = VARIANTS[variant]
    before = memory.free()
    _start(chosen)
    import blocks
    import jax
    import jax.numpy as jnp

    import model
    import optimizer
    from config import ModelConfig, TrainConfig

    cfg = ModelConfig(**sizes)
    adamw = optimizer.make_optimizer(TrainConfig())
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    tree: list[Any] = [_filled("params", shapes)]
    tree.append(_filled("opt_state", jax.eval_shape(adamw.init, shapes)))
    tokens = _filled("batch", jax.ShapeDtypeStruct((batch, cfg.seq + 1), jnp.int32))
    scales = jnp.array(blocks.SCALES, jnp.float32)
    started = time.perf_counter()
    run = _traced(chosen, model, optimizer.make_step(cfg, adamw))
    compiled = jax.jit(run, donate_argnums=(1, 2)).lower(scales, *tree, tokens).compile()
    about = _about(compiled) | {"compile_seconds": time.perf_counter() - started}
    losses: list[Any] = []

    def step() -> Any:
        tree[0], tree[1], loss = compiled(scales, *tree, tokens)
        losses.append(loss)
        return loss

    times = _times(step, steps)
    return about | times | {"first_loss": float(losses[0])} | _memory(before)


def measure_block(
    sizes: dict[str, Any], batch: int, variant: str, steps: int = 30
) -> dict[str, Any]:
    """Returns the milliseconds of one layer's forward and backward with BF16 weights."""
    chosen = VARIANTS[variant]
    before = memory.free()
    _start(chosen)
    import blocks
    import jax
    import jax.numpy as jnp

    import model
    from config import ModelConfig

    cfg = ModelConfig(**sizes)
    layer, x = blocks.shapes(model, cfg, batch)
    inputs = (_filled("layer", layer), _filled("x", x), _filled("grad", x))
    scales = jnp.array(blocks.SCALES, jnp.float32)
    run = jax.jit(_traced(chosen, model, blocks.block(model, cfg)))
    compiled = run.lower(scales, *inputs).compile()
    times = _times(lambda: compiled(scales, *inputs), steps)
    return _about(compiled) | times | _memory(before)
