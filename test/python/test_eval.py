"""Evaluation graphs: forward-only, dropout-off and decoding, on state trained by another recipe."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from programs import LLAMA, llama

import scalify

import decode as cached  # isort: skip  (examples/llama, put on the path by `programs`)

CFG = dataclasses.replace(LLAMA, vocab=32, layers=2)
BF16 = dataclasses.replace(CFG, dtype="bfloat16")
STEPS, BATCH = 100, 8

# A cast rounds to nearest: the error is uniform within half a unit in the last place, which in
# relation to values spread evenly over a binade is 0.42 of its largest, 2^-4 for E4M3 (3 bits
# of mantissa) and 2^-8 for BF16 (7). BF16 is held to half of that: XLA's fused chains round
# fewer of the values that are counted below.
E4M3, BF16_ULP = 0.42 * 2.0**-4, 0.42 * 2.0**-9
# Roundings on the way from tokens to logits, per layer: with FP8 two operands of the dots of
# v, o, gate or up, and down; with BF16 also the results of dots, norms, RoPE, SiLU and sums.
ROUNDINGS = {"fp8": 8 * CFG.layers, "bf16": 20 * CFG.layers + 4}
UNIT = {"fp8": E4M3, "bf16": BF16_ULP}


def drift(format_: str) -> float:
    """Returns the expected relative error of logits: independent errors add by squares."""
    return UNIT[format_] * ROUNDINGS[format_] ** 0.5


def texts(seed: int) -> np.ndarray:
    """Tokens that are easy to predict: arithmetic progressions modulo the vocabulary."""
    rng = np.random.default_rng(seed)
    start, stride = rng.integers(0, CFG.vocab, (BATCH, 1)), rng.integers(1, 4, (BATCH, 1))
    return ((start + stride * np.arange(CFG.seq + 1)) % CFG.vocab).astype(np.int32)


def logits(params: Any, tokens: Any) -> Any:
    return llama.logits(params, tokens, CFG)


def evaluate(params: Any, tokens: Any) -> Any:
    """Returns loss and logits, as for a validation pass."""
    scores = llama.logits(params, tokens[:, :-1], CFG)
    losses = optax.softmax_cross_entropy_with_integer_labels(scores, tokens[:, 1:])
    return jnp.mean(losses), scores


@functools.cache
def trained() -> Any:
    """Weights after 100 steps in FP8."""
    adamw = optax.adamw(3e-3)

    def step(params: Any, state: Any, tokens: Any) -> Any:
        loss, grads = jax.value_and_grad(llama.loss)(params, tokens, CFG)
        updates, state = adamw.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    fn = scalify.transform(step, "fp8", donate_argnums=(0, 1))
    params = llama.init(jax.random.key(0), CFG)
    state, losses = adamw.init(params), []
    for seed in range(STEPS):
        params, state, loss = fn(params, state, texts(seed))
        losses.append(float(loss))
    assert np.mean(losses[-5:]) < 0.75 * losses[0]
    return jax.tree.map(np.asarray, params)


@functools.cache
def reference() -> tuple[float, np.ndarray]:
    loss, scores = jax.jit(evaluate)(trained(), texts(1000))
    return float(loss), np.asarray(scores)


def compiled(backend: str, fn: Any, recipe: str, **options: Any) -> Any:
    make = {"jit": scalify.jit, "transform": scalify.transform}[backend]
    return make(fn, recipe, strict=True, **options)


def assert_near(loss: Any, scores: Any, format_: str) -> None:
    """Asserts that loss and logits are within the format's roundings of F32's."""
    want, exact = reference()
    centred = exact - exact.mean(-1, keepdims=True)
    spread = float(np.sqrt(np.mean(centred**2)))
    error = np.asarray(scores) - exact
    error -= error.mean(-1, keepdims=True)  # a shift of all logits changes nothing
    rms = float(np.sqrt(np.mean(error**2)))
    # Factor 2: errors of one layer's operands are not quite independent.
    assert 0 < rms < 2 * drift(format_) * spread
    # To first order the mean of one logit error a token; to second, half the variance.
    sigma = 2 * drift(format_) * spread
    assert abs(float(loss) - want) < 3 * sigma / (BATCH * CFG.seq) ** 0.5 + sigma**2 / 2


@pytest.mark.parametrize("backend", ["jit", "transform"])
def test_state_trained_in_fp8_is_read_in_f32_and_fp8(backend: str) -> None:
    params, tokens = trained(), texts(1000)
    loss, scores = compiled(backend, evaluate, "none")(params, tokens)
    want, exact = reference()
    np.testing.assert_allclose(loss, want, rtol=1e-5)
    np.testing.assert_allclose(scores, exact, atol=1e-4)
    assert_near(*compiled(backend, evaluate, "fp8")(params, tokens), "fp8")


def test_state_trained_in_fp8_is_read_in_bf16() -> None:
    def narrow(params: Any, tokens: Any) -> Any:
        scores = llama.logits(params, tokens[:, :-1], BF16)
        losses = optax.softmax_cross_entropy_with_integer_labels(scores, tokens[:, 1:])
        return jnp.mean(losses), scores

    fn = scalify.transform(narrow, "none", strict=True)
    assert_near(*fn(trained(), texts(1000)), "bf16")


def test_the_bound_is_not_empty() -> None:
    """The same function in other units: casts without scales miss the bound, ours hold it."""
    shifts = {"wv": -10, "wo": 10, "w_up": -10, "w_down": 10}  # each pair is linear in between
    layers = [
        {name: leaf * np.float32(2.0 ** shifts.get(name, 0)) for name, leaf in layer.items()}
        for layer in trained()["layers"]
    ]
    params, tokens = trained() | {"layers": layers}, texts(1000)

    def error(recipe: str) -> float:
        _, scores = scalify.transform(evaluate, recipe)(params, tokens)
        return float(np.linalg.norm(scores - reference()[1]) / np.linalg.norm(reference()[1]))

    assert error("fp8") < 2 * drift("fp8") < error("fp8-plain")


def diagnose(fn: Any, *args: Any, donate: Any = ()) -> tuple[list[str], set[str]]:
    """Returns the warnings of a strict FP8 compilation, without and with locations, and phases."""
    lowered = jax.jit(fn, donate_argnums=donate, keep_unused=True).lower(*args)
    warnings: list[str] = []
    phases: set[str] = set()
    for debug_info in (False, True):
        options = {"recipe": "fp8", "strict": True}
        options["scales"] = scalify.measure(args).entries()
        _, report, found = scalify._compiler.transform(
            lowered.as_text(debug_info=debug_info), json.dumps(options)
        )
        warnings += [d["message"] for d in found if d["severity"] == "warning"]
        phases |= {row["phase"] for row in json.loads(report) if row["op"] != "argument"}
    return warnings, phases


def step_of(params: Any, cache: Any, token: Any, at: Any) -> Any:
    return cached.decode(params, cache, token, at, CFG)


def test_forward_only_graphs_are_forward_and_raise_no_warning() -> None:
    params = jax.tree.map(np.asarray, llama.init(jax.random.key(0), CFG))
    tokens = texts(0)
    assert diagnose(logits, params, tokens) == ([], {"forward"})
    assert diagnose(evaluate, params, tokens) == ([], {"forward"})
    cache = cached.init_cache(CFG, BATCH, CFG.seq)
    assert diagnose(step_of, params, cache, tokens[:, 0], np.int32(0), donate=1) == (
        [],
        {"forward"},
    )


def test_a_cache_is_state_and_takes_the_scale_of_what_is_written() -> None:
    params = jax.tree.map(np.asarray, llama.init(jax.random.key(0), CFG))
    cache = cached.init_cache(CFG, BATCH, CFG.seq)
    args = (params, cache, texts(0)[:, 0], np.int32(0))
    fn = scalify.transform(step_of, "fp8", donate_argnums=1)
    rows = {row["value"]: row for row in fn.report(*args)}
    for layer in range(CFG.layers):
        row = rows[f"cache[{layer}]['value']"]
        assert row["reason"].endswith("takes the scale of the values written into it"), row
    text = jax.jit(step_of, donate_argnums=1).lower(*args).as_text(debug_info=True)
    assert (
        scalify.opt(text, "scalify-import").count("scalify.role = #scalify.role<state>")
        == 2 * CFG.layers
    )


def greedy_full(params: Any, prompt: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and logits by the whole forward pass at every step, in F32."""
    tokens = prompt
    run = jax.jit(logits)
    scores = []
    for _ in range(length):
        padded = np.pad(tokens, ((0, 0), (0, CFG.seq - tokens.shape[1])))
        last = np.asarray(run(params, padded))[:, tokens.shape[1] - 1]
        scores.append(last)
        tokens = np.concatenate([tokens, last.argmax(-1)[:, None].astype(np.int32)], axis=1)
    return tokens, np.stack(scores, axis=1)


