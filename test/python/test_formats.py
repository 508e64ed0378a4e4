"""Recipes' formats by running them: roles, exceptions, saved values, state, counts of ops."""

from __future__ import annotations

import collections
import importlib
import pathlib
import re
import sys
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from programs import cosine

import scalify

LLAMA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "llama"


@pytest.fixture(scope="module")
def llama() -> dict[str, ModuleType]:
    sys.path.insert(0, str(LLAMA))
    try:
        return {name: importlib.import_module(name) for name in ("config", "model", "optimizer")}
    finally:
        sys.path.remove(str(LLAMA))


def ops(text: str) -> collections.Counter[str]:
    """Returns how often each op occurs, without constants."""
    found = collections.Counter(re.findall(r'= "?((?:stablehlo|scalify)\.\w+)', text))
    del found["stablehlo.constant"]
    return found


def large_multiplies(text: str) -> int:
    """Returns the number of products of tensors of rank 1 and more."""
    return len(re.findall(r"= stablehlo\.multiply .*: tensor<\d", text))


@pytest.fixture(scope="module")
def normal_form(llama: dict[str, ModuleType]) -> str:
    """Returns the example's whole step of 2 layers, after Import."""
    cfg = llama["config"].ModelConfig(layers=2, seq=32)
    adamw = llama["optimizer"].make_optimizer(llama["config"].TrainConfig())
    step = llama["optimizer"].make_step(cfg, adamw)
    params = jax.eval_shape(lambda: llama["model"].init(jax.random.key(0), cfg))
    state = jax.eval_shape(adamw.init, params)
    batch = jax.ShapeDtypeStruct((2, cfg.seq + 1), np.int32)
    lowered = jax.jit(step, donate_argnums=(0, 1)).lower(params, state, batch)
    return scalify.opt(lowered.as_text(debug_info=True), "scalify-import")


def test_scales_add_few_ops_and_no_multiply(normal_form: str) -> None:
    scaled = scalify.opt(normal_form, "scalify-propagate{remarks=0 strict}")
    assert ops(scaled).total() <= 1.2 * ops(normal_form).total()
    assert large_multiplies(scaled) == large_multiplies(normal_form)


@pytest.mark.parametrize("recipe", ["fp16", "bf16", "fp8"])
def test_a_cast_operand_adds_three_ops_at_most(normal_form: str, recipe: str) -> None:
    scaled = scalify.opt(normal_form, "scalify-propagate{remarks=0 strict}")
    decide = f"scalify-decide-formats{{recipe={recipe} remarks=0 strict}}"
    cast = scalify.opt(scaled, f"{decide},scalify-quantize{{strict}}")
    casts = ops(cast)["scalify.quantize"]
    assert casts >= 36
    assert ops(cast).total() - ops(normal_form).total() <= 3 * casts


def adam(params: Any, m: Any, v: Any, g: Any) -> Any:
    """Adam as written by hand; leaves [n]."""
    m = 0.9 * m + 0.1 * g
    v = 0.95 * v + 0.05 * g * g
    return params - 1e-3 * m / (jnp.sqrt(v) + 1e-12), m, v


def state_step(recipe: str) -> Any:
    def step(params: Any, moments: Any, x: Any) -> Any:
        g = jax.grad(lambda w: jnp.mean((x @ w) ** 2))(params)
        params, mu, nu = adam(params, moments["mu"], moments["nu"], g)
        return params, {"mu": mu, "nu": nu}

    return scalify.transform(step, recipe=recipe, donate_argnums=(0, 1), strict=True)


def state_arguments(spread: float) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    w = rng.normal(0, 0.02, (32, 8)).astype(np.float32)
    x = rng.normal(0, 1, (16, 32)) * 2.0 ** (spread * np.arange(32))
    zero = np.zeros_like(w)
    return w, {"mu": zero, "nu": zero}, x.astype(np.float32)


STATE_ONLY = '#scalify.recipe<"fp16", linear = false, head = false, saved = given>'


def test_state_is_f16_with_a_power_of_two() -> None:
    args = state_arguments(0.0)
    w, moments = state_step(STATE_ONLY)(*jax.tree.map(jnp.asarray, args))
    for leaf in (w, moments["mu"], np.sqrt(np.asarray(moments["nu"], np.float64))):
        # 11 significant bits: the mantissa is a multiple of 2^-11 but for F32's root.
        mantissa = np.frexp(np.asarray(leaf, np.float64))[0] * 2**11
        np.testing.assert_allclose(mantissa, np.round(mantissa), atol=2.0**-8)
    plain, _ = state_step("none")(*jax.tree.map(jnp.asarray, args))
    assert cosine(np.asarray(w) - args[0], np.asarray(plain) - args[0]) > 0.99


