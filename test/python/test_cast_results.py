"""Products that a GPU's library stores as FP8: fewer bytes, and the program's numbers."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from cpu_run import compile_text
from jax import lax
from numpy.typing import NDArray
from written_products import element_of, product, store

import scalify
from scalify import _compiler
from scalify._executable import Executable

E4M3, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16
FUSION = (
    "builtin.module(scalify-set-target,scalify-keep-amaxes,func.func(scalify-unroll-loops,"
    "scalify-prepare-plan,scalify-narrow-dots,scalify-form-gemms,"
    "scalify-form-epilogues{level=%s}))"
)
MATMUL = re.compile(
    r"(?P<out>%\w+)(?:, (?P<amax>%\w+))? = plan\.matmul (?P<a>%\w+), (?P<b>%\w+)"
    r" m (?P<m>\d+) n (?P<n>\d+) k (?P<k>\d+)"
    r" strides \[(?P<a0>\d+), (?P<a1>\d+)\] x \[(?P<b0>\d+), (?P<b1>\d+)\]"
    r" to \[(?P<c0>\d+), (?P<c1>\d+)\] offsets \[0, 0, 0\]"
    r" batch \[\] \[\] alpha (?P<alpha>[-+.\dE]+)(?: scales\((?P<sa>%\w+), (?P<sb>%\w+)\))?"
    r"(?: fast_accumulation)?(?: into\((?P<into>%\w+)\))?(?: \{.*?\})?"
    r" : \((?P<ta>[^,]*), (?P<tb>[^,)]*).*?\) -> \(?(?P<tc>tensor<[^>]*>)(?:, tensor<f32>\))?",
    re.IGNORECASE,
)


def halves(*shape: int, seed: int = 0, dtype: Any = np.float32) -> NDArray[Any]:
    """Returns halves up to 2: sums of some hundred products are exact in F32, in any order."""
    return (np.random.default_rng(seed).integers(-4, 5, shape) / 2).astype(dtype)


def saturated(x: NDArray[Any]) -> NDArray[Any]:
    return np.clip(x, -448, 448).astype(E4M3)


def dot(x: Any, y: Any) -> Any:
    return lax.dot(x, y, preferred_element_type=jnp.float32)


def clamped(x: Any, w: Any, v: Any, scale: Any) -> Any:
    """A cast of the user's own, as with delayed scaling: its scale is an argument."""
    y = dot(x, w)
    q = lax.clamp(jnp.float32(-448), y * scale, jnp.float32(448)).astype(E4M3)
    return dot(q, v) / scale, q, jnp.max(jnp.abs(y))


def static(x: Any, w: Any, v: Any) -> Any:
    """A cast with a constant scale; no value exceeds the format."""
    return dot((dot(x, w) * 0.25).astype(E4M3), v)


def narrow(x: Any, w: Any, v: Any) -> Any:
    return dot(x @ w, v)


def two_layers(w: Any, v: Any, x: Any) -> Any:
    """The third product is the head, which a recipe leaves wide."""
    return jnp.sum((x @ w) @ v @ jnp.ones((v.shape[1], 16)) * 0.25)


def adapted(a: Any, b: Any, w: Any, head: Any, x: Any) -> Any:
    """A linear layer with a low-rank adapter, which alone is trained, and a head."""
    return jnp.sum((x @ w + (x @ a) @ b * 0.5) @ head * 0.25)


SHAPES = ((64, 16), (16, 48), (64, 48), (48, 16), (96, 64))
ADAPTED = tuple(halves(*shape, seed=seed) for seed, shape in enumerate(SHAPES))
LAYERS = (halves(64, 96), halves(96, 48, seed=1), halves(32, 64, seed=2))


def lowered(fn: Callable[..., Any], *args: Any) -> str:
    return jax.jit(fn, keep_unused=True).lower(*args).as_text()


def adapter_step() -> str:
    return lowered(jax.value_and_grad(adapted, argnums=(0, 1)), *ADAPTED)


def manifest_of(text: str, epilogues: str, recipe: str) -> dict[str, Any]:
    artefact = artefact_of(text, epilogues, recipe, planOnly=True)
    length = int.from_bytes(artefact[8:16], "little")
    found: dict[str, Any] = json.loads(artefact[32 : 32 + length])
    return found


def bytes_moved(manifest: dict[str, Any]) -> int:
    """Returns the bytes that kernels read and write, and products write."""
    written = (
        gemm["m"] * gemm["n"] * (1 if gemm["dtype"].startswith("f8") else 4)
        for gemm in commands(manifest, "gemm")
    )
    return sum(kernel["bytes"] for kernel in commands(manifest, "kernel")) + sum(written)


# Casts by constants; those by scales of run time, carried ones too, are as under `fp8-delayed`.
CONSTANT: dict[str, Any] = {"carryScales": False, "declaredScales": True}


def artefact_of(text: str, epilogues: str, recipe: str, **more: bool) -> bytes:
    options = {"recipe": recipe, "target": "sm_90a", "epilogues": epilogues, "ptxas": "none"}
    options |= CONSTANT | more
    return bytes(_compiler.compile(text, json.dumps(options))[0])


