"""Steps with control flow that no rule was tuned for, under strict FP8 and FP16, against JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from control_programs import PROGRAMS

import scalify

# The bars of the project: log2(rms / scale) of what a cast reads.
BARS = {"forward": (-4.0, 5.0), "backward": (-8.0, 8.0)}


def cosine(left: Any, right: Any) -> float:
    a, b = (np.ravel(np.asarray(leaf, np.float64)) for leaf in (left, right))
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_is_the_step_of_f32(name: str) -> None:
    """A rounding to FP8 is 2^-5 of a value and to F16 2^-12; sums average them, layers add them."""
    step, args = PROGRAMS[name]
    scales = scalify.measure(args)
    recipes = {
        recipe: scalify.transform(
            step, recipe=recipe, strict=True, numerics=scalify.Numerics(scales=scales)
        )
        for recipe in ("fp8", "fp16")
    }

    # One program, since compiling is most of the time.
    def run(*args: Any) -> Any:
        return step(*args), {recipe: fn(*args) for recipe, fn in recipes.items()}

    fast = {"xla_backend_optimization_level": 0}
    (loss, grads), results = jax.jit(run, compiler_options=fast)(*args)
    for recipe, tolerance, bar in (("fp8", 2.0**-5, 0.98), ("fp16", 2.0**-9, 0.9999)):
        got_loss, got = results[recipe]
        assert abs(got_loss - loss) <= tolerance * abs(loss)
        for left, right in zip(jax.tree.leaves(got), jax.tree.leaves(grads), strict=True):
            assert cosine(left, right) >= bar, recipe
            assert abs(np.linalg.norm(left) / np.linalg.norm(right) - 1) <= 2 * tolerance


@pytest.mark.parametrize("name", PROGRAMS)
def test_operands_of_its_dots_are_near_their_scales(name: str) -> None:
    step, args = PROGRAMS[name]
    rows = scalify.probe(step)(*args)
    assert len(rows) >= 3
    for row in rows:
        scale = np.asarray(row["scale"], np.float64)
        # A scale that moves has an entry for each iteration.
        value = np.asarray(row["value"], np.float64).reshape(scale.size, -1)
        rms = np.sqrt(np.mean(value * value, axis=1))
        drifts = np.log2(rms[rms > 0] / scale.reshape(-1)[rms > 0])
        least, most = BARS[row["phase"]]
        assert np.all((least <= drifts) & (drifts <= most)), (row["name"], row["loc"], drifts)
