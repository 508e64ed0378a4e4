"""Training steps of LLaMAs as text, for tests of artefacts for a GPU."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys

import jax
import numpy as np

__all__ = ["example", "large"]

LLAMA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "llama"
sys.path.insert(0, str(LLAMA))
try:
    import config
    import model
    import optimizer
    import shapes
finally:
    sys.path.remove(str(LLAMA))


@functools.cache
def example(layers: int) -> str:
    """Returns the text of a training step of the example."""
    cfg = config.ModelConfig(layers=layers)
    adamw = optimizer.make_optimizer(config.TrainConfig())
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    batch = jax.ShapeDtypeStruct((16, cfg.seq + 1), np.int32)
    step = jax.jit(optimizer.make_step(cfg, adamw), donate_argnums=(0, 1))
    return step.lower(params, jax.eval_shape(adamw.init, params), batch).as_text(debug_info=True)


@functools.cache
def large(layers: int, scanned: bool) -> str:
    """Returns the text of a training step of LLaMA 8B's shape on 2,048 tokens."""
    cfg = dataclasses.replace(shapes.LLAMA_8B, layers=layers, seq=2048)
    return shapes.lower(cfg, scanned=scanned)