def decoded(fn: Any, params: Any, tokens: np.ndarray) -> np.ndarray:
    """Logits of the next token after each of `tokens` [B, T], one token a step."""
    cache = cached.init_cache(CFG, tokens.shape[0], CFG.seq)
    scores = []
    for at in range(tokens.shape[1]):
        cache, last = fn(params, cache, tokens[:, at], np.int32(at))
        scores.append(np.asarray(last))
    return np.stack(scores, axis=1)


@pytest.mark.parametrize("backend", ["jit", "transform"])
def test_decoding_with_a_cache_is_the_full_forward(backend: str) -> None:
    params, prompt = trained(), texts(2000)[:, :6]
    tokens, exact = greedy_full(params, prompt, 8)
    plain = compiled(backend, step_of, "none", donate_argnums=1)
    got = decoded(plain, params, tokens[:, :-1])[:, 5:]
    np.testing.assert_allclose(got, exact, atol=1e-4)
    assert np.array_equal(got.argmax(-1), tokens[:, 6:])

    # The scales of a cache that starts at zero are those of what is written into it.
    narrow = decoded(compiled(backend, step_of, "fp8", donate_argnums=1), params, tokens[:, :-1])
    error = np.linalg.norm(narrow[:, 5:] - exact) / np.linalg.norm(exact)
    assert 0 < error < 2 * drift("fp8")


