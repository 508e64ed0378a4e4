"""scalify.models.llama by itself and under scalify.jit: forms that must agree, sizes, masks."""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.ad_checkpoint import print_saved_residuals
from programs import cosine

import scalify
from scalify.models import llama
from scalify.models.llama import LlamaConfig

SMALL = LlamaConfig(
    vocab_size=128,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)
LENGTH = 32
INIT = jax.jit(llama.init, static_argnums=0)
LOGITS = jax.jit(llama.apply, static_argnames="config")
GRADS = jax.jit(jax.value_and_grad(llama.loss), static_argnums=2)

# Elements of safetensors' published files, embeddings included.
PUBLISHED = {
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-30b": 32_528_943_616,
    "llama-65b": 65_285_660_672,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b": 7_241_732_096,
    "qwen2-0.5b": 494_032_768,
    "qwen2-1.5b": 1_543_714_304,
    "qwen2-7b": 7_615_616_512,
    "qwen2-72b": 72_706_203_648,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
}


def packed(config: LlamaConfig = SMALL, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns a batch of rows of two documents each, some targets without a loss."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, config.vocab_size, (4, LENGTH + 1)).astype(np.int32)
    places = [*range(12), *range(LENGTH - 12)]
    return {
        "tokens": tokens[:, :-1],
        "targets": tokens[:, 1:],
        "weights": (rng.random((4, LENGTH)) < 0.8).astype(np.float32),
        "segments": np.tile(np.int32([0] * 12 + [1] * (LENGTH - 12)), (4, 1)),
        "positions": np.tile(np.int32(places), (4, 1)),
    }


def stacked(params: Any) -> Any:
    return {**params, "layers": llama.stack(params["layers"])}


def close(got: Any, want: Any) -> None:
    """Results of other programs, which sum F32 in other orders."""
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        size = float(jnp.max(jnp.abs(theirs)))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * size)


@pytest.mark.parametrize("name", PUBLISHED)
def test_named_models_have_the_published_number_of_parameters(name: str) -> None:
    assert llama.param_count(LlamaConfig.named(name)) == PUBLISHED[name]


def test_the_count_is_that_of_the_tree() -> None:
    for changes in ({}, {"model_type": "qwen2"}, {"model_type": "qwen3", "attention_bias": True}):
        config = SMALL.replace(**changes, tie_word_embeddings=bool(changes), scan_layers=True)
        init = functools.partial(llama.init, config, dtype=jnp.bfloat16)
        params = jax.eval_shape(init, jax.random.key(0))
        assert sum(leaf.size for leaf in jax.tree.leaves(params)) == llama.param_count(config)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"bfloat16"}
        shapes = jax.tree.map(lambda leaf: leaf.shape, params)
        assert shapes == llama.shapes(config)
    # 6 per element of a matrix and 12 T H for each of 2 layers' attention.
    matrices = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96) + 64 * 128
    assert llama.flops_per_token(SMALL, 32) == 6 * matrices + 12 * 2 * 64 * 32
    windows = SMALL.replace(sliding_window=8)
    assert llama.flops_per_token(windows, 32) == 6 * matrices + 12 * 2 * 64 * 8


def test_scanned_and_rematerialised_layers_give_the_same_gradients() -> None:
    kinds = ("full_attention", "sliding_attention")
    config = SMALL.replace(sliding_window=6, layer_types=kinds, model_type="qwen3")
    params = INIT(config, jax.random.key(0))
    want = GRADS(params, packed(), config)
    scanned = config.replace(scan_layers=True)
    close(INIT(scanned, jax.random.key(0)), stacked(params))
    close(GRADS(params, packed(), config.replace(remat="full")), want)
    want = (want[0], stacked(want[1]))
    for remat in ("none", "dots", "dots_no_batch"):
        close(GRADS(stacked(params), packed(), scanned.replace(remat=remat)), want)


@pytest.mark.parametrize("remat", ["full", "dots", "dots_no_batch"])
def test_remat_keeps_less_for_the_backward(remat: str, capsys: pytest.CaptureFixture[str]) -> None:
    def kept(config: LlamaConfig) -> int:
        """Returns the number of elements that the forward leaves, from lines as f32[4,32] ..."""
        params = jax.eval_shape(lambda: llama.init(config, jax.random.key(0)))
        print_saved_residuals(lambda tree: llama.loss(tree, packed(), config), params)
        lines = [x for x in capsys.readouterr().out.splitlines() if "from the argument" not in x]
        shapes = [re.match(r"\w+\[([\d,]*)\]", line) for line in lines]
        return sum(math.prod(map(int, m[1].split(","))) for m in shapes if m and m[1])

    assert 0 < kept(SMALL.replace(remat=remat)) < kept(SMALL)


def test_documents_of_a_row_do_not_see_one_another() -> None:
    params, batch = INIT(SMALL, jax.random.key(0)), packed()
    whole = LOGITS(
        params,
        batch["tokens"],
        SMALL,
        positions=batch["positions"],
        segments=batch["segments"],
    )
    for part in (slice(0, 12), slice(12, LENGTH)):
        close(whole[:, part], LOGITS(params, batch["tokens"][:, part], SMALL))


