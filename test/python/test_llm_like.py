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
# Products of independent normal values have tails of e^-x: ln(256 * 1408) = 13 root mean squares at
# the largest, more where a gate's sizes differ. Three times that.
PRODUCT = 40
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
    # The first layers are local: even attention gives the start ln 2 / 128 = 0.005 in the second
    # half of 256 queries, and a gain up to twice that of one key does not make it a sink.
    assert figures.sink[0] < 0.01
    # Xiao et al. 2023, section 3.1: more than half; the largest share of a head is 0.95 by design.
    assert all(0.5 < share < 0.95 for share in figures.sink[1:])


def test_start_has_small_values(llm_like: Any, params: Any) -> None:
    # Gu et al. 2024: the sink's values are smaller than those of other tokens; a tenth by design,
    # and normed rows are of one size up to what gains of three binades weight.
    stream = params["embed"][llm_like.text_like(CONFIG, TOKENS, 7)["tokens"][0]]
    layer = params["layers"][0]
    normed = stream / np.sqrt(np.mean(stream**2, axis=1, keepdims=True)) * layer["attention_norm"]
    sizes = np.linalg.norm(normed @ layer["wv"], axis=1)
    assert sizes[0] < 0.2 * np.median(sizes[1:])


def test_swiglu_is_aligned_and_gains_and_rows_are_spread(figures: Any) -> None:
    # Fishman et al. 2025, section 4: aligned rows make products of outliers. 1 neuron in 128 are 11
    # of 1,408; the one that writes the massive channels may be one of them, or one more.
    width = CONFIG.intermediate_size
    assert all(10 <= round(share * width) <= 12 for share in figures.aligned)
    # Rows of three times the size make a square of nine times the product, 9 * 3.4^2 at the largest
    # of 2,800 draws; PRODUCT is below half of that.
    assert all(peak > PRODUCT for peak in figures.peak)
    # Three binades less what 1,024 draws miss of the ends.
    assert 2.9 < figures.gains <= 3
    # The largest factor of 1,024 rows is 10 medians: the roots of chi square's 1/1024 quantile, for
    # three degrees of freedom, and of its median. It is within these in 99 % of draws.
    assert 5 < figures.rows < 50
    # Ethayarajh 2019: anisotropic, 0.3 by design. Other directions of 1,024 elements are orthogonal
    # up to 1/32, the mean of 1,024 rows up to 1/1024, with some room for chance.
    assert figures.cosine == pytest.approx(0.3, abs=0.01)


def test_initial_weights_have_none_of_it(llm_like: Any) -> None:
    import jax

    from scalify.models.llama import init

    found = llm_like.measure(init(CONFIG, jax.random.key(0)), CONFIG, TOKENS, 7)
    assert max(map(max, found.massive)) < 100
    assert max(found.sink) < 0.01
    assert max(found.peak) < PRODUCT
    assert max(found.aligned) == found.gains == 0


def test_same_seed_same_weights(llm_like: Any, params: Any) -> None:
    again = llm_like.make(CONFIG, TOKENS, DEPTH, 0, "float32")
    for name, matrix in again["layers"][1].items():
        np.testing.assert_array_equal(matrix, params["layers"][1][name])
    other = llm_like.make(CONFIG, TOKENS, DEPTH, 1, "float32")
    assert not np.array_equal(other["embed"], params["embed"])
