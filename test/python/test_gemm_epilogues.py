"""Biases, ReLUs, GELUs and their gradients by GEMMs of a GPU: fewer kernels, the same values."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import gpu_steps
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from cpu_run import compile_text
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from numpy.typing import NDArray
from written_products import element_of, product, size_of, store

import scalify
from scalify import _compiler
from scalify._executable import Executable

BF16 = ml_dtypes.bfloat16
FUSION = "scalify-unroll-loops,scalify-prepare-plan,scalify-narrow-dots,scalify-form-gemms"
MATMUL = re.compile(
    r"(?P<out>%\w+)(?:, (?P<aux>%\w+))? = plan\.matmul (?P<a>%\w+), (?P<b>%\w+)"
    r" m (?P<m>\d+) n (?P<n>\d+) k (?P<k>\d+)"
    r" strides \[(?P<a0>\d+), (?P<a1>\d+)\] x \[(?P<b0>\d+), (?P<b1>\d+)\]"
    r" to \[(?P<c0>\d+), (?P<c1>\d+)\]"
    r" offsets \[(?P<a_start>\d+), (?P<b_start>\d+), 0(?:, (?P<start>\d+))?\]"
    r" batch \[\] \[\] alpha 1.000000e\+00"
    r"(?: epilogue (?P<epilogue>\w+))?(?: bias\((?P<bias>%\w+)\))?"
    r"(?: saved\((?P<saved>%\w+)\))?(?: \{.*?\})?"
    r" : \((?P<types>.*?)\) -> \(?(?P<result>tensor<[^>]*>)(?:, (?P<kept>tensor<[^>]*>)\))?"
)


@jax.custom_jvp
def relu(x: Any) -> Any:
    """jax.nn.relu without a call, which only the Import stage inlines."""
    return lax.max(x, jnp.zeros_like(x))


@relu.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return relu(x), lax.select(x > 0, dx, jnp.zeros_like(dx))


def gelu(x: Any) -> Any:
    """jax.nn.gelu without a call."""
    slope = np.sqrt(2 / np.pi).astype(x.dtype)
    return x * (0.5 * (1.0 + lax.tanh(slope * (x + 0.044715 * lax.integer_pow(x, 3)))))


def mlp(params: Any, x: Any, act: Callable[[Any], Any] = relu) -> Any:
    for w, b in params[:-1]:
        x = act(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def gradients(params: Any, x: Any, y: Any, act: Callable[[Any], Any] = relu) -> Any:
    return jax.value_and_grad(lambda p: jnp.mean((mlp(p, x, act) - y) ** 2))(params)


def stacked(params: Any, x: Any) -> Any:
    for i in range(3):
        w, b = (lax.index_in_dim(stack, i, keepdims=False) for stack in params)
        x = relu(x @ w + b)
    return x


def heads(w: Any, b: Any, x: Any) -> Any:
    """Three products of one input, each of which is read by another product."""
    q, k, v = (jnp.einsum("btc,chd->bthd", x, w[i]) + b[i] for i in range(3))
    return jnp.einsum("bthd,bshd->bths", q, k).sum(-1), v


def rounded(w: Any, b: Any, x: Any) -> Any:
    sums = jnp.matmul(x, w, preferred_element_type=jnp.float32)
    return relu(sums + b.astype(jnp.float32)).astype(jnp.bfloat16)


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> NDArray[Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32).astype(dtype)


def layers(*widths: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    sides = itertools.pairwise(widths)
    return [(normal(m, n, seed=n) / m**0.5, normal(n, seed=m)) for m, n in sides]


def lowered(fn: Callable[..., Any], *args: Any) -> str:
    return jax.jit(fn, keep_unused=True).lower(*args).as_text()


def gelu_slope(own: str, saved: str, given: str, wide: str) -> list[str]:
    """Returns ops for the gradient of GELU at `saved`: (1 + t + x (1 - t^2) u') / 2, t = tanh u."""
    numbers = (("c", 0.7978845608028654), ("d", 0.044715), ("e", 3.0), ("o", 1.0), ("h", 0.5))
    lines = [f"{own}_s{c} = stablehlo.constant dense<{x}> : {wide}" for c, x in numbers]
    lines.append(f"{own}_v = stablehlo.convert {saved} : ({given}) -> {widened_type(given)}")
    lines.append(f"{own}_x = stablehlo.reshape {own}_v : ({widened_type(given)}) -> {wide}")
    steps = (
        *("multiply @x, @x", "multiply @t0, @sd", "multiply @t1, @x", "add @x, @t2"),
        *("multiply @t3, @sc", "tanh @t4", "multiply @t1, @se", "add @so, @t6"),
        *("multiply @t7, @sc", "multiply @t5, @t5", "subtract @so, @t9", "multiply @t10, @t8"),
        *("multiply @t11, @x", "add @so, @t5", "add @t13, @t12", "multiply @t14, @sh"),
    )
    names = [*(f"t{i}" for i in range(len(steps) - 1)), "slope"]
    for name, step in zip(names, steps, strict=True):
        lines.append(f"{own}_{name} = stablehlo.{step.replace('@', f'{own}_')} : {wide}")
    return lines


def widened_type(tensor: str) -> str:
    """Returns the type with F32 elements."""
    return tensor.rpartition("x")[0] + "xf32>"


def written_out(match: re.Match[str]) -> str:
    """Returns a `plan.matmul` as StableHLO ops, as PlanOps.td defines it."""
    m, n = int(match["m"]), int(match["n"])
    out, result = match["out"], match["result"]
    own = f"%m{out[1:]}"
    types = match["types"].split(", ")
    starts = (int(match["a_start"]), int(match["b_start"]))
    lines, last, wide = product(match, (types[0], types[1]), starts)
    mask, epilogue = f"tensor<{m}x{n}xi1>", match["epilogue"] or ""
    if match["bias"]:
        start, given = int(match["start"]), types[-1]
        size, kind = size_of(given), element_of(given)
        lines += [
            f"{own}_f = stablehlo.reshape {match['bias']} : ({given}) -> tensor<{size}x{kind}>",
            f"{own}_p = stablehlo.slice {own}_f [{start}:{start + n}] : (tensor<{size}x{kind}>)"
            f" -> tensor<{n}x{kind}>",
            f"{own}_v = stablehlo.convert {own}_p : (tensor<{n}x{kind}>) -> tensor<{n}xf32>",
            f"{own}_w = stablehlo.broadcast_in_dim {own}_v, dims = [1] : (tensor<{n}xf32>)"
            f" -> {wide}",
            f"{own}_1 = stablehlo.add {last}, {own}_w : {wide}",
        ]
        last = f"{own}_1"
    if epilogue.endswith("gelu"):
        before = last
        numbers = (("k", 0.044715), ("l", 0.7978845608028654), ("o", 1.0), ("h", 0.5))
        lines += [f"{own}_{c} = stablehlo.constant dense<{x}> : {wide}" for c, x in numbers]
        steps = (
            *(f"multiply {last}, {last}", f"multiply {own}_g0, {last}"),
            *(f"multiply {own}_g1, {own}_k", f"add {last}, {own}_g2"),
            *(f"multiply {own}_g3, {own}_l", f"tanh {own}_g4", f"add {own}_g5, {own}_o"),
            *(f"multiply {own}_g6, {own}_h", f"multiply {last}, {own}_g7"),
        )
        lines += [f"{own}_g{i} = stablehlo.{step} : {wide}" for i, step in enumerate(steps)]
        last = f"{own}_g8"
        if match["aux"]:
            kept = f"tensor<{m}x{n}x{element_of(result)}>"
            lines.append(f"{own}_y = stablehlo.convert {before} : ({wide}) -> {kept}")
            lines.append(f"{match['aux']} = stablehlo.reshape {own}_y : ({kept}) -> {result}")
    if epilogue == "gelu_grad":
        lines += gelu_slope(own, match["saved"], types[-1], wide)
        lines.append(f"{own}_d = stablehlo.multiply {last}, {own}_slope : {wide}")
        last = f"{own}_d"
    if epilogue == "relu_grad":
        # Our mask is of booleans and not of bits: nothing else reads it.
        lines += [
            f"{own}_n = stablehlo.constant dense<0.0> : {wide}",
            f"{own}_d = stablehlo.select {match['saved']}, {last}, {own}_n : {mask}, {wide}",
        ]
        last = f"{own}_d"
    if epilogue.endswith("relu"):
        zero = f"{own}_z = stablehlo.constant dense<0.0> : {wide}"
        lines += [zero, f"{own}_2 = stablehlo.maximum {last}, {own}_z : {wide}"]
        if match["aux"]:
            assert match["kept"] == f"tensor<{m}x{-(-n // 128) * 16}xui8>"
            lines.append(
                f"{match['aux']} = stablehlo.compare GT, {last}, {own}_z"
                f" : ({wide}, {wide}) -> {mask}"
            )
        last = f"{own}_2"
    lines += store(match, last, result)
    return "\n".join(lines)


# Programs, their arguments, and the epilogues of their products in order of the plan.
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {
    "an MLP's step": (
        gradients,
        (layers(24, 40, 56, 8), normal(16, 24), normal(16, 8, seed=1)),
        ["bias_relu", "bias_relu", "", "", "", "", "", ""],
    ),
    "a step of GELUs": (
        functools.partial(gradients, act=gelu),
        (layers(24, 40, 56, 8), normal(16, 24), normal(16, 8, seed=1)),
        ["bias_gelu", "bias_gelu", "", "", "gelu_grad", "", "gelu_grad", ""],
    ),
    "an MLP's step by masks": (
        gradients,
        (layers(24, 40, 56, 8), normal(16, 24), normal(16, 8, seed=1)),
        ["bias_relu", "bias_relu", "", "", "relu_grad", "", "relu_grad", ""],
    ),
    "results": (mlp, (layers(24, 40), normal(16, 24)), ["bias"]),
    "a stack": (
        stacked,
        ((normal(3, 24, 24) / 5, normal(3, 24, seed=1)), normal(16, 24, seed=2)),
        ["bias_relu", "bias_relu", "bias_relu"],
    ),
    "one rounding": (
        rounded,
        (normal(24, 40, dtype=BF16), normal(40, seed=1, dtype=BF16), normal(16, 24, dtype=BF16)),
        ["bias_relu"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_products_with_epilogues_are_the_program(name: str) -> None:
    fn, args, epilogues = CASES[name]
    text = lowered(fn, *args)
    level = "all" if any(re.search("gelu|grad", each) for each in epilogues) else "exact"
    passes = f"{FUSION},scalify-form-epilogues{{level={level}}}"
    formed = scalify.opt(text, f"builtin.module(scalify-set-target,func.func({passes}))")
    found = [match["epilogue"] or "" for match in MATMUL.finditer(formed)]
    assert found == epilogues and formed.count("plan.matmul") == len(found)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(args)]
    plain = MATMUL.sub(written_out, formed)
    run = compile_text(plain, compileFrom="precision", recipe="none").run
    want = jax.tree.leaves(jax.jit(fn)(*args))
    for got, wanted in zip(run(leaves), want, strict=True):
        narrow = wanted.dtype != np.float32
        # F32 sums of 56 terms in another order; behind a rounding, half a unit of BF16 each.
        tolerance = {"rtol": 2.0**-7 if narrow else 1e-5, "atol": 1e-5}
        np.testing.assert_allclose(
            np.asarray(got).astype(np.float32), np.asarray(wanted).astype(np.float32), **tolerance
        )


def manifest_of(text: str, epilogues: str, recipe: str = "none") -> dict[str, Any]:
    options = {"recipe": recipe, "target": "sm_90a", "epilogues": epilogues, "planOnly": True}
    artefact, _ = _compiler.compile(text, json.dumps(options))
    length = int.from_bytes(artefact[8:16], "little")
    found: dict[str, Any] = json.loads(artefact[32 : 32 + length])
    return found


def commands(manifest: dict[str, Any], op: str) -> list[dict[str, Any]]:
    return [command for command in manifest["functions"]["step"] if command["op"] == op]


@functools.cache
def step_text() -> str:
    args = (layers(64, 128, 128, 64), normal(256, 64), normal(256, 64, seed=1))
    return lowered(gradients, *args)


def test_a_step_has_fewer_kernels_and_the_same_products() -> None:
    plain, fused = (manifest_of(step_text(), which) for which in ("none", "exact"))
    extra = ("epilogue", "bias", "bias_off")
    shapes = [
        [(gemm["m"], gemm["n"], gemm["k"], gemm["alpha"]) for gemm in commands(manifest, "gemm")]
        for manifest in (plain, fused)
    ]
    assert shapes[0] == shapes[1]
    assert not any(key in gemm for gemm in commands(plain, "gemm") for key in extra)
    with_bias = [gemm for gemm in commands(fused, "gemm") if "epilogue" in gemm]
    assert [gemm["epilogue"] for gemm in with_bias] == ["bias_relu", "bias_relu"]
    for gemm in with_bias:
        bias = fused["buffers"][gemm["bias"]]
        assert (bias["kind"], bias["shape"], gemm["bias_off"]) == ("arg", [gemm["n"]], 0)
    # The two that add, clamp and store are gone, and what they read and wrote.
    before, after = commands(plain, "kernel"), commands(fused, "kernel")
    assert len(after) == len(before) - 2
    assert not any("maximum" in kernel["name"] for kernel in after)
    hidden = 4 * 256 * 128
    assert sum(k["bytes"] for k in before) - sum(k["bytes"] for k in after) >= 2 * 2 * hidden
    assert fused["arena_bytes"] < plain["arena_bytes"]


def test_the_recording_gets_the_epilogues() -> None:
    options = {"recipe": "none", "target": "sm_90a", "ptxas": "none"}
    artefact, _ = _compiler.compile(step_text(), json.dumps(options))
    exe = Executable(artefact, device="null")
    exe(*(np.zeros(a["shape"], np.float32) for a in exe.args))
    calls = [line for line in exe.trace.splitlines() if line.startswith("cublasLtMatmul ")]
    found = [re.search(r" bias=(arg\d)\+0 \| .* relu bias=f32$", call) for call in calls]
    assert [match[1] for match in found if match] == ["arg1", "arg3"]


def widened(w: Any, b: Any, x: Any) -> Any:
    """A layer whose backward widens the bias anew."""

    def layer(w: Any, x: Any) -> Any:
        product = lax.dot(x, w, preferred_element_type=jnp.float32)
        hidden = relu(checkpoint_name(product, "product") + b.astype(jnp.float32))
        return jnp.sum(hidden @ jnp.ones((32, 8)))

    keep = jax.checkpoint_policies.save_only_these_names("product")
    return jax.value_and_grad(jax.checkpoint(layer, policy=keep))(w, x)


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (lambda x, w: relu(x @ w).astype(jnp.bfloat16), (normal(16, 64), normal(64, 32))),
        (
            lambda x, w, b: (x @ w + b.astype(jnp.float32)).astype(jnp.bfloat16),
            (normal(16, 64), normal(64, 32), normal(32, dtype=BF16)),
        ),
        (
            lambda x, w: relu(lax.dot(x, w, preferred_element_type=jnp.float32)).astype(
                jnp.float16
            ),
            (normal(16, 64, dtype=BF16), normal(64, 32, dtype=BF16)),
        ),
        (lambda x, w: (lambda y: y + y)(x @ w), (normal(1, 64), normal(64, 32))),
        (widened, (normal(64, 32, dtype=BF16), normal(32, dtype=BF16), normal(16, 64, dtype=BF16))),
    ],
    ids=["relu to bf16", "bias to bf16", "bf16 to f16", "itself", "widened anew"],
)
def test_what_the_library_cannot_add_or_round_still_runs(
    fn: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    options = {"recipe": "none", "target": "sm_90a", "ptxas": "none"}
    artefact, _ = _compiler.compile(lowered(fn, *args), json.dumps(options))
    # Loading asks the recording library for each product.
    Executable(artefact, device="null")(*args)


WIDE = '#scalify.recipe<"fp8", sensitive = false, head = false>'


@pytest.mark.parametrize(("recipe", "said"), [("bf16", 0), ("fp8", 0), (WIDE, 1)])
def test_casts_keep_their_biases(recipe: str, said: int) -> None:
    """The kernel of the next cast reads the product anyway, and there is no remark."""
    manifest = manifest_of(step_text(), "exact", recipe)
    assert not any("epilogue" in gemm for gemm in commands(manifest, "gemm"))
    # The last layer is sensitive: if it is wide, it reads F32 that an FP8 product made.
    remarks = [r["message"] for r in manifest["remarks"] if "product's epilogue" in r["message"]]
    assert len(remarks) == said
    assert all("adds a bias of bf16, and this one is f32" in remark for remark in remarks)


def test_a_rounding_before_the_bias_is_a_remark() -> None:
    def fn(w: Any, b: Any, x: Any) -> Any:
        return x @ w + b

    args = (normal(24, 40, dtype=BF16), normal(40, dtype=BF16), normal(16, 24, dtype=BF16))
    manifest = manifest_of(lowered(fn, *args), "exact")
    assert "epilogue" not in commands(manifest, "gemm")[0]
    said = [r["message"] for r in manifest["remarks"] if "product's epilogue" in r["message"]]
    assert len(said) == 1 and "rounds the product before it adds the bias" in said[0]


def gpt_block(params: Any, x: Any) -> Any:
    w1, b1, w2, b2 = params
    return jnp.mean((gelu(x @ w1 + b1) @ w2 + b2).astype(jnp.float32) ** 2)


def test_all_that_the_library_has() -> None:
    """In BF16: GELUs and their inputs by the library, and no kernel before the second product."""
    shapes = ((64, 256), (256,), (256, 64), (64,))
    args = tuple(normal(*shape, dtype=BF16) for shape in shapes), normal(128, 64, dtype=BF16)
    text = lowered(jax.grad(gpt_block), *args)
    exact, loose = (manifest_of(text, which) for which in ("exact", "all"))
    assert not any("epilogue" in gemm for gemm in commands(exact, "gemm"))
    first = commands(loose, "gemm")[0]
    assert first["epilogue"] == "bias_gelu"
    # In the backward the gradient goes behind the GELU in the product that makes it.
    slopes = [gemm for gemm in commands(loose, "gemm") if gemm.get("epilogue") == "gelu_grad"]
    assert [gemm["saved"] for gemm in slopes] == [first["aux"]]
    aux, result = (loose["buffers"][first[name]] for name in ("aux", "c"))
    assert aux["dtype"] == result["dtype"] == "bf16" and aux["shape"] == result["shape"]
    assert first["aux"] != first["c"]
    assert [command["op"] for command in loose["functions"]["step"]][:2] == ["gemm", "gemm"]
    assert len(commands(loose, "kernel")) < len(commands(exact, "kernel"))
    options = {"recipe": "none", "target": "sm_90a", "ptxas": "none", "epilogues": "all"}
    artefact, _ = _compiler.compile(text, json.dumps(options))
    exe = Executable(artefact, device="null")
    exe(*(np.zeros(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(args)))
    stored = re.search(
        r"cublasLtMatmul .* bias=arg1\+0 (aux=arena\+\d+) \| .* gelu aux=256", exe.trace
    )
    assert stored
    assert re.search(rf" {re.escape(stored[1])} \| .* dgelu aux=256\n", exe.trace)


def test_masks_of_relus() -> None:
    """One bit per element replaces the hidden layer, and saves two kernels and their traffic."""
    exact, loose = (manifest_of(step_text(), which) for which in ("exact", "all"))
    forward = [gemm for gemm in commands(loose, "gemm") if gemm.get("epilogue") == "bias_relu"]
    backward = [gemm for gemm in commands(loose, "gemm") if gemm.get("epilogue") == "relu_grad"]
    assert [gemm["saved"] for gemm in backward] == [gemm["aux"] for gemm in reversed(forward)]
    assert [loose["buffers"][gemm["aux"]]["shape"] for gemm in forward] == [[256, 16]] * 2
    before, after = commands(exact, "kernel"), commands(loose, "kernel")
    assert len(after) == len(before) - 2
    hidden = 4 * 256 * 128
    # Each read the product and the hidden layer, and wrote the gradient.
    assert sum(k["bytes"] for k in before) - sum(k["bytes"] for k in after) >= 2 * 3 * hidden
    options = {"recipe": "none", "target": "sm_90a", "ptxas": "none", "epilogues": "all"}
    artefact, _ = _compiler.compile(step_text(), json.dumps(options))
    exe = Executable(artefact, device="null")
    exe(*(np.zeros(a["shape"], np.float32) for a in exe.args))
    wrote = re.findall(r" (aux=arena\+\d+) \| .* relu aux=128 bias=f32\n", exe.trace)
    read = re.findall(r" (aux=arena\+\d+) \| .* drelu aux=128\n", exe.trace)
    assert len(read) == 2 and read == wrote[::-1]


def test_heads_have_their_biases() -> None:
    args = (normal(3, 64, 4, 16), normal(3, 4, 16, seed=1), normal(2, 32, 64))
    manifest = manifest_of(lowered(heads, *args), "exact")
    biases = [gemm for gemm in commands(manifest, "gemm") if "bias" in gemm]
    # v is a result, q and k are read by products.
    assert [gemm["epilogue"] for gemm in biases] == ["bias"] * 3
    assert sorted(gemm["bias_off"] for gemm in biases) == [0, 64, 128]


@pytest.mark.parametrize("recipe", ["none", "fp8"])
def test_steps_without_biases_stay_what_they_are(recipe: str) -> None:
    plain, exact = (manifest_of(gpu_steps.example(1), w, recipe) for w in ("none", "exact"))
    assert plain["functions"] == exact["functions"] and plain["buffers"] == exact["buffers"]


def test_options_are_checked() -> None:
    text = lowered(lambda x: x + 1, normal(4))
    with pytest.raises(ValueError, match="epilogues='some': expected 'exact', 'all' or 'none'"):
        scalify.GPU(epilogues="some")  # type: ignore[arg-type]
    with pytest.raises(scalify.CompileError, match="unknown epilogues 'some': expected one of"):
        _compiler.compile(text, '{"target": "sm_90a", "epilogues": "some"}')
    exe = scalify.compile(
        step_text(), target="sm_90a", gpu=scalify.GPU(device="null", epilogues="none")
    )
    assert not any("epilogue" in command for command in exe.manifest["functions"]["step"])
