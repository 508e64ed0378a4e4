"""LLM-like weights show the figures of the papers that they are made after, at small width."""

from __future__ import annotations

import importlib
import pathlib
import sys
from typing import Any

import numpy as np
import pytest

from scalify.models.llama import LlamaConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENS, DEPTH = 256, 32
CONFIG = LlamaConfig.named(
    "llama-3-8b",
    hidden_size=1024,
    intermediate_size=1408,
    num_attention_heads=8,
    num_key_value_heads=2,
    head_dim=64,
    num_hidden_layers=2,
    vocab_size=2048,
)


@pytest.fixture(scope="module")
def llm_like() -> Any:
    sys.path.insert(0, str(ROOT / "benchmarks" / "numerics"))
    module = importlib.import_module("llm_like")
    sys.path.pop(0)
    return module


@pytest.fixture(scope="module")
def params(llm_like: Any) -> Any:
    return llm_like.make(CONFIG, TOKENS, DEPTH, 0, "float32")


@pytest.fixture(scope="module")
def figures(llm_like: Any, params: Any) -> Any:
    # Other tokens than those that the weights were fitted to.
    return llm_like.measure(params, CONFIG, TOKENS, 7)


def test_massive_activations_are_those_of_llama2_7b(figures: Any) -> None:
    for massive, elsewhere, median in zip(
        figures.massive, figures.elsewhere, figures.median, strict=True
    ):
        # Sun et al. 2024, table 1, within a percent; no third channel.
        assert massive[:2] == pytest.approx([2622, 1547], rel=0.01)
        # Their definition of a massive activation: above 100, and 1,000 times the median.
        assert massive[1] > 1000 * median
        assert max(massive[2], elsewhere) < min(100, 1000 * median)


def test_heads_attend_to_the_start_after_the_first_layer(figures: Any) -> None:
    # Xiao et al. 2023, section 3.1: more than half of the attention; the first layers are local.
    assert figures.sink[0] < 0.05
    assert all(0.5 < share < 0.95 for share in figures.sink[1:])


def test_start_has_small_values(llm_like: Any, params: Any) -> None:
    # Gu et al. 2024: the sink's values are smaller than those of other tokens.
    stream = params["embed"][llm_like.text_like(CONFIG, TOKENS, 7)["tokens"][0]]
    layer = params["layers"][0]
    normed = stream / np.sqrt(np.mean(stream**2, axis=1, keepdims=True)) * layer["attention_norm"]
    sizes = np.linalg.norm(normed @ layer["wv"], axis=1)
    assert sizes[0] < 0.5 * np.median(sizes[1:])


def test_swiglu_is_aligned_and_gains_and_rows_are_spread(figures: Any) -> None:
    # Fishman et al. 2025, section 4: aligned rows make products of outliers. 1 neuron in 128.
    assert all(0.9 / 128 < share < 1.2 / 128 for share in figures.aligned)
    assert all(peak > 40 for peak in figures.peak)
    # Three binades less what 1,024 draws miss of the ends.
    assert 2.9 < figures.gains <= 3
    # Of 1,024 rows of Student's t with three degrees of freedom, the largest is about 15 medians.
    assert 5 < figures.rows < 50
    # Ethayarajh 2019: anisotropic.
    assert figures.cosine == pytest.approx(0.3, abs=0.05)


def test_initial_weights_have_none_of_it(llm_like: Any) -> None:
    import jax

    from scalify.models.llama import init

    found = llm_like.measure(init(CONFIG, jax.random.key(0)), CONFIG, TOKENS, 7)
    assert max(map(max, found.massive)) < 100
    assert max(found.sink) < 0.05
    assert max(found.peak) < 40
    assert max(found.aligned) == found.gains == 0


def test_same_seed_same_weights(llm_like: Any, params: Any) -> None:
    again = llm_like.make(CONFIG, TOKENS, DEPTH, 0, "float32")
    for name, matrix in again["layers"][1].items():
        np.testing.assert_array_equal(matrix, params["layers"][1][name])
    other = llm_like.make(CONFIG, TOKENS, DEPTH, 1, "float32")
    assert not np.array_equal(other["embed"], params["embed"])
