"""FP8 dots in StableHLO out: XLA:GPU's pattern, checked independently of the compiler."""

from __future__ import annotations

import functools
from typing import Any

import fp8_contract
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from programs import LLAMA, llama

import scalify
from scalify import _call

EVERY_DOT = '#scalify.recipe<"fp8", head = true, attention = true>'
F8 = jnp.float8_e4m3fn


def step() -> tuple[Any, tuple[Any, ...]]:
    """A training step of the 2-layer LLaMA and its arguments."""
    adamw = optax.adamw(1e-3)
    params = llama.init(jax.random.key(0), LLAMA)
    tokens = np.random.default_rng(1).integers(0, LLAMA.vocab, (2, LLAMA.seq + 1), np.int32)

    def train_step(params: Any, state: Any, tokens: Any) -> Any:
        value, grads = jax.value_and_grad(llama.loss)(params, tokens, LLAMA)
        updates, state = adamw.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return train_step, (params, adamw.init(params), tokens)


def cuda_text(fn: Any, *args: Any) -> str:
    traced = fn.trace(*args) if hasattr(fn, "trace") else jax.jit(fn).trace(*args)
    return traced.lower(lowering_platforms=("cuda",)).as_text(debug_info=True)


@pytest.mark.parametrize("recipe", ["fp8", "fp8-current"])
def test_every_dot_of_a_llama_step_is_the_pattern(recipe: str) -> None:
    train_step, args = step()
    every = scalify.Recipe.preset(recipe).replace(sensitive=True)
    dots, casts = fp8_contract.check(cuda_text(scalify.transform(train_step, every), *args))
    # 7 linear layers a block and their two gradients each; the head stays wide.
    assert len(dots) == 2 * 7 * 3 and not casts
    assert sum(dot.backward for dot in dots) == 2 * 7 * 2
    assert all(set(dot.formats) == {"f8E4M3FN"} for dot in dots if not dot.backward)
    assert all(set(dot.formats) == {"f8E4M3FN", "f8E5M2"} for dot in dots if dot.backward)
    assert not {problem for dot in dots for problem in dot.problems}


def test_the_cpu_gets_no_bf16_and_a_tpu_dots_on_fp8() -> None:
    train_step, args = step()
    recipe = scalify.Recipe(head=False, sensitive=True).replace(attention=False)
    transformed = scalify.transform(train_step, recipe=recipe)
    assert "bf16" not in transformed.lower(*args).as_text()
    text = transformed.trace(*args).lower(lowering_platforms=("tpu",)).as_text()
    dots = [line for line in text.splitlines() if "dot_general" in line and "xf8" in line]
    assert len(dots) == 42 and "bf16" not in text
    assert all(line.endswith("xf32>") for line in dots)


def in_form(module: _call.Module, form: str) -> Any:
    """Returns the function of a module, its FP8 dots in a form, for this machine."""
    same = _call.Module(module.name, module.out_avals, lambda _: module.text(form), None)
    return jax.jit(functools.partial(_call.call, same))


def qdq(x: Any, scale: Any, wide: Any = jnp.bfloat16) -> Any:
    return x.astype(wide) * jnp.broadcast_to(jnp.asarray(scale).astype(wide), x.shape)


def flax_dense(x: Any, w: Any, scale: Any) -> Any:
    """The form that Flax ships for XLA:GPU, written by Flax."""
    from flax.linen import fp8_ops

    x, w = (fp8_ops.qdq(side, F8, scale, jnp.bfloat16) for side in (x, w))
    return jax.lax.dot_general(x, w, (((1,), (0,)), ((), ())))


def test_the_checker_takes_what_flax_writes() -> None:
    x = jnp.ones((32, 64), jnp.bfloat16)
    dots, casts = fp8_contract.check(cuda_text(flax_dense, x, x.T, jnp.float32(1)))
    assert len(dots) == 1 and not dots[0].problems, dots
    # Flax clamps by a minimum and a maximum call; the checker is written for one clamp.
    assert all(cast.startswith("6: a cast of what") for cast in casts)


X, W = jnp.ones((32, 64), F8), jnp.ones((64, 16), F8)
G = jnp.ones((64, 16), jnp.float8_e5m2)
REJECTED = {
    "2: the scale has rank": lambda x, w, g: (
        x.astype(jnp.bfloat16) * jnp.arange(64, dtype=jnp.bfloat16) @ qdq(w, 2.0)
    ),
    "1: stablehlo.multiply by no broadcast": lambda x, w, g: (
        x.astype(jnp.bfloat16) * jnp.exp(x.astype(jnp.bfloat16)) @ qdq(w, 2.0)
    ),
    "1: stablehlo.multiply is no convert": lambda x, w, g: qdq(qdq(x, 2.0), 4.0) @ qdq(w, 2.0),
    "1: stablehlo.clamp is no convert": lambda x, w, g: (
        jax.lax.clamp(jnp.bfloat16(-8), qdq(x, 2.0), jnp.bfloat16(8)) @ qdq(w, 2.0)
    ),
    "3: lhs has 2 contracting": lambda x, w, g: jnp.einsum(
        "abk,abn->kn", qdq(x, 2.0).reshape(4, 8, 64), qdq(x, 2.0).reshape(4, 8, 64)
    ),
    "4: f8E5M2 x f8E5M2": lambda x, w, g: qdq(g, 2.0).T @ qdq(g, 2.0),
    "8: precision": lambda x, w, g: jnp.matmul(qdq(x, 2.0), qdq(w, 2.0), precision="highest"),
    "9: dequantized to f32": lambda x, w, g: qdq(x, 2.0, jnp.float32) @ qdq(w, 2.0, jnp.float32),
}


