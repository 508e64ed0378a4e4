"""Programs of test/zoo: each kind compiles strictly; some are compared with the bars.

The whole sweep, of every program, deeper and after training, is `make zoo`.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Iterator

import pytest

ZOO = pathlib.Path(__file__).resolve().parents[1] / "zoo"
sys.path.insert(0, str(ZOO))


import catalogue  # noqa: F401, E402  (first: it sets the number of devices)
import jax  # noqa: E402
import numpy as np  # noqa: E402
from bars import judge  # noqa: E402
from calibrated import Outcome, judge_calibrated, section  # noqa: E402
from casts import Probe  # noqa: E402
from program import REGISTRY, make  # noqa: E402
from strict import lower, propagate  # noqa: E402

import scalify  # noqa: E402

RECIPES = ("fp8", "fp16")
# Not run here, for time: the program here that stands for it. `make zoo` runs all.
STANDS_FOR = {
    "accumulate_scan": "accumulate_fori",
    "flax_cnn_momentum": "flax_cnn_agc",
    "flax_cnn_rmsprop": "flax_cnn_agc",
    "flax_transformer_adam": "flax_transformer_adafactor",
    "flax_transformer_lion": "flax_transformer_adafactor",
    "fp8_dequantized": "fp8_direct",
    "gpt2_raw_key": "gpt2_threefry",
    "llama_example_12": "llama_bf16",
    "llama_example_32": "llama_bf16",
    "llama_example_80": "llama_bf16",
    "llama_f32": "llama_bf16",
    "llama_scan": "llama_scan_remat",
    "llama_wide_1024": "llama_bf16",
    "loss_scale_select": "loss_scale_cond",
    "sharded_llama_data": "sharded_llama_full",
    "vit_lamb_f32": "vit_adamw_bf16",
    "wgan_gp_critic": "energy_score_matching",
}
STRICT = [name for name in REGISTRY if name not in STANDS_FOR]
# Cheap to compile, and of different kinds.
BARS = {"fp8_dequantized": 3, "llama_f32": 2}


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
    (result,) = judge(REGISTRY[name], ["fp8"], steps=0, depth=BARS[name])
    assert not result.faults()


def test_probe_agrees_with_scalify_probe() -> None:
    """Two ways to read the casts: results of main by the compiler, ops found in the text."""
    program = make("moe_einsum", 1)
    args = (program.params, program.batch(0))
    scales = scalify.measure(args)
    ours = Probe(program.grads, "fp8", args, scales)(*args)
    theirs = scalify.probe(program.grads, recipe="fp8", scales=scales)(*args)
    theirs = [row for row in theirs if row["format"] != "bfloat16"]
    assert [row["name"] for row in ours] == [row["name"] for row in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["scale"] == other["scale"]
        np.testing.assert_allclose(mine["value"], other["value"], rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("name", ["moe_einsum", "moe_sort"])
def test_dots_of_routers_stay_wide(name: str) -> None:
    """Of each layer the forward dot and its two gradients, and none of the experts."""
    program = make(name, 2)
    args = (program.params, program.batch(0))
    for recipe, count in (("fp8", 2 * 3), ('#scalify.recipe<"fp8", router = true>', 0)):
        dots = scalify.transform(program.grads, recipe=recipe).report(*args).dots()
        assert sum(row["reason"].startswith("stays wide: router") for row in dots) == count


def test_a_calibrated_program_without_priors_is_put_to_the_bars() -> None:
    first, second = judge_calibrated(make("fp8_dequantized", 1), ["none"], (0, 1))
    assert (first.steps, second.steps) == (0, 1)
    assert first.casts > 0
    # Casts that carry their scales round as those that measure them do, but for values between
    # two powers of two: both are far above the bar of one layer.
    assert min(first.whole, first.alike, second.whole, second.alike) > 0.98
    assert not first.faults_alike


def test_the_section_names_what_misses_a_bar() -> None:
    held = Outcome(0, 0.99, 0.991, 0.99, 0.97, 8, 2, 0, [], [])
    missed = dataclasses.replace(
        held, whole=0.985, alike=0.986, faults=["cosine 0.9850, amax 0.991"]
    )
    kept = [
        {"name": name, "date": "2026-01-02", "depth": 2, "rows": [dataclasses.asdict(row)]}
        for name, row in (("one", held), ("two", missed))
    ]
    text = section(kept)
    assert "1 of these hold all bars, 50 %" in text
    assert "2 hold them, 100 %" in text
    assert "| two | 0 | 0.9850 / 0.9700 | 0.9910 | 0.9860 | cosine 0.9850, amax 0.991 |" in text
    assert "| one |" not in text
    assert section([]) == ""
