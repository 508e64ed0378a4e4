"""The example's whole training step, compiled, against jax.jit: sizes, depths, heads and types."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import jax
import numpy as np
import pytest

import scalify

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "llama"))

import model  # noqa: E402
import optimizer  # noqa: E402
from config import ModelConfig, TrainConfig  # noqa: E402

STEPS = 20
# Kept within a minute: two layers are enough for every kind of edge between layers.
MODELS = {
    "grouped": ModelConfig(layers=2, dim=64, heads=4, kv_heads=2, ffn=176, seq=32),
    "one_kv_head": ModelConfig(layers=3, dim=64, heads=8, kv_heads=1, ffn=96, seq=24),
    "odd_sizes": ModelConfig(layers=1, dim=80, heads=5, kv_heads=5, ffn=100, seq=33, vocab=300),
    "bfloat16": ModelConfig(
        layers=2, dim=64, heads=4, kv_heads=2, ffn=176, seq=32, dtype="bfloat16"
    ),
}


def setting(cfg: ModelConfig) -> tuple[Any, Any, Any, np.ndarray]:
    """Returns the step, parameters, optimizer state and batches of bytes."""
    adamw = optimizer.make_optimizer(TrainConfig(warmup=2))
    params = model.init(jax.random.key(0), cfg)
    tokens = np.random.default_rng(0).integers(0, 256, (STEPS + 1, 4, cfg.seq + 1), dtype=np.int32)
    return optimizer.make_step(cfg, adamw), params, adamw.init(params), tokens


@pytest.mark.parametrize("name", MODELS)
def test_losses_follow_jax(name: str) -> None:
    """Twenty steps from one state, and every result of one more step from JAX's state."""
    step, params, state, batches = setting(MODELS[name])
    ours = scalify.jit(step, recipe="none", donate_argnums=(0, 1))
    theirs = jax.jit(step)
    p, s, q, u = params, state, params, state
    # bf16 rounds every activation to 8 bits, and XLA and we round at different places.
    tolerance = 2e-3 if name == "bfloat16" else 1e-4
    for batch in batches[:STEPS]:
        p, s, loss = ours(p, s, batch)
        q, u, expected = theirs(q, u, batch)
        assert abs(float(loss) - float(expected)) <= tolerance * abs(float(expected))

    # From a warm state: Adam's first update is g / |g|, whose sign is free where g is near 0.
    actual = jax.tree.leaves(ours(q, u, batches[STEPS]))
    wanted = jax.tree.leaves(theirs(q, u, batches[STEPS]))
    bound = 2e-2 if name == "bfloat16" else 1e-3
    for a, b in zip(actual, wanted, strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        assert np.abs(a - b).max() <= bound * np.abs(b).max()


@pytest.mark.parametrize("name", MODELS)
def test_strict_fp8(name: str) -> None:
    """Nothing falls back: every linear dot but the head is in FP8, each value is cast once."""
    step, params, state, batches = setting(MODELS[name])
    ours = scalify.jit(step, recipe="fp8", strict=True, donate_argnums=(0, 1))
    theirs = jax.jit(step)
    p, s, q, u = params, state, params, state
    for batch in batches[:5]:
        p, s, loss = ours(p, s, batch)
        q, u, expected = theirs(q, u, batch)
        # Five steps from one state; the casts' noise is some 1e-4 of the loss.
        assert abs(float(loss) - float(expected)) <= 5e-3 * abs(float(expected))
    rows = list(ours.report())
    assert all("no rule" not in str(row.get("reason", "")) for row in rows)
    casts = ours.health()
    layers = MODELS[name].layers
    # Forward: 7 weights and 4 inputs a layer. Backward: 7 gradients a layer.
    assert len(casts) == 18 * layers
    assert sum(row["saturated"] for row in casts) == 0