@pytest.mark.parametrize("problem", REJECTED)
def test_the_checker_rejects(problem: str) -> None:
    dots, _ = fp8_contract.check(cuda_text(REJECTED[problem], X, W, G))
    assert any(p.startswith(problem) for dot in dots for p in dot.problems), dots


def test_the_checker_rejects_casts_that_do_not_saturate() -> None:
    wide = jnp.ones((32, 32), jnp.float32)
    _, casts = fp8_contract.check(cuda_text(lambda x: x.astype(F8), wide))
    assert casts == ["6: a cast of an argument"]
    _, casts = fp8_contract.check(
        cuda_text(lambda x: jax.lax.clamp(-440.0, x, 440.0).astype(F8), wide)
    )
    assert casts == ["6: clamped to [-440.0, 440.0]"]


EQUATIONS = (
    "mk,kn->mn",
    "km,nk->mn",
    "abk,kn->abn",
    "abm,abn->mn",
    "bmk,bkn->bmn",
    "mbk,nbk->bmn",
    "amk,kna->mn",
    "mkb,bnk->bmn",
    "amcb,bncad->bmdn",
    "k,kn->n",
)


@functools.cache
def case(equation: str) -> tuple[np.ndarray, np.ndarray]:
    """Small integers times powers of two: exact in FP8, and so are all sums in F32."""
    sizes = dict(zip("abcdkmn", (2, 3, 4, 2, 8, 5, 6), strict=True))
    rng = np.random.default_rng(len(equation))
    sides = equation.split("->")[0].split(",")
    draws = (rng.integers(-8, 9, [sizes[name] for name in side]) for side in sides)
    x, w = (draw.astype(np.float32) for draw in draws)
    return x * 4, w / 32


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("form", ["wide", "xla-gpu", "plain"])
def test_forms_are_equal_bit_for_bit_where_sums_are_exact(equation: str, form: str) -> None:
    x, w = case(equation)

    def fn(x: Any, w: Any) -> Any:
        return jnp.einsum(equation, x, w)

    transformed = scalify.transform(
        fn, recipe=EVERY_DOT, numerics=scalify.Numerics(scales=[3, -4]), strict=True
    )
    module = transformed._entry(transformed._signature.bind((x, w), {})).module
    text = module.text(form)
    assert "xf8E4M3FN" in text
    (got,) = in_form(module, form)(x, w)
    want = np.einsum(equation, x.astype(np.float64), w.astype(np.float64))
    np.testing.assert_array_equal(np.asarray(got), want.astype(np.float32))
    if form == "xla-gpu":
        dots, casts = fp8_contract.check(text)
        assert len(dots) == 1 and not dots[0].problems and not casts


def test_an_fp8_value_times_a_power_of_two_is_exact_in_bf16() -> None:
    """Why BF16 may be in between: all codes of both formats, at all normal scales."""
    for format_ in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        values = np.arange(256, dtype=np.uint8).view(format_).astype(np.float64)
        values = values[np.isfinite(values)]
        for exponent in range(-100, 101, 4):
            product = values * 2.0**exponent
            assert np.array_equal(product.astype(ml_dtypes.bfloat16).astype(np.float64), product)


def test_forms_of_a_step_agree_to_the_order_of_sums() -> None:
    def loss(params: Any, x: Any) -> Any:
        hidden = jnp.tanh(x @ params["a"])
        return jnp.mean((jnp.tanh(hidden @ params["b"]) @ params["c"]) ** 2)

    rng = np.random.default_rng(0)
    args = (
        {name: rng.normal(0, 0.1, (64, 64)).astype(np.float32) for name in "abc"},
        rng.normal(size=(4, 8, 64)).astype(np.float32),
    )
    transformed = scalify.transform(jax.value_and_grad(loss), EVERY_DOT)
    module = transformed._entry(transformed._signature.bind(args, {})).module
    results = []
    for form in ("wide", "xla-gpu", "plain"):
        results.append(in_form(module, form)(*jax.tree.leaves(args)))
    # Products are the same numbers, and F32 sums of at most 64 of them differ by their order
    # alone; but a value at a tie may be cast to its other neighbour, 2^-4 away, one in hundreds.
    for other in results[1:]:
        for left, right in zip(results[0], other, strict=True):
            error = np.linalg.norm(left - right) / np.linalg.norm(left)
            assert error < 2**-4 / 100**0.5
