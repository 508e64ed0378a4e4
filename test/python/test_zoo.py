"""Programs of test/zoo: all go through the compiler strictly; some are put to the bars here.

The whole sweep, deeper and after training, is `make zoo`.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest

ZOO = pathlib.Path(__file__).resolve().parents[1] / "zoo"
sys.path.insert(0, str(ZOO))

from trace import trace  # noqa: E402

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
# Cheap to compile, and of different kinds.
BARS = {"moe_sort": 2, "fp8_dequantized": 3, "llama_scan": 4}


@pytest.fixture(autouse=True)
def _forget_compiled() -> Iterator[None]:
    yield
    jax.clear_caches()


@pytest.mark.parametrize("name", STRICT)
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


def test_trace_sees_values_in_loops() -> None:
    """The unrolled and the scanned LLaMA compute the same: so does each op within the loop."""
    rms = {}
    for name in ("llama_f32", "llama_scan"):
        program = make(name, 1)
        points = trace(program, program.params, 0)
        rms[name] = sorted(p.rms for p in points if p.op == "dot_general")
    assert len(rms["llama_scan"]) >= 10
    for value in rms["llama_scan"]:
        # XLA sums in another order in the loop.
        assert min(abs(value / other - 1) for other in rms["llama_f32"]) < 1e-3
