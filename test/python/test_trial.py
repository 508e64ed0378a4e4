"""Trials of a step: they count and move scales as a step does, and leave arguments alone."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalify
from scalify import _first_batch
from scalify._kept import CARRIED_SCALES

# The scale of an array of zeros.
ZERO = -127


def loss(p: Any, x: Any) -> Any:
    h = jax.nn.gelu(jax.nn.gelu(x @ p["a"]) @ p["b"])
    return jnp.mean(jnp.square(h @ p["c"] - jnp.sin(x)))


def clipped(p: Any, state: Any, x: Any) -> Any:
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    value, gradient = jax.value_and_grad(loss)(p, x)
    updates, state = optimizer.update(gradient, state, p)
    return optax.apply_updates(p, updates), state, value


def accumulated(p: Any, state: Any, x: Any) -> Any:
    """Micro-batches in a loop that stays one, and state that the forward overwrites."""

    def add(carry: Any, part: Any) -> Any:
        total, mean = carry
        value, gradient = jax.value_and_grad(loss)(p, part)
        return (jax.tree.map(jnp.add, total, gradient), 0.9 * mean + 0.1 * value), value

    zeros = jax.tree.map(jnp.zeros_like, p)
    (gradient, mean), values = jax.lax.scan(add, (zeros, state["mean"]), x.reshape(64, 8, -1))
    return jax.tree.map(lambda w, g: w - 1e-3 * g, p, gradient), {"mean": mean}, values.mean()


def several(p: Any, state: Any, x: Any) -> Any:
    """Steps in a loop: a later one casts what an earlier one wrote."""

    def one(p: Any, part: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(p, part)
        return jax.tree.map(lambda w, g: w - 0.1 * g, p, gradient), value

    p, values = jax.lax.scan(one, p, x.reshape(4, 128, -1))
    return p, state, values.mean()


def adam() -> Any:
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)).init(weights())


def weights(width: int = 64) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    # Far from what a prior says of zeros, so that scales move.
    return {name: 8 * rng.normal(0, 1, (width, width)).astype(np.float32) for name in "abc"}


def batch(width: int = 64) -> np.ndarray:
    return np.random.default_rng(1).normal(0, 1, (512, width)).astype(np.float32)


STEPS = {
    "clipped": (clipped, adam),
    "accumulated": (accumulated, lambda: {"mean": np.float32(0.0)}),
    "several": (several, lambda: {"count": np.float32(0.0)}),
}


@pytest.mark.parametrize("recipe", ["fp8", "fp8-state", "fp16"])
@pytest.mark.parametrize("name", sorted(STEPS))
def test_a_trial_counts_and_moves_as_a_step(name: str, recipe: str) -> None:
    fn, make = STEPS[name]
    args = (weights(), make(), batch())
    scales = [0 if leaf.dtype == np.float32 else None for leaf in jax.tree.leaves(args)]
    numerics = scalify.Numerics(scales=scales, calibration=None)
    trial, full = (
        scalify.jit(fn, recipe, donate_argnums=(0, 1), numerics=numerics).executable(*args)
        for _ in range(2)
    )
    leaves = [np.array(leaf) for leaf in jax.tree.leaves(args)]
    given = [leaf.copy() for leaf in leaves]
    assert CARRIED_SCALES in trial.kept
    trial.move_scales(leaves)
    for leaf, before in zip(leaves, given, strict=True):
        np.testing.assert_array_equal(leaf, before)
    full.run(leaves)
    np.testing.assert_array_equal(trial.kept[CARRIED_SCALES], full.kept[CARRIED_SCALES])
    np.testing.assert_array_equal(trial.counters, full.counters)
    assert trial.counters.any()
    # A step after the trial is a step without one, but for the scales.
    trial.kept = {CARRIED_SCALES: np.zeros_like(trial.kept[CARRIED_SCALES])}
    again = scalify.jit(fn, recipe, donate_argnums=(0, 1), numerics=numerics).executable(*args)
    for ours, theirs in zip(trial.run(leaves), again.run(leaves), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def peak() -> int:
    """Returns the largest resident bytes since the last `reset`."""
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+)", status)[0])


def reset() -> None:
    pathlib.Path("/proc/self/clear_refs").write_text("5")


@pytest.mark.parametrize("convert", [np.array, jnp.array])
def test_calibration_copies_no_weights_and_no_moments(
    convert: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    width = 2048
    optimizer = optax.adamw(1e-3)

    def step(p: Any, state: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(p, x)
        updates, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, updates), state, value

    params = jax.tree.map(convert, weights(width))
    state = jax.tree.map(convert, optimizer.init(params))
    held = sum(leaf.nbytes for leaf in jax.tree.leaves((params, state)))
    grown: list[int] = []
    calibrate = _first_batch.calibrate_on

    def measured(entry: Any, leaves: Any) -> int:
        arena = entry.executable.memory["arena"]
        reset()
        before = peak()
        steps = calibrate(entry, leaves)
        grown.append(peak() - before - arena)
        assert steps
        return steps

    monkeypatch.setattr("scalify._jit.calibrate_on", measured)
    x = convert(batch(width)[:8])
    # JAX copies in the background, which would count as the trial's.
    jax.block_until_ready((params, state, x))
    # Of zeros a prior says how large they become.
    scales = [None if leaf.dtype == np.int32 else ZERO for leaf in jax.tree.leaves((params, state))]
    numerics = scalify.Numerics(scales=[*scales, 0])
    run = scalify.jit(step, donate_argnums=(0, 1), numerics=numerics)
    run(params, state, x)
    assert held > 9 * 4 * width * width
    # The arena is the step's own. A copy of one matrix has a ninth of these bytes.
    assert len(grown) == 1
    assert grown[0] < held / 9