def test_the_loss_is_the_weighted_mean_of_optax() -> None:
    params, batch = INIT(SMALL, jax.random.key(0)), packed()
    logits = LOGITS(params, batch["tokens"], SMALL)
    each = optax.softmax_cross_entropy_with_integer_labels(logits, batch["targets"])
    plain = {name: batch[name] for name in ("tokens", "targets")}
    close(GRADS(params, plain, SMALL)[0], jnp.mean(each))
    weighted = {**plain, "weights": batch["weights"]}
    want = jnp.sum(each * batch["weights"]) / batch["weights"].sum()
    close(GRADS(params, weighted, SMALL)[0], want)
    nothing = {**plain, "weights": np.zeros_like(batch["weights"])}
    loss, grads = GRADS(params, nothing, SMALL)
    assert loss == 0 and not any(np.any(leaf) for leaf in jax.tree.leaves(grads))


@pytest.mark.parametrize("scan_layers", [False, True], ids=["unrolled", "scan"])
def test_a_cache_gives_the_logits_of_the_whole_row(scan_layers: bool) -> None:
    config = SMALL.replace(sliding_window=5, scan_layers=scan_layers)
    params, tokens = INIT(config, jax.random.key(0)), packed()["tokens"]
    cache, found = llama.init_cache(config, 4, 40), []
    for start, end in ((0, 9), (9, 10), (10, 11), (11, LENGTH)):
        logits, cache = LOGITS(params, tokens[:, start:end], config, cache=cache)
        found.append(logits)
    assert cache["length"] == LENGTH
    close(jnp.concatenate(found, axis=1), LOGITS(params, tokens, config))


def test_generation_is_greedy_decoding_of_each_prompt() -> None:
    config = SMALL.replace(scan_layers=True, initializer_range=0.2)
    params = INIT(config, jax.random.key(0))
    prompts = [[5], [1, 2, 3, 4], list(range(70))]
    # What follows a token does not change its logits, so rows have one length.
    rows = np.zeros((3, 75), np.int32)
    for row, prompt in zip(rows, prompts, strict=True):
        row[: len(prompt)] = prompt
    want: list[list[int]] = [[], [], []]
    for step in range(5):
        chosen = np.argmax(LOGITS(params, rows, config), axis=-1)
        for row, prompt, found, picks in zip(rows, prompts, want, chosen, strict=True):
            found.append(int(picks[len(prompt) + step - 1]))
            row[len(prompt) + step] = found[-1]
    seen: list[Any] = []
    assert llama.generate(params, config, prompts, 5, on_token=seen.append) == want
    assert np.array(seen).T.tolist() == want
    assert llama.generate(params, config, prompts[1], 5) == want[1]
    stop = want[1][-1]
    end = want[1].index(stop) + 1
    assert llama.generate(params, config, prompts[1], 5, stop=[stop]) == want[1][:end]
    # One token to choose from is the most likely one.
    sampled = llama.generate(params, config, prompts[1], 5, temperature=0.8, top_k=1)
    assert sampled == want[1]
    assert llama.generate(params, config, prompts[1], 5, temperature=0.8, top_p=1e-6) == want[1]
    with pytest.raises(ValueError, match="prompt 1 has 1 tokens: expected some, from 0 to 127"):
        llama.generate(params, config, [[1], [128]])


def test_sampling_follows_the_probabilities() -> None:
    config = LlamaConfig(
        vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    params = INIT(config.replace(initializer_range=1.0), jax.random.key(1))
    prompts = [[3]] * 4000
    chance = jax.nn.softmax(LOGITS(params, jnp.array([[3]]), config)[0, -1])
    got = np.bincount(np.ravel(llama.generate(params, config, prompts, 1, temperature=1.0)))
    # Five deviations of a share of 4,000 draws are at most .04.
    np.testing.assert_allclose(got / 4000, chance[: len(got)], atol=0.04)
    order = np.argsort(-np.asarray(chance))
    three = llama.generate(params, config, prompts, 1, temperature=1.0, top_k=3)
    assert set(np.ravel(three)) == set(order[:3])
    mass = float(chance[order[0]] + chance[order[1]] / 2)
    two = llama.generate(params, config, prompts, 1, temperature=1.0, top_p=mass)
    assert set(np.ravel(two)) == set(order[:2])


@pytest.mark.parametrize("scan_layers", [False, True], ids=["unrolled", "scan"])
def test_a_step_trains_by_scalify(scan_layers: bool) -> None:
    config = SMALL.replace(scan_layers=scan_layers)
    params, batch = INIT(config, jax.random.key(0)), packed()
    optimizer = optax.adamw(3e-3)

    def step(params: Any, state: Any, batch: Any) -> Any:
        loss, grads = jax.value_and_grad(llama.loss)(params, batch, config)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss, grads

    *_, want, exact = jax.jit(step)(params, optimizer.init(params), batch)
    # None rounds as F32 does. Each E4M3 operand has errors of 2^-4 at most, whose sum turns
    # gradients by a few percent: .99 leaves room for that, and none for a wrong scale.
    for recipe, least in (("none", 1 - 1e-6), ("fp8", 0.99)):
        compiled = scalify.jit(step, recipe)
        now, state, loss, grads = compiled(params, optimizer.init(params), batch)
        assert abs(float(loss) - float(want)) < 1e-3
        assert cosine(grads, exact) >= least
        for _ in range(9):
            now, state, loss, _ = compiled(now, state, batch)
        assert float(loss) < 0.9 * float(want)
