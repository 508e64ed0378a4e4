"""Programs of test/zoo: all go through the compiler strictly; some are put to the bars here.

The whole sweep, deeper and after training, is `make zoo`.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

ZOO = pathlib.Path(__file__).resolve().parents[1] / "zoo"
sys.path.insert(0, str(ZOO))


import catalogue  # noqa: F401, E402  (first: it sets the number of devices)
import jax  # noqa: E402
import numpy as np  # noqa: E402
from bars import judge  # noqa: E402
from casts import Probe  # noqa: E402
from program import REGISTRY, make  # noqa: E402
from strict import lower, propagate  # noqa: E402

import scalify  # noqa: E402

RECIPES = [name for name in ("fp8", "fp16") if name in scalify.recipes()]
# The others are a program of this list at another size, or with another optimizer.
STRICT = [
    name
    for name in REGISTRY
    if not name.startswith("llama_example") and name not in ("llama_wide_1024", "gpt2_raw_key")
]
# Scales stop before the bodies of loops, branches and manual computations in a build without
# their propagation.
BODIES = ("scan", "accumulate", "cond", "lstm", "gru", "sharded_map")
# Cheap to compile, and of different kinds.
BARS = {"fp8_dequantized": 3, "llama_f32": 2}


@pytest.fixture(autouse=True)
def _forget_compiled() -> Iterator[None]:
    yield
    jax.clear_caches()


def _strict_case(name: str) -> Any:
    marks = (
        [pytest.mark.xfail(reason="bodies", strict=False)]
        if any(part in name for part in BODIES)
        else []
    )
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", map(_strict_case, STRICT))
def test_step_goes_through_strictly(name: str) -> None:
    """Every op has a rule, no dot falls back, and jaxlib parses what comes out."""
    program = make(name, 1)
    text = lower(program)
    for recipe in RECIPES:
        outcome = propagate(program, recipe, text)
        assert not outcome.faults
        assert outcome.text


@pytest.mark.parametrize("name", BARS)
def test_bars_hold_at_initial_weights(name: str) -> None:
    result = judge(REGISTRY[name], "fp8", steps=0, depth=BARS[name])
    assert not result.faults()


def test_probe_agrees_with_scalify_probe() -> None:
    """Two ways to read the casts: results of main by the compiler, ops found in the text."""
    program = make("moe_einsum", 1)
    args = (program.params, program.batch(0))
    scales = scalify.measure(args)
    ours = Probe(program.grads, "fp8", args, scales)(*args)
    theirs = scalify.probe(program.grads, recipe="fp8", scales=scales)(*args)
    assert [row["name"] for row in ours] == [row["name"] for row in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["scale"] == other["scale"]
        np.testing.assert_allclose(mine["value"], other["value"], rtol=1e-5, atol=1e-30)
