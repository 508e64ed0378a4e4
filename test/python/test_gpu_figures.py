"""The conclusions of the GPU checks, on invented measurements computed by hand."""

from __future__ import annotations

import json
import lzma
import pathlib
import sys
from typing import Any

import gpu_scripts
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from gpu_scripts import blocks, check, common, derive, judge, model, timed, weights, xla

Entry = dict[str, Any]


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks import what they measure with, and a process that is started imports all anew."""
    monkeypatch.setattr(sys, "path", [*gpu_scripts.FOLDERS, *sys.path])


def entry(kind: str, figures: Entry, status: str = "passed", **members: Any) -> Entry:
    return {"check": {"kind": kind, **members}, "status": status, "figures": figures}


def steps(times: dict[tuple[str, int], float], **more: Any) -> dict[str, Entry]:
    """Steps of one shape by (side, layers); sides are ours by a recipe or jax.jit by a variant."""
    found = {}
    for (side, layers), ms in times.items():
        label, name = side.split(" ", 1)
        kind, member = ("step", "recipe") if label == "ours" else ("xla", "variant")
        members = {"shape": "8B-shaped", "layers": layers, member: name}
        figures = {"ms": ms, "first_loss": 12.0, **more}
        found[f"{side} {layers}"] = entry(kind, figures, **members)
    return found


TIMES = {
    ("ours fp8", 2): 20.0,
    ("ours fp8", 6): 60.0,
    ("ours none", 2): 31.0,
    ("ours none", 6): 91.0,
    ("jax.jit bf16", 2): 30.0,
    ("jax.jit bf16", 6): 90.0,
    ("jax.jit bf16, latency hiding", 2): 24.0,
    ("jax.jit bf16, latency hiding", 6): 88.0,
    ("jax.jit fp8", 6): 75.0,
}
ASKED = {"shape": "8B-shaped", "depths": [2, 6]}


def test_a_layer_is_the_difference_of_six_and_two() -> None:
    found = derive.DERIVED["layers"](ASKED, steps(TIMES))
    assert found["ms_a_layer"] == {
        "ours fp8": 10.0,
        "ours none": 15.0,
        "jax.jit bf16": 15.0,
        "jax.jit bf16, latency hiding": 16.0,
    }
    assert found["best_bf16_of_jax"] == "jax.jit bf16"
    assert found["speed_by_it"] == {"ours fp8": 1.5, "ours none": 1.0}


def test_sides_are_held_against_the_best_bf16_and_never_against_fp8() -> None:
    found = derive.DERIVED["sides"](ASKED, steps(TIMES))["6 layers"]
    assert found["best_bf16_of_jax"] == "jax.jit bf16, latency hiding"
    assert found["best_fp8_of_jax"] == "jax.jit fp8"
    assert found["speed_by_it"]["ours fp8"] == 88 / 60
    assert "memory_taken" not in found or not found["memory_taken"]


def test_failed_steps_and_other_shapes_do_not_count() -> None:
    found = steps(TIMES)
    found["jax.jit bf16 6"]["status"] = "failed"
    found["ours fp8 6"]["check"]["shape"] = "1.3B"
    slopes = derive.DERIVED["layers"](ASKED, found)["ms_a_layer"]
    assert slopes.keys() == {"ours none", "jax.jit bf16, latency hiding"}
    assert derive.DERIVED["layers"](ASKED, {}) == {}


def profiles() -> dict[str, Entry]:
    wide = {"kernels": 4.0, "casts": 1.0, "optimizer": 3.0, "wide products": 30.0}
    narrow = {"kernels": 5.0, "casts": 2.0, "optimizer": 2.0, "fp8 products": 20.0}
    found = steps(TIMES)
    found["ours none 2"]["figures"]["ms_by_class"] = wide
    found["ours fp8 2"]["figures"]["ms_by_class"] = narrow
    found["ours none 6"]["figures"]["ms_by_class"] = {**wide, "kernels": 10.0}
    deep = {**narrow, "kernels": 12.0, "casts": 4.0, "fp8 products": 60.0}
    found["ours fp8 6"]["figures"]["ms_by_class"] = deep
    return found


def test_casts_are_those_alone_and_what_other_kernels_take_more() -> None:
    found = derive.DERIVED["casts"](ASKED, profiles())
    # 2 ms of kernels that only cast, and 5 - 4 ms more of the others; those of BF16 do not count.
    assert found["2 layers"]["ms"] == 3.0 and found["2 layers"]["of_fp8_products"] == 0.15
    assert found["6 layers"]["ms"] == 6.0 and found["6 layers"]["of_fp8_products"] == 0.1
    # (6 - 3) / 4 by (60 - 20) / 4.
    assert found["a layer"]["ms"] == 0.75 and found["a layer"]["of_fp8_products"] == 0.075
    assert found["2 layers"]["ms_more_of_the_optimizer"] == -1.0


def command(op: str, name: str = "", loc: str = "a.py:1 (jit(f)/mul)", **more: Any) -> Entry:
    return {"op": op, "name": name, "loc": loc, "type": "", "nanoseconds": 3e6, **more}


def test_commands_fall_into_classes() -> None:
    entries = [
        command("gemm", type="f8E5M2"),
        command("gemm", type="bf16", nanoseconds=6e6),
        command("kernel", "transpose_convert_quantize"),
        command("kernel", "transpose"),
        command("kernel", "transpose_convert_quantize_multiply"),
        command("kernel", "convert_add", loc="b.py:2 (jit(step)/optimizer/add)"),
        command("attention"),
    ]
    assert timed.classes(entries, 3) == {
        "fp8 products": 1.0,
        "wide products": 2.0,
        "casts": 2.0,
        "kernels": 1.0,
        "optimizer": 1.0,
        "attention": 1.0,
    }


def products() -> dict[str, Entry]:
    found = {}
    for name, best in (("f8E4M3FN", 1.0), ("bf16", 0.9)):
        figures = {
            "first": {"ms": 1.25},
            "best of 8": {"ms": best},
            "bare": {"first": 1.0, "best of 8": 0.9},
        }
        members = {"type": name, "shape": [4096, 4096, 4096], "bare": True}
        found[f"gemm {name}"] = entry("gemm", figures, **members)
    alone = {"first": {"ms": 1.0}, "best of 8": {"ms": 1.0}}
    members = {"type": "f8E4M3FN by rows", "shape": [64, 64, 64], "bare": False}
    found["gemm by rows"] = entry("gemm", alone, **members)
    return found


def test_products_beside_bare_ones() -> None:
    assert derive.DERIVED["gemms"]({}, products()) == {
        "f8E4M3FN 4096 4096 4096": {"first": 0.8, "best of 8": 0.9},
        "bf16 4096 4096 4096": {"first": 0.8, "best of 8": 1.0},
    }


def test_tokens_of_the_largest_micro_batches() -> None:
    figures = {"ms": 100.0, "memory_planned": 70 << 30, "memory_taken": 71 << 30}
    model_of = {"seq": 2048}
    members = {"shape": "capped", "layers": 4, "batch": 5, "model": model_of, "recipe": "fp8"}
    found = {
        "capped": entry("step", figures, cap=72 << 30, **members),
        "step": entry("step", figures, **{**members, "recipe": "none"}),
    }
    rows = derive.DERIVED["micro_batches"]({"cap": 72 << 30}, found)
    assert rows.keys() == {"fp8"}
    assert rows["fp8"]["tokens"] == 10240 and rows["fp8"]["tokens_a_second"] == 102400.0
    assert rows["fp8"]["memory_beyond_the_plan"] == 1 << 30


def test_layers_of_all_sides_and_why_one_is_absent() -> None:
    absent = entry("transformer_engine", {}, "skipped", recipe="fp8 delayed")
    found = {
        "a": entry("block", {"ms": 4.0}, recipe="fp8"),
        "b": entry("xla_block", {"ms": 6.0}, variant="bf16"),
        "c": {**absent, "name": "c", "reason": "TransformerEngine is not on this machine"},
    }
    assert derive.DERIVED["blocks"]({}, found) == {
        "ms": {"ours fp8": 4.0, "jax.jit bf16": 6.0},
        "absent": {"c": "TransformerEngine is not on this machine"},
    }


def bars(found: dict[str, Entry]) -> dict[str, tuple[float, bool]]:
    rows = derive.DERIVED["bars"]({}, found)
    return {name: (row["value"], row["met"]) for name, row in rows.items()}


def test_bars_that_are_missed_and_met() -> None:
    found = profiles() | products()
    assert bars(found) == {
        "slowest product by bare cuBLASLt": (0.9, False),
        "casts and scales of a layer by its FP8 products": (0.075, False),
        "step of 6 layers: fp8 by the best BF16 of jax.jit": (88 / 60, True),
        "step of 6 layers: our BF16 by the best BF16 of jax.jit": (88 / 91, False),
        "a layer: fp8 by the best BF16 of jax.jit": (1.5, True),
        "a layer: our BF16 by the best BF16 of jax.jit": (1.0, True),
        "first loss of 6 layers, ours beside jax.jit, relative": (0.0, True),
    }
    found["ours fp8 6"]["figures"]["ms"] = 66.0
    assert bars(found)["step of 6 layers: fp8 by the best BF16 of jax.jit"] == (88 / 66, False)


def test_memory_is_held_against_what_jax_gave_out() -> None:
    found = steps(TIMES)
    for side, figures in (
        ("ours fp8", {"memory_taken": 30}),
        ("ours none", {"memory_taken": 50}),
        ("jax.jit bf16", {"memory_taken": 90, "memory_peak_by_jax": 40}),
        ("jax.jit fp8", {"memory_peak_by_jax": 20}),
    ):
        found[f"{side} 6"]["figures"] |= figures
    title = "memory of 6 layers, ours {}, by the least of jax.jit in BF16"
    rows = bars(found)
    assert rows[title.format("fp8")] == (0.75, True)
    assert rows[title.format("none")] == (1.25, False)


def test_a_first_loss_that_is_no_rounding_apart() -> None:
    found = steps(TIMES)
    found["ours none 6"]["figures"]["first_loss"] = 12.0 * (1 + 2.0**-7)
    name = "first loss of 6 layers, ours beside jax.jit, relative"
    assert bars(found)[name] == (2.0**-7, False)


@pytest.mark.parametrize(("fp8", "wrong"), [(1.015, False), (1.0161, True), (np.nan, True)])
def test_the_gap_of_validation_losses(fp8: float, wrong: bool) -> None:
    found = {
        "training by none": entry("training", {"validation": 1.0}),
        "training by fp8": entry("training", {"validation": fp8}),
    }
    # 1.015 is 1.5 % but for the rounding of a binary fraction.
    assert derive.DERIVED["gap"]({"bar": 1.5 + 1e-9}, found)["wrong"] is wrong


def test_bits() -> None:
    want = np.array([1.0, np.nan, 0.0], np.float32)
    other = np.array([0x3F800000, 0xFFC00001, 0], np.uint32).view(np.float32)
    assert judge.bits(other, want)[0]
    ok, figures = judge.bits(np.array([1.0, np.nan, -0.0], np.float32), want)
    assert not ok and figures["wrong"] == 1 and figures["first_wrong"]["got"] == "0x80000000"
    assert not judge.bits(np.array([np.nan, np.nan, 0.0], np.float32), want)[0]


def test_near() -> None:
    want = np.ones(100, np.float32)
    # The root mean square is one, so 2e-5 may be off.
    assert judge.near(want + np.float32(1.9e-5), want)[0]
    assert not judge.near(want + np.float32(2.2e-5), want)[0]
    narrow = want.astype(ml_dtypes.bfloat16)
    for wrong, ok in ((1, True), (2, False)):
        got = narrow.copy()
        got[:wrong] = 1 + 2.0**-7  # the next one
        assert judge.near(got, narrow)[0] is ok
    got = narrow.copy()
    got[0] = 1 + 2.0**-6
    assert not judge.near(got, narrow)[0]
    assert not judge.near(np.array([np.nan], np.float32), want[:1])[0]
    assert not judge.near(np.array([1], np.int32), np.array([2], np.int32))[0]


def test_product() -> None:
    want, magnitude = np.full(4, 2.0), np.full(4, 8.0)
    # 8 * 2^-9 of the sum and half a unit of 2 in F32.
    allowed = 2.0**-6 + 2.0**-23
    for error, ok in ((allowed, True), (1.01 * allowed, False), (np.nan, False)):
        got = (want + error).astype(np.float32)
        assert judge.product(got, want, magnitude, 2.0**-9)[0] is ok


def test_stored_weights_are_the_values_over_their_scale() -> None:
    name = "params['layers'][0]['wq']"
    wide = weights.fill(gpu_scripts.Tensor(name, "f32", (64, 64), 4 * 4096, -1))
    tensor = gpu_scripts.Tensor(name, "f16", (64, 64), 2 * 4096, -1)
    narrow = weights.fill(tensor, {"dtype": "f16", "exponent": -5, "root": False})
    # F16 rounds to 11 bits; what lies below its least normal number, 2^-14, by 2^-25 at most.
    back = narrow.astype(np.float32) * 2.0**-5
    np.testing.assert_allclose(back, wide, rtol=2.0**-11, atol=2.0**-30)
    assert 0.015 < float(np.std(wide)) < 0.025
    moment = gpu_scripts.Tensor("opt_state[1][0].mu['wq']", "f8E4M3FN", (8,), 8, -1)
    assert not weights.fill(moment, {"dtype": "f8E4M3FN", "exponent": -9}).any()


def test_an_artefact_travels_small_and_tells_its_peak(tmp_path: pathlib.Path) -> None:
    folder = gpu_scripts.Folder(tmp_path)
    text = jax.jit(lambda x: jnp.tanh(x) + x).lower(jnp.zeros((256, 1024))).as_text()
    file = folder.artefact("a name, in words", text)
    content = lzma.decompress((tmp_path / file).read_bytes())
    assert len(content) > 2 * (tmp_path / file).stat().st_size
    # The argument and the result.
    assert folder.peak(file) == 2 * 4 * 256 * 1024


def test_arrays_travel_once_and_come_back_all(tmp_path: pathlib.Path) -> None:
    x = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    other = x.astype(ml_dtypes.bfloat16)
    arrays = {"arg0": x, "result0": x.copy(), "result1": other, "result2": x.reshape(64, 64)}
    file = gpu_scripts.Folder(tmp_path).arrays("a name", arrays)
    found = common.Settings(tmp_path, tmp_path, None, "null").arrays(file)
    assert found.keys() == arrays.keys()
    for key, array in arrays.items():
        assert found[key].shape == array.shape and found[key].tobytes() == array.tobytes()
    # Random numbers do not compress by much: two of F32, since another shape is another array.
    assert (tmp_path / file).stat().st_size < 2 * x.nbytes + other.nbytes + 2000


def test_without_transformer_engine_the_report_says_so(tmp_path: pathlib.Path) -> None:
    settings = common.Settings(tmp_path, tmp_path, None, "cuda")
    asked = {"kind": "transformer_engine", "model": {}, "batch": 1, "recipe": "bf16"}
    answer = check.attempt(asked, settings)
    assert answer["status"] == "skipped"
    assert "TransformerEngine is not on this machine" in answer["reason"]


def test_a_check_that_runs_out_of_time_is_left_for_the_next_call(tmp_path: pathlib.Path) -> None:
    worker = check.Worker(common.Settings(tmp_path, tmp_path, None, "null"))
    asked = {"kind": "skip", "reason": "", "budget": 60.0}
    try:
        assert worker.run(asked, 0.0) is None
        assert worker.run(asked, 60.0)["status"] == "skipped"
    finally:
        worker.stop()


def gpu(driver: str, name: str = "H200") -> Entry:
    return {"gpu": {"name": name, "driver_version": driver}}


@pytest.mark.parametrize(
    ("machine", "fits"),
    [(gpu("580.1"), True), (gpu("580.2"), True), (gpu("580.1", "H100"), False)],
)
def test_parts_come_from_gpus_that_are_equal(machine: Entry, fits: bool) -> None:
    report = {"simulated": False, "device": "cuda", "prepared": {}, "machine": gpu("580.1")}
    assert check._fits(report, {**report, "machine": machine}) is fits


CFG = gpu_scripts.ModelConfig(layers=1, dim=64, ffn=128, seq=32, dtype="bfloat16")


def relative(got: jax.Array, want: jax.Array) -> float:
    a, b = (np.asarray(x, np.float64) for x in (got, want))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


@pytest.mark.parametrize("given", [False, True])
def test_products_in_fp8_have_the_values_and_gradients_of_plain_ones(given: bool) -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (2, 16, 64), jnp.bfloat16)
    w = 0.02 * jax.random.normal(keys[1], (64, 32), jnp.float32)
    grad = 1e-5 * jax.random.normal(keys[2], (2, 16, 32), jnp.bfloat16)
    scales = jnp.array(blocks.SCALES, jnp.float32) if given else None

    @jax.jit
    def narrow(scales: Any, x: jax.Array, w: jax.Array, grad: jax.Array) -> Any:
        out, pull = jax.vjp(blocks.fp8_dot(scales), x, w)
        return out, *pull(grad)

    out, pull = jax.vjp(blocks.plain_dot, x, w)
    # E4M3 keeps 4 bits of each factor, 2^-4 at most and a third of that in the mean; E5M2 of the
    # gradient 3.
    bounds = (2.0**-4, 2.0**-3, 2.0**-3)
    for got, want, bound in zip(
        narrow(scales, x, w, grad), (out, *pull(grad)), bounds, strict=True
    ):
        assert got.dtype == want.dtype and relative(got, want) < bound


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets XLA's side run here, with attention as it is written: cuDNN needs a GPU."""
    monkeypatch.setattr(xla, "_start", lambda variant: None)
    monkeypatch.setenv("XLA_FLAGS", "")
    own = {name: xla.Variant("", "own", v.products) for name, v in xla.VARIANTS.items()}
    monkeypatch.setattr(xla, "VARIANTS", own)