def test_decoding_in_a_scan_is_decoding_in_steps() -> None:
    params, tokens = trained(), texts(2000)[:, :8]

    def run(params: Any, cache: Any, tokens: Any) -> Any:
        def body(cache: Any, at: Any) -> Any:
            return cached.decode(params, cache, tokens[:, at], at, CFG)

        return jax.lax.scan(body, cache, jnp.arange(tokens.shape[1]))[1]

    cache = cached.init_cache(CFG, BATCH, CFG.seq)
    want = decoded(jax.jit(step_of), params, tokens)
    for recipe, bound in (("none", 1e-5), ("fp8", 2 * drift("fp8"))):
        got = np.asarray(scalify.transform(run, recipe)(params, cache, tokens))
        error = np.linalg.norm(got.swapaxes(0, 1) - want) / np.linalg.norm(want)
        assert error < bound, recipe


def test_dropout_is_off_in_evaluation_and_recipes_differ() -> None:
    """One function, a static flag: trained under FP8 with dropout, evaluated in F32 without."""

    def loss(w: Any, x: Any, key: Any, train: bool) -> Any:
        hidden = jax.nn.relu(x @ w["in"])
        if train:
            hidden = jnp.where(jax.random.bernoulli(key, 0.5, hidden.shape), hidden * 2, 0.0)
        return jnp.mean((hidden @ w["mid"] @ w["out"] - x) ** 2)

    def step(w: Any, x: Any, key: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(w, x, key, True)
        return jax.tree.map(lambda a, g: a - 0.05 * g, w, grads), value

    rng = np.random.default_rng(0)
    w = {n: rng.normal(0, 0.2, (32, 32)).astype(np.float32) for n in ("in", "mid", "out")}
    x, key = rng.normal(size=(64, 32)).astype(np.float32), jax.random.key(0)
    train = scalify.transform(step, "fp8")
    evaluate = scalify.transform(loss, "none", strict=True, static_argnums=3)
    text = evaluate.text(w, x, key, False)
    assert "shift_right_logical" not in text and "xf8" not in text
    before = float(evaluate(w, x, key, False))
    np.testing.assert_allclose(before, loss(w, x, key, False), rtol=1e-5)
    for index in range(10):
        w, _ = train(w, x, jax.random.fold_in(key, index))
    assert float(evaluate(w, x, key, False)) < before
