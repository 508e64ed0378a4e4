"""The example's step of 8B shapes by jax.jit, in BF16: what ours is compared with.

XLA reads its flags once, when jax first asks for a device, so each variant needs a process.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import sys
import time
from typing import Any

import weights
from runtime import Tensor

__all__ = ["VARIANTS", "measure"]

LLAMA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "llama"
# "cudnn" is attention by cuDNN in place of the example's own, under XLA's default flags.
VARIANTS = {
    "default": "",
    "cudnn": "",
    "latency hiding": "--xla_gpu_enable_latency_hiding_scheduler=true",
    "no triton gemm": "--xla_gpu_enable_triton_gemm=false",
}


def _use_cudnn(model: Any) -> None:
    """Lets the model's attention be cuDNN's; the rest of it stays."""
    import jax

    def attention(x: Any, layer: Any, cfg: Any, tables: Any) -> Any:
        batch, length, _ = x.shape
        split = {"wq": cfg.heads, "wk": cfg.kv_heads, "wv": cfg.kv_heads}
        q, k, v = (
            (x @ layer[name].astype(x.dtype)).reshape(batch, length, heads, cfg.head_dim)
            for name, heads in split.items()
        )
        q, k = model.rope(q, *tables), model.rope(k, *tables)
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")
        return mixed.reshape(batch, length, cfg.dim) @ layer["wo"].astype(x.dtype)

    model.attention = attention


def _filled(prefix: str, tree: Any) -> Any:
    """Returns a tree of shapes as arrays of the GPU, with the values that our step starts from."""
    import jax

    names = {"float32": "f32", "int32": "i32"}

    def leaf(path: Any, shape: Any) -> Any:
        name = prefix + jax.tree_util.keystr(path)
        tensor = Tensor(name, names[str(shape.dtype)], shape.shape, 0, -1)
        return jax.device_put(weights.fill(tensor))

    return jax.tree_util.tree_map_with_path(leaf, tree)


def measure(sizes: dict[str, Any], variant: str, steps: int = 10) -> dict[str, Any]:
    """Returns the milliseconds of a step, its first loss, and the GPU's memory.

    Args:
        sizes: members of ModelConfig.
        variant: one of VARIANTS.
        steps: how many are timed, after three that warm up.
    """
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {VARIANTS[variant]}".strip()
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    sys.path.insert(0, str(LLAMA))
    import jax

    import model
    import optimizer
    from config import ModelConfig, TrainConfig

    if jax.default_backend() != "gpu":
        raise RuntimeError(f"jax runs on '{jax.default_backend()}' here, not on a GPU")
    if variant == "cudnn":
        _use_cudnn(model)
    cfg = ModelConfig(**sizes)
    adamw = optimizer.make_optimizer(TrainConfig())
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    params = _filled("params", shapes)
    state = _filled("opt_state", jax.eval_shape(adamw.init, shapes))
    batch = jax.device_put(weights.fill(Tensor("batch", "i32", (1, cfg.seq + 1), 0, -1)))
    started = time.perf_counter()
    step = jax.jit(optimizer.make_step(cfg, adamw), donate_argnums=(0, 1))
    compiled = step.lower(params, state, batch).compile()
    compile_seconds = time.perf_counter() - started
    losses, times = [], []
    for _ in range(steps + 3):
        started = time.perf_counter()
        params, state, loss = jax.block_until_ready(compiled(params, state, batch))
        times.append(1e3 * (time.perf_counter() - started))
        losses.append(float(loss))
    memory = jax.devices()[0].memory_stats() or {}
    return {
        "ms": statistics.median(times[3:]),
        "ms_all": times[3:],
        "first_loss": losses[0],
        "compile_seconds": compile_seconds,
        "memory_peak_by_jax": memory.get("peak_bytes_in_use"),
        "memory_used_mib": weights.memory_used(),
        "flags": os.environ["XLA_FLAGS"],
        "jax": jax.__version__,
    }