@pytest.mark.usefixtures("on_cpu")
def test_steps_by_jax_have_one_first_loss() -> None:
    sizes = vars(CFG)
    found = {name: xla.measure(sizes, 2, name, steps=1) for name in ("bf16", "fp8")}
    json.dumps(found)
    # Weights this small say nothing of the next byte.
    for figures in found.values():
        assert abs(figures["first_loss"] - np.log(256)) < 0.05
        assert figures["ms"] > 0 and figures["memory_planned"] > 0


@pytest.mark.usefixtures("on_cpu")
def test_one_layer_by_jax() -> None:
    figures = xla.measure_block(vars(CFG), 2, "fp8", steps=1)
    assert figures["ms"] > 0 and len(figures["ms_all"]) == 1


def test_parts_of_the_model_are_put_back() -> None:
    kept = model.attention, model.swiglu
    with blocks.parts(model, blocks.our_attention):
        assert model.attention is not kept[0] and model.swiglu is not kept[1]
    assert (model.attention, model.swiglu) == kept


def test_a_layer_with_other_parts_is_the_example_s() -> None:
    layer, x = blocks.shapes(model, CFG, 2)
    keys = iter(jax.random.split(jax.random.key(1), 12))

    def filled(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        return 0.1 * jax.random.normal(next(keys), leaf.shape).astype(leaf.dtype)

    arguments = (jax.tree.map(filled, layer), filled(x), filled(x))
    want = jax.jit(blocks.block(model, CFG))(*arguments)
    with blocks.parts(model, blocks.our_attention):
        got = jax.jit(blocks.block(model, CFG))(*arguments)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        # A few roundings of BF16 (2^-9 each, relative) in another place.
        assert relative(a, b) < 2.0**-5