def commands(manifest: dict[str, Any], op: str) -> list[dict[str, Any]]:
    return [command for command in manifest["functions"]["step"] if command["op"] == op]


def written_out(match: re.Match[str]) -> str:
    """Returns a `plan.matmul` of whole matrices as StableHLO ops, as PlanOps.td defines it."""
    lines, last, wide = product(match, (match["ta"], match["tb"]))
    own = f"%m{match['out'][1:]}"
    factors = [f"{own}_alpha", match["sa"], match["sb"]]
    lines.append(f"{own}_alpha = stablehlo.constant dense<{match['alpha']}> : tensor<f32>")

    def times(last: str, factor: str, name: str) -> str:
        lines.append(
            f"{name}w = stablehlo.broadcast_in_dim {factor}, dims = [] : (tensor<f32>) -> {wide}"
        )
        lines.append(f"{name} = stablehlo.multiply {last}, {name}w : {wide}")
        return name

    for i, factor in enumerate(filter(None, factors)):
        last = times(last, factor, f"{own}_f{i}")
    if match["amax"]:
        lines += [
            f"{own}_m = stablehlo.abs {last} : {wide}",
            f"{own}_i = stablehlo.constant dense<0.0> : tensor<f32>",
            f"{match['amax']} = stablehlo.reduce({own}_m init: {own}_i) applies stablehlo.maximum"
            f" across dimensions = [0, 1] : ({wide}, tensor<f32>) -> tensor<f32>",
        ]
    if match["into"]:
        last = times(last, match["into"], f"{own}_g")
    result = match["tc"]
    kind = element_of(result)
    if kind.startswith("f8"):
        largest = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0}[kind]
        lines += [
            f"{own}_h = stablehlo.constant dense<{largest}> : {wide}",
            f"{own}_l = stablehlo.constant dense<-{largest}> : {wide}",
            f"{own}_c = stablehlo.clamp {own}_l, {last}, {own}_h : ({wide}, {wide}, {wide})"
            f" -> {wide}",
        ]
        last = f"{own}_c"
    lines += store(match, last, result)
    return "\n".join(lines)


def formed(text: str, recipe: str, epilogues: str) -> str:
    """Returns the step with the products of a GPU's plan, written out for a CPU."""
    tool = pathlib.Path(_compiler.__file__).parents[2] / "bin" / "scalify-compile"
    options = [f"--recipe={recipe}", "--target=sm_90a", "--compile-to=precision"]
    options += ["--cast-scales=static", "--declared-scales"]
    scaled = subprocess.run(
        [tool, "-", "-o", "-", *options], input=text, capture_output=True, text=True, check=True
    ).stdout
    with_products = scalify.opt(scaled, FUSION % epilogues)
    assert with_products.count("plan.matmul") == len(MATMUL.findall(with_products))
    return MATMUL.sub(written_out, with_products)


@pytest.mark.parametrize("scale", [0.25, 32.0], ids=["in range", "saturating"])
def test_a_cast_of_the_users_own(scale: float) -> None:
    """Against NumPy bit for bit, since all sums are exact."""
    x, w, v = halves(32, 64), halves(64, 48, seed=1), halves(48, 16, seed=2)
    args = (*(each.astype(E4M3) for each in (x, w, v)), np.float32(scale))
    text = lowered(clamped, *args)
    plain = formed(text, "none", "exact")
    assert plain.count("stablehlo.clamp") == 1 and plain.count("stablehlo.abs") == 1
    z, q, amax = compile_text(plain, compileFrom="precision", recipe="none").run(list(args))
    y = x @ w
    want = saturated(y * np.float32(scale))
    np.testing.assert_array_equal(np.asarray(q).view(np.uint8), want.view(np.uint8))
    assert (np.abs(want.astype(np.float32)).max() == 448) == (scale == 32)
    np.testing.assert_array_equal(amax, np.abs(y).max())
    np.testing.assert_array_equal(z, want.astype(np.float32) @ v / np.float32(scale))


@pytest.mark.parametrize(("fn", "factor"), [(static, 0.25), (narrow, 1.0)])
def test_a_cast_that_does_not_saturate(fn: Callable[..., Any], factor: float) -> None:
    x, w, v = halves(32, 64), halves(64, 48, seed=1), halves(48, 16, seed=2)
    args = tuple(each.astype(E4M3) for each in (x, w, v))
    text = lowered(fn, *args)
    # Beyond the format it would have a NaN where the library saturates.
    said = [r["message"] for r in manifest_of(text, "exact", "none")["remarks"]]
    assert sum("saturate in the library's cast" in message for message in said) == 1
    run = compile_text(formed(text, "none", "all"), compileFrom="precision", recipe="none").run
    want = saturated(np.float32(factor) * (x @ w)).astype(np.float32) @ v
    np.testing.assert_array_equal(run(list(args))[0], want)


