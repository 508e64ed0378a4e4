"""Block scaling: data and scales against a numpy reference bit for bit, and gradients."""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from cpu_run import compile_text
from narrowing import saturated
from programs import cosine
from stablehlo_run import run_stablehlo

import scalify

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "llama"))

import data
import model
from config import ModelConfig

LARGEST = 448.0


def block_scales(x: np.ndarray, block: tuple[int, ...], margin: int = 0) -> np.ndarray:
    """Returns the smallest power of two for each block whose amax / scale fits E4M3.

    `margin` binades are left free above it, as far as 2^100. The amax is of finite values; 1 where
    that is zero. `x` [m, k] in F32, a size of 0 spans.
    """
    sizes = [size or extent for size, extent in zip(block, x.shape, strict=True)]
    counts = [-(-extent // size) for size, extent in zip(sizes, x.shape, strict=True)]
    scales = np.ones(counts, np.float32)
    for i, j in np.ndindex(*counts):
        part = x[i * sizes[0] : (i + 1) * sizes[0], j * sizes[1] : (j + 1) * sizes[1]]
        finite = np.abs(part[np.isfinite(part)])
        amax = float(finite.max()) if finite.size else 0.0
        if amax > 0:
            scales[i, j] = 2.0 ** np.clip(np.ceil(np.log2(amax / LARGEST)) + margin, -100, 100)
    return scales


def spread(scales: np.ndarray, shape: tuple[int, ...], block: tuple[int, ...]) -> np.ndarray:
    """Repeats the blocks' scales over a tensor of `shape`."""
    for axis, size in enumerate(block):
        scales = np.repeat(scales, size or shape[axis], axis=axis)
    return scales[tuple(slice(extent) for extent in shape)]


def reference(
    x: np.ndarray, block: tuple[int, ...], margin: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Returns data in E4M3 and scales."""
    scales = block_scales(x, block, margin)
    scaled = x / spread(scales, x.shape, block)
    return saturated(scaled, LARGEST).astype(ml_dtypes.float8_e4m3fn), scales


def casts(
    left: tuple[int, int], right: tuple[int, int], recipe: str = '"fp8-block"'
) -> tuple[str, list[str]]:
    """Returns the text of one cast dot that returns data and scales of both operands."""
    a, b = ("x".join(map(str, shape)) for shape in (left, right))
    out = f"{left[0]}x{right[1]}"
    text = f"""
      module attributes {{scalify.recipe = #scalify.recipe<{recipe}, head = true>}} {{
        func.func public @main(%x: tensor<{a}xf32> {{scalify.role = #scalify.role<batch>}},
                               %w: tensor<{b}xf32> {{scalify.role = #scalify.role<param>}})
            -> tensor<{out}xf32> {{
          %s = stablehlo.constant dense<1.0> : tensor<f32>
          %a = scalify.scale_hint %x, %s : tensor<{a}xf32>
          %b = scalify.scale_hint %w, %s : tensor<{b}xf32>
          %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
              : (tensor<{a}xf32>, tensor<{b}xf32>) -> tensor<{out}xf32>
          return %y : tensor<{out}xf32>
        }}
      }}"""
    passes = "scalify-decide-formats{remarks=0},scalify-quantize,scalify-validate-precision"
    cast = scalify.opt(text, passes)
    # Without a type one scale for the whole tensor.
    pattern = r"(%\w+) = scalify\.quantize (%\w+), (%\w+)(?: by (tensor<\S+>))? .*-> (tensor<\S+>)"
    found = sorted(re.findall(pattern, cast), key=lambda groups: groups[1])
    values = [value for data, _, scale, _, _ in found for value in (data, scale)]
    types = [type_ for _, _, _, scale, data in found for type_ in (data, scale or "tensor<f32>")]
    done = f"return {', '.join(values)} : {', '.join(types)}"
    cast = re.sub(r"(?<!\.)return %\w+ : .*", done, cast)
    cast = re.sub(
        r"-> tensor<\S+>( attributes.*)? \{", f"-> ({', '.join(types)}) {{", cast, count=1
    )
    return cast, types


def values(shape: tuple[int, int], seed: int) -> np.ndarray:
    """Returns normals over many binades, with blocks of zeros, NaN, infinities and outliers."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) * 2.0 ** rng.integers(-20, 20, shape)
    x[0, : shape[1] // 2] = 0
    x[1, 3], x[2, 5], x[3, 7], x[4, 0] = np.nan, np.inf, -np.inf, 1e30
    x[5] = LARGEST * 2.0**-7  # to the largest value, exactly
    x[6] = np.nextafter(np.float32(LARGEST), np.float32(np.inf))
    x[7] = np.inf
    x[8] = 0  # in whole, so that a scale of the row is of nothing
    return x.astype(np.float32)


def assert_same(actual: Any, expected: np.ndarray) -> None:
    """Compares words; a NaN may have any payload."""
    actual = np.asarray(actual)
    is_nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(actual.astype(np.float32)), is_nan)
    word = {1: np.uint8, 4: np.uint32}[expected.itemsize]
    np.testing.assert_array_equal(actual.view(word)[~is_nan], expected.view(word)[~is_nan])


CASES = {
    "whole blocks": ((16, 256), (256, 128), '"fp8-block"', (1, 128), (128, 128)),
    "parts of blocks": ((16, 300), (300, 70), '"fp8-block"', (1, 128), (128, 128)),
    "rows": (
        (16, 72),
        (72, 40),
        '"fp8-block", block = [1, 0], weight_block = [1, 0]',
        (1, 0),
        (0, 1),
    ),
    "blocks of 32": (
        (16, 80),
        (80, 64),
        '"fp8-block", block = [1, 32], weight_block = [32, 32]',
        (1, 32),
        (32, 32),
    ),
    "rows of 32": (
        (16, 80),
        (80, 40),
        '"fp8-block", block = [1, 32], weight_block = [1, 32]',
        (1, 32),
        (32, 1),
    ),
    "blocks, margin 2": (
        (16, 300),
        (300, 70),
        '"fp8-block", margin = 2',
        (1, 128),
        (128, 128),
    ),
    "rows, margin -1": (
        (16, 72),
        (72, 40),
        '"fp8-block", block = [1, 0], weight_block = [1, 0], margin = -1',
        (1, 0),
        (0, 1),
    ),
}
MARGINS = {"blocks, margin 2": 2, "rows, margin -1": -1}


@pytest.mark.parametrize("target", ["cpu", "stablehlo"])
@pytest.mark.parametrize("case", CASES)
def test_data_and_scales_bit_for_bit(case: str, target: str) -> None:
    left, right, recipe, block, weight_block = CASES[case]
    text, _ = casts(left, right, recipe)
    x, w = values(left, 0), values(right, 1)
    if target == "cpu":
        results = compile_text(text, compileFrom="precision").run([x, w])
    else:
        results = run_stablehlo(
            scalify.opt(text, "scalify-expand-blocks,scalify-to-stablehlo"), x, w
        )
    with np.errstate(invalid="ignore"):
        margin = MARGINS.get(case, 0)
        want = [*reference(x, block, margin), *reference(w, weight_block, margin)]
    for actual, expected in zip(results, want, strict=True):
        assert_same(actual, expected)


def tensor_reference(x: np.ndarray, margin: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns data in E4M3 and the one scale: 1 where the amax is zero or not finite."""
    amax = np.abs(x).max()
    scale = np.float32(1)
    if 0 < amax < np.inf:
        scale = block_scales(x, (0, 0), margin)[0, 0]
    return saturated(x / scale, LARGEST).astype(ml_dtypes.float8_e4m3fn), np.array(scale)


@pytest.mark.parametrize("margin", [0, 3, -2])
def test_one_scale_of_a_tensor_bit_for_bit(margin: int) -> None:
    left, right = (16, 72), (72, 40)
    text, types = casts(left, right, f'"fp8-current", margin = {margin}')
    assert types[1] == "tensor<f32>"
    executable = compile_text(text, compileFrom="precision")
    rng = np.random.default_rng(3)
    plain, w = (rng.normal(size=shape).astype(np.float32) for shape in (left, right))
    holed = {bad: plain.copy() for bad in (np.nan, np.inf, -np.inf)}
    for bad, x in holed.items():
        x[3, 5] = bad
    edges = [np.zeros_like(plain), np.full_like(plain, LARGEST), plain * np.float32(1e30)]
    for x in [plain, *holed.values(), *edges]:
        with np.errstate(invalid="ignore"):
            want = [*tensor_reference(x, margin), *tensor_reference(w, margin)]
        for actual, expected in zip(executable.run([x, w]), want, strict=True):
            assert_same(actual, expected)


def matmul(x: Any, w: Any) -> Any:
    """One linear layer."""
    return x @ w


ALL_DOTS = '#scalify.recipe<"fp8-block", head = true>'


def test_jit_and_transform_multiply_what_the_reference_casts() -> None:
    rng = np.random.default_rng(2)
    x = (rng.normal(size=(48, 320)) * 2.0 ** rng.integers(-8, 8, (48, 320))).astype(np.float32)
    w = rng.normal(size=(320, 136)).astype(np.float32)
    # Import finds that `x` is the batch.
    (a, s), (b, t) = reference(x, (1, 128)), reference(w, (128, 128))
    left = a.astype(np.float64) * spread(s, x.shape, (1, 128))
    right = b.astype(np.float64) * spread(t, w.shape, (128, 128))
    want = left @ right
    for run in (
        scalify.transform(matmul, ALL_DOTS, strict=True),
        scalify.jit(matmul, recipe=ALL_DOTS, strict=True),
    ):
        got = np.asarray(run(jnp.asarray(x), jnp.asarray(w)), np.float64)
        assert np.max(np.abs(got - want)) <= 1e-6 * np.max(np.abs(left) @ np.abs(right))


def test_an_outlier_spoils_its_own_block_alone() -> None:
    """Where one scale per tensor flushes all else, blocks beside the outlier keep theirs."""
    rng = np.random.default_rng(3)
    x = np.tanh(rng.normal(size=(8, 512)).astype(np.float32)) * 2.0**-10
    x[0, 0] = 2.0**20
    w = rng.normal(size=(512, 64)).astype(np.float32)

    def hidden(x: Any, w: Any) -> Any:
        return (2 * x) @ w

    exact = np.asarray(jax.jit(hidden)(x, w))[1:]
    found = {
        recipe: cosine(
            np.asarray(
                scalify.transform(hidden, f'#scalify.recipe<"{recipe}", head = true>')(x, w)
            )[1:],
            exact,
        )
        for recipe in ("fp8-current", "fp8-block")
    }
    assert found["fp8-block"] > 0.998
    assert found["fp8-current"] < 0.5


def gradients(recipe: str, cfg: ModelConfig) -> list[np.ndarray]:
    """The example's gradients after `transform`, or as they are for `none`."""

    def grads(params: Any, batch: Any) -> Any:
        return jax.grad(model.loss)(params, batch, cfg)

    params = model.init(jax.random.key(0), cfg)
    (batch,) = data.train_batches(data.load(), 1, 4, cfg.seq, seed=0)
    args = params, batch
    if recipe == "none":
        return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(grads)(*args))]
    run = scalify.transform(
        grads, recipe, numerics=scalify.Numerics(scales=scalify.measure(args)), strict=True
    )
    return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(run)(*args))]


def test_gradients_of_the_example() -> None:
    cfg = ModelConfig(layers=2, seq=64)
    exact, got = gradients("none", cfg), gradients("fp8-block", cfg)
    assert cosine(got, exact) >= 0.98
    assert min(cosine([a], [b]) for a, b in zip(got, exact, strict=True)) >= 0.95


def test_a_step_of_the_example_runs_on_the_cpu_target() -> None:
    """`jit` and `transform` of one value and gradient agree."""
    cfg = ModelConfig(layers=2, seq=32)

    def grads(params: Any, batch: Any) -> Any:
        return jax.value_and_grad(model.loss)(params, batch, cfg)

    params = model.init(jax.random.key(0), cfg)
    (batch,) = data.train_batches(data.load(), 1, 2, cfg.seq, seed=0)
    scales = scalify.measure((params, batch))
    # Formats of `transform` also hold for weights that have grown: here both cast all.
    recipe = scalify.Recipe.preset("fp8-block").replace(sensitive=True)
    ours = scalify.jit(grads, recipe=recipe, strict=True)(params, batch)
    theirs = scalify.transform(grads, recipe, numerics=scalify.Numerics(scales=scales))(
        params, batch
    )
    assert abs(float(ours[0]) - float(theirs[0])) <= 1e-4 * float(theirs[0])
    assert cosine(ours[1], theirs[1]) >= 0.999


def scanned(params: Any, x: Any) -> Any:
    """Layers by a loop, whose stacked weights are sliced."""

    def layer(x: Any, w: Any) -> tuple[Any, None]:
        return jnp.tanh(x @ w), None

    return jnp.mean(jax.lax.scan(layer, x, params["w"])[0] @ params["head"])


def test_loops_cast_by_blocks() -> None:
    rng = np.random.default_rng(4)
    params = {
        "w": rng.normal(0, 0.1, (3, 160, 160)).astype(np.float32),
        "head": rng.normal(size=(160, 8)).astype(np.float32),
    }
    x = rng.normal(size=(32, 160)).astype(np.float32)
    exact = jax.grad(scanned)(params, x)
    run = scalify.transform(jax.grad(scanned), "fp8-block", strict=True)
    assert cosine(run(params, x), exact) >= 0.99
    assert "blocks of 128x128" in str(run.report())
