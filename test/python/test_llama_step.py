"""The example's training step, compiled: against jax.jit, and what its report promises."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import jax
import numpy as np
import pytest

import scalify

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "llama"))

import data
import model
import optimizer
from config import ModelConfig, TrainConfig

SIZES: dict[str, dict[str, Any]] = {
    "f32": {"layers": 2},
    "bf16": {"layers": 2, "dtype": "bfloat16"},
    "odd": {"layers": 3, "dim": 80, "heads": 5, "kv_heads": 1, "ffn": 200, "seq": 48},
}


def setting(sizes: str) -> tuple[Any, Any, np.ndarray]:
    """Returns the step, its initial state, and batches."""
    cfg, plan = ModelConfig(**SIZES[sizes]), TrainConfig()
    adamw = optimizer.make_optimizer(plan)
    params = model.init(jax.random.key(0), cfg)
    batches = data.train_batches(data.load(), 20, 8, cfg.seq, seed=0)
    return optimizer.make_step(cfg, adamw), (params, adamw.init(params)), batches


def largest_errors(got: Any, want: Any) -> np.ndarray:
    """Returns each result's largest error, relative to its largest magnitude; NaN stays NaN."""
    found = []
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        wide = np.asarray(theirs, np.float64)
        error, size = np.max(np.abs(wide - np.asarray(ours, np.float64))), np.max(np.abs(wide))
        found.append(0.0 if error == 0 else error / size if size else np.inf)
    return np.array(found)


@pytest.mark.parametrize("sizes", ["f32", "odd"])
def test_recipe_none_follows_jax(sizes: str) -> None:
    step, state, batches = setting(sizes)
    reference = jax.jit(step)
    compiled = scalify.jit(step, recipe="none", donate_argnums=(0, 1))
    theirs, ours = state, state
    for batch in batches:
        *theirs, want = reference(*theirs, batch)
        *ours, got = compiled(*ours, batch)
        assert abs(float(got) - float(want)) <= 1e-4 * float(want)

    # One step from equal, warm state: before, Adam's update is a sign.
    warm = jax.tree.map(np.asarray, tuple(theirs))
    errors = largest_errors(compiled(*warm, batches[0]), reference(*warm, batches[0]))
    assert np.max(errors) <= 1e-3


def test_bf16_is_as_near_to_f32_as_xla_is() -> None:
    """Two bf16 steps round between different ops, so the truth for both is the step in f32."""
    step, state, batches = setting("bf16")
    exact, _, _ = setting("f32")
    reference, truth = jax.jit(step), jax.jit(exact)
    compiled = scalify.jit(step, recipe="none", donate_argnums=(0, 1))
    theirs, ours, wide = state, state, state
    off: dict[str, list[float]] = {"ours": [], "theirs": []}
    for batch in batches:
        *wide, want = truth(*wide, batch)
        *theirs, other = reference(*theirs, batch)
        *ours, got = compiled(*ours, batch)
        off["ours"].append(abs(float(got) / float(want) - 1))
        off["theirs"].append(abs(float(other) / float(want) - 1))
    # Rounding is noise: two runs of equal quality may differ by a factor, not by more than 2.
    # Below one rounding of bf16 in a mean of many, 2^-9 / sqrt(1024), a ratio says nothing.
    floor = 2.0**-14
    assert np.max(off["ours"]) <= 2 * max(np.max(off["theirs"]), floor)
    # In itself: one rounding of bf16, of a loss that is a mean of many.
    assert np.max(off["ours"]) <= 2.0**-9

    warm = jax.tree.map(np.asarray, tuple(wide))
    want = truth(*warm, batches[0])
    errors = largest_errors(compiled(*warm, batches[0]), want)
    others = largest_errors(reference(*warm, batches[0]), want)
    # Leaf by leaf, against the worse of that leaf and the typical one: a leaf may be lucky.
    assert np.all(errors <= 2 * np.maximum(others, np.median(others)))