@pytest.mark.parametrize("recipe", ["fp8", "fp8-delayed", "bf16"])
@pytest.mark.parametrize("name", ["layers", "adapter", "adapter in BF16"])
def test_recipes_compute_the_same(name: str, recipe: str) -> None:
    """Against the CPU's own plan bit for bit, since all sums are exact; in BF16 too."""
    narrow = tuple(each.astype(BF16) for each in ADAPTED)
    fn, args = {
        "layers": (jax.value_and_grad(two_layers, argnums=(0, 1)), LAYERS),
        "adapter": (jax.value_and_grad(adapted, argnums=(0, 1)), ADAPTED),
        "adapter in BF16": (jax.value_and_grad(adapted, argnums=(0, 1)), narrow),
    }[name]
    text = lowered(fn, *args)
    plain = compile_text(text, recipe=recipe, **CONSTANT)
    library = formed(text, recipe, "all")
    assert ("_c = stablehlo.clamp" in library) == (recipe != "bf16")
    fused = compile_text(library, compileFrom="precision", recipe="none")
    inputs: list[Any] = [*args]
    if recipe == "fp8-delayed":
        inputs.append(np.zeros(plain.args[-1]["shape"], np.float32))
    for got, want in zip(fused.run(inputs), plain.run(inputs), strict=True):
        np.testing.assert_array_equal(got, want)


def test_an_adapter_moves_fewer_bytes() -> None:
    exact, loose = (manifest_of(adapter_step(), level, "fp8") for level in ("exact", "all"))
    assert all(gemm["dtype"] == "f32" for gemm in commands(exact, "gemm"))
    stored = [gemm for gemm in commands(loose, "gemm") if gemm["dtype"] != "f32"]
    # x A is read by the next product and, turned, by the gradient of B: a copy of bytes. The
    # gradient behind B is read by the gradient of A alone, as columns, and stored so.
    assert [gemm["dtype"] for gemm in stored] == ["f8E4M3FN", "f8E5M2"]
    assert [gemm["c_strides"] for gemm in stored] == [[16, 1], [1, 96]]
    assert not any("amax" in gemm for gemm in stored)
    for gemm in stored:
        assert loose["buffers"][gemm["c_scale"]]["kind"] == "const"
    saved = 96 * 16 * ((4 + 4 + 1 + 1) - (1 + 1 + 1) + (4 + 4 + 1) - 1)
    assert bytes_moved(exact) - bytes_moved(loose) >= saved
    assert len(commands(loose, "kernel")) == len(commands(exact, "kernel")) - 1
    # Nothing counts what they saturate.
    assert len(exact["counters"]) == len(loose["counters"]) + 2
    said = [r["message"] for r in exact["remarks"]]
    assert sum("the library's cast does not count saturated values" in each for each in said) == 2


def test_delayed_scales_have_their_amaxes_by_the_library() -> None:
    exact, loose = (manifest_of(adapter_step(), level, "fp8-delayed") for level in ("exact", "all"))
    stored = [gemm for gemm in commands(loose, "gemm") if gemm["dtype"] != "f32"]
    assert len(stored) == 2
    for gemm in stored:
        assert loose["buffers"][gemm["amax"]]["dtype"] == "f32"
        assert loose["buffers"][gemm["c_scale"]]["kind"] == "temp"
    measured = [
        sum("abs" in kernel["name"] for kernel in commands(m, "kernel")) for m in (exact, loose)
    ]
    assert measured[0] - measured[1] == 2


@pytest.mark.parametrize("recipe", ["fp8", "fp8-delayed"])
def test_the_recording_gets_results_of_fp8(recipe: str) -> None:
    exe = Executable(artefact_of(adapter_step(), "all", recipe), device="null")
    exe(*(np.zeros(a["shape"], np.float32) for a in exe.args))
    calls = [line for line in exe.trace.splitlines() if line.startswith("cublasLtMatmul ")]
    found = [call for call in calls if " d=f8" in call]
    assert len(found) == 2 and all(" d_scale=" in call and " c=bf16" in call for call in found)
    assert all((" amax=" in call) == (recipe == "fp8-delayed") for call in found)
    # Of casts by the library there is no row, or where rows are those of scales an empty one.
    uncounted = [row["cast"] for row in exe.health() if not row["elements"]]
    assert len(uncounted) == (2 if recipe == "fp8-delayed" else 0)


def test_biases_and_clamps_go_along() -> None:
    """In a BF16 program the sum is cast by the product; what the backward asks keeps it wide."""

    def mlp(w: Any, b: Any, v: Any, x: Any) -> Any:
        return jnp.maximum(x @ w + b, 0) @ v @ jnp.ones((48, 16), jnp.bfloat16)

    shapes = ((64, 96), (96,), (96, 48), (32, 64))
    args = [halves(*shape, dtype=BF16) for shape in shapes]
    manifest = manifest_of(lowered(mlp, *args), "all", "fp8")
    first = commands(manifest, "gemm")[0]
    assert (first["dtype"], first["epilogue"]) == ("f8E4M3FN", "bias_relu")