def test_a_second_moment_is_not_flushed() -> None:
    # Gradients of rows that are 2^-31 of the largest: their squares are far below F16's range.
    args = state_arguments(-1.0)
    state = state_step(STATE_ONLY)(*jax.tree.map(jnp.asarray, args))
    w, moments = jax.tree.map(np.asarray, state)
    assert np.all(moments["nu"] > 0)
    # Nothing explodes when the state is read again: Adam's step is at most about its rate.
    again, _ = state_step("none")(*jax.tree.map(jnp.asarray, (w, moments, args[2])))
    assert np.max(np.abs(np.asarray(again) - w)) < 1e-2


def attention(params: Any, x: Any, kv_heads: int) -> Any:
    """One layer of grouped attention over `x` [B, T, 32], 4 heads of 8 channels."""
    q = (x @ params["wq"]).reshape(*x.shape[:2], kv_heads, 4 // kv_heads, 8)
    k = (x @ params["wk"]).reshape(*x.shape[:2], kv_heads, 8)
    v = (x @ params["wv"]).reshape(*x.shape[:2], kv_heads, 8)
    p = jax.nn.softmax(jnp.einsum("btkgh,bskh->bkgts", q, k), axis=-1)
    mixed = jnp.einsum("bkgts,bskh->btkgh", p, v).reshape(x.shape)
    return jnp.mean(jnp.square(jnp.tanh(mixed @ params["wo"]) @ params["head"]))


def attention_arguments(kv_heads: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    narrow = (32, 8 * kv_heads)
    shapes = {"wq": (32, 32), "wk": narrow, "wv": narrow, "wo": (32, 32), "head": (32, 16)}
    params = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}
    return params, rng.normal(size=(2, 16, 32)).astype(np.float32)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_dots_of_attention_have_their_parts(kv_heads: int) -> None:
    grads = jax.grad(lambda p, x: attention(p, x, kv_heads))
    # Every linear layer is cast, however peaked these scores are.
    parts = "sensitive = true, head = false, attention_qk = f16, attention_pv = bf16"
    parts += ", attention_ds = true"
    step = scalify.transform(grads, recipe=f'#scalify.recipe<"fp8", {parts}>', strict=True)
    formats = collections.Counter(
        row["format"].rsplit(" -> ", 1)[0]
        for row in step.report(*attention_arguments(kv_heads)).dots()
    )
    assert formats["f16 x f16"] == 1  # scores
    assert formats["bf16 x bf16"] == 3  # the mix, dP and dV
    mixed = formats["f8E5M2 x f8E4M3FN"] + formats["f8E4M3FN x f8E5M2"]
    # dQ and dK; gradients of wq, wk, wv, wo, and of the input of wo.
    assert mixed == 2 + 5
    assert formats["f8E4M3FN x f8E4M3FN"] == 4


def test_fp16_needs_no_loss_scaling() -> None:
    # The loss is scaled down by 2^24: plain F16 gradients flush to zero.
    def grads(params: Any, x: Any) -> Any:
        return jax.grad(lambda p: 2.0**-24 * attention(p, x, 2))(params)

    args = attention_arguments(2)
    want = jax.jit(grads)(*args)
    assert all(np.max(np.abs(leaf)) < 2.0**-25 for leaf in jax.tree.leaves(want))
    transformed = scalify.transform(grads, recipe="fp16", strict=True)
    # F16 rounds by 2^-12 at most; 0.999 is the bar that a step of 12 layers must hold.
    assert cosine(transformed(*args), want) >= 0.9999
    assert all("f16 x f16 -> f32" in row["format"] for row in transformed.report().dots())


def test_exceptions_by_name_hold_for_all_three_dots() -> None:
    grads = jax.grad(lambda params, x: attention(params, x, 4))
    recipe = r"""#scalify.recipe<"fp8", where = {"\\['wo'\\]" = wide}>"""
    dots = scalify.transform(grads, recipe=recipe).report(*attention_arguments(4)).dots()
    assert sum(row["reason"].startswith("stays wide: name") for row in dots) == 3


def test_saturation_counts_and_nan_stays() -> None:
    def f(w: Any, x: Any) -> Any:
        return x @ w

    w = np.eye(4, dtype=np.float32)
    x = np.array([[1e9, -1e9, np.nan, 1.0]] * 2, np.float32)
    recipe = '#scalify.recipe<"fp16", state = given>'
    exe = scalify.jit(f, recipe=recipe, numerics=scalify.Numerics(scales=[0, 0]))
    out = np.asarray(exe(w, x))
    assert np.isnan(out).all()  # NaN reaches every sum of its row
    out = np.asarray(exe(w, np.where(np.isnan(x), 0, x)))
    np.testing.assert_array_equal(out, [[65504, -65504, 0, 1]] * 2)
    assert sum(row["saturated"] for row in exe.health()) == 4


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_steps_given_in_16_bits(dtype: Any) -> None:
    """A user's own F16 or BF16 step, with a loss scale by select, propagates."""
    optimizer = optax.sgd(1e-2)

    def step(params: Any, x: Any, scale: Any) -> Any:
        def loss(p: Any) -> Any:
            hidden = jax.nn.relu(x @ p["a"]) @ p["b"]
            return scale * jnp.mean(jnp.square(hidden.astype(jnp.float32)))

        grads = jax.tree.map(lambda g: g.astype(jnp.float32) / scale, jax.grad(loss)(params))
        good = jnp.all(jnp.array([jnp.isfinite(g).all() for g in jax.tree.leaves(grads)]))
        updates, _ = optimizer.update(grads, optimizer.init(params), params)
        new = jax.tree.map(lambda p, u: (p + u).astype(p.dtype), params, updates)
        new = jax.tree.map(lambda n, p: jnp.where(good, n, p), new, params)
        return new, jnp.where(good, scale * 2, scale / 2)

    rng = np.random.default_rng(0)
    params = {
        "a": rng.normal(0, 0.1, (32, 64)).astype(dtype),
        "b": rng.normal(0, 0.1, (64, 8)).astype(dtype),
    }
    args = (params, rng.normal(size=(16, 32)).astype(dtype), np.float32(128))
    want, grown = jax.jit(step)(*args)
    for recipe in ("fp16", "fp8"):
        got, scale = scalify.transform(step, recipe=recipe, strict=True)(*args)
        assert scale == grown == 256
        for name in params:
            assert got[name].dtype == dtype
            left, right = (np.asarray(t[name], np.float32) for t in (got, want))
            # One place of the last of the type's bits, where a sum rounds the other way.
            assert np.max(np.abs(left - right)) <= 2.0**-8 * np.max(np.abs(right))


def cnn(params: Any, x: Any) -> Any:
    """Two convolutions and a linear layer; `x` [B, 8, 8, 4]."""
    for name in ("a", "b"):
        x = jax.lax.conv_general_dilated(
            x, params[name], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x)
    return jnp.mean(jnp.square(jnp.mean(x, axis=(1, 2)) @ params["c"]))


def cnn_arguments() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    shapes = {"a": (3, 3, 4, 8), "b": (3, 3, 8, 8), "c": (8, 4)}
    params = {name: rng.normal(0, 0.05, shape).astype(np.float32) for name, shape in shapes.items()}
    return params, rng.normal(size=(4, 8, 8, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("recipe", "wide"),
    [
        ('#scalify.recipe<"fp8", convolution = false>', True),
        ("fp8", False),
        ('#scalify.recipe<"fp8", convolution = true>', False),
        ("fp16", False),
    ],
)
def test_convolutions_are_cast_where_asked(recipe: str, wide: bool) -> None:
    args = cnn_arguments()
    grads = jax.grad(cnn)
    text = jax.jit(grads).lower(*args).as_text(debug_info=True)
    passes = "scalify-import,scalify-propagate{remarks=0 strict},"
    passes += "scalify-decide-formats{remarks=0 strict},scalify-quantize{strict}"
    attribute = recipe if recipe.startswith("#") else f'#scalify.recipe<"{recipe}">'
    text = re.sub(
        r"module @\w+ attributes \{", rf"\g<0>scalify.recipe = {attribute}, ", text, count=1
    )
    lines = [
        line for line in scalify.opt(text, passes).splitlines() if "stablehlo.convolution" in line
    ]
    # Two in the forward, two gradients of kernels, one of an input.
    assert len(lines) == 5
    assert all(
        ('scalify.wide = #scalify.decision<"convolution", "' in line) == wide for line in lines
    )
    step = scalify.transform(grads, recipe=recipe, strict=True)
    # E5M2 rounds a gradient by 2^-3 at most, and errors are independent.
    assert cosine(step(*args), jax.jit(grads)(*args)) > (0.98 if "fp8" in recipe else 0.99999)