@pytest.mark.parametrize("sizes", ["f32", "odd"])
def test_fp8_casts_what_the_recipe_wants_and_each_value_once(sizes: str) -> None:
    step, state, batches = setting(sizes)
    compiled = scalify.jit(step, recipe="fp8", strict=True, donate_argnums=(0, 1))
    losses = []
    for batch in batches:
        *state, loss = compiled(*state, batch)
        losses.append(float(loss))
    assert losses[-1] < losses[0] - 0.5

    report = compiled.report()
    layers = SIZES[sizes]["layers"]
    fp8 = [row for row in report.dots() if "f8" in row["format"]]
    bf16 = [row for row in report.dots() if row["format"].startswith("bf16 x bf16")]
    # Seven linear layers with two gradients each; two attention dots likewise, and the head.
    assert len(fp8) == 21 * layers and len(bf16) == 6 * layers + 3 == len(report.dots()) - len(fp8)
    assert all(row["location"] for row in report.dots())
    # Seven weights and four activations forward, and the gradients of seven outputs.
    casts = report.casts()
    assert sum(row["format"] == "f8E4M3FN" for row in casts) == 11 * layers
    assert sum(row["format"] == "f8E5M2" for row in casts) == 7 * layers
    # No scale is measured in the step.
    assert all(isinstance(row["scale"], int) for row in casts)
    health = compiled.health()
    assert sorted(row["cast"] for row in health) == sorted(row["cast"] for row in casts)
    assert sum(row["saturated"] for row in health) == 0
    assert sum(row["flushed"] for row in health) < 0.01 * sum(row["elements"] for row in health)


def test_fp8_of_our_runtime_is_fp8_of_xla() -> None:
    step, state, batches = setting("f32")
    scales = scalify.measure((*state, batches[0]))
    compiled = scalify.jit(
        step, recipe="fp8", numerics=scalify.Numerics(scales=scales), donate_argnums=(0, 1)
    )
    rewritten = scalify.transform(
        step, recipe="fp8", numerics=scalify.Numerics(scales=scales), donate_argnums=(0, 1)
    )
    theirs = ours = jax.tree.map(np.asarray, state)
    for batch in batches[:5]:
        *theirs, want = rewritten(*theirs, batch)
        *ours, got = compiled(*ours, batch)
        assert abs(float(got) - float(want)) <= 1e-3 * float(want)


@pytest.mark.parametrize("recipe", ["fp8", "fp16"])
def test_the_step_keeps_its_bits_beside_the_function_that_rescales(recipe: str) -> None:
    """@step has the same bits with and without @rescale, as long as no scale moves."""
    step, state, batches = setting("odd")
    scales = scalify.measure((*state, batches[0]))
    # Scales that move keep state wide; packed state rounds what comes into the first step.
    static = scalify.jit(
        step,
        recipe,
        donate_argnums=(0, 1),
        numerics=scalify.Numerics(scales=scales, pack_state=False),
    )
    moving = scalify.jit(
        step,
        recipe,
        donate_argnums=(0, 1),
        numerics=scalify.Numerics(scales=scales, adaptive_scales=True),
    )
    ours, theirs = (jax.tree.map(np.array, state) for _ in range(2))
    for batch in batches[:4]:
        *theirs, want = static(*theirs, batch)
        *ours, got = moving(*ours, batch)
        # On counters of no step nothing moves, and the function runs all the same.
        executable = moving.executable()
        idle = np.zeros_like(executable.counters[: len(executable.cast_scales)])
        (scales_after,) = executable._runtime.run((executable.cast_scales, idle), "rescale")
        np.testing.assert_array_equal(np.asarray(scales_after), executable.cast_scales)
        executable.cast_scales = np.asarray(scales_after)
        assert float(got) == float(want)
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(other))
    assert set(executable.manifest["functions"]) == {"step", "rescale"}
    assert set(static.executable().manifest["functions"]) == {"step"}
