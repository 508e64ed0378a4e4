"""Each use of jax.jit gives the same results under scalify.jit; the page is current."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import jax
import numpy as np
import pytest
from drop_in import page
from drop_in_entry import Entry, ours, theirs
from drop_in_results import USES, results
from drop_in_wrapper import ENTRIES

import scalify

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "drop-in.md"


def same(found: Any, wanted: Any) -> None:
    """Compares two trees: structures, kinds and types of leaves, values."""
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert isinstance(one, jax.Array) == isinstance(other, jax.Array), (one, other)
        if isinstance(other, (str, bool)) or other is None:
            assert one == other
            continue
        left, right = np.asarray(one), np.asarray(other)
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        if right.dtype.kind not in "fV":
            np.testing.assert_array_equal(left, right)
            continue
        # All is computed in F32 or narrower, and sums up to 64 products, XLA's in another order.
        eps = max(float(jax.numpy.finfo(kind).eps) for kind in (right.dtype, np.float32))
        tolerance = 64 * eps
        wide = [side.astype(np.float64) for side in (left, right)]
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.what)
def test_wrapper(entry: Entry) -> None:
    wanted = entry.run(theirs)
    if entry.refused:
        with pytest.raises(Exception, match=re.escape(entry.refused)):
            entry.run(ours)
        return
    same(entry.run(ours), wanted)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_conversion_and_back_rounds(dtype: str) -> None:
    """As in numpy and ml_dtypes; jax.jit may omit the rounding."""
    x = np.random.default_rng(0).normal(size=256).astype(np.float32)
    kind = jax.numpy.dtype(dtype)
    step = scalify.jit(lambda x: x.astype(kind).astype(np.float32) * 3, recipe="none")
    wanted = x.astype(kind).astype(np.float32) * np.float32(3)
    assert np.any(wanted != x * np.float32(3))
    np.testing.assert_array_equal(np.asarray(step(x)), wanted)


@pytest.mark.parametrize("entry", USES, ids=lambda entry: entry.what)
def test_results(entry: Entry) -> None:
    same(entry.run(results("none")), entry.run(results(None)))


@pytest.mark.parametrize("recipe", ["fp8", "fp8-lm-o2"])
@pytest.mark.parametrize("entry", USES, ids=lambda entry: entry.what)
def test_results_of_recipes(entry: Entry, recipe: str) -> None:
    """State that is stored narrow reads like JAX's arrays of its true values."""
    found = results(recipe)
    if recipe == "fp8-lm-o2":
        assert isinstance(found[0].params["w"], scalify.ScaledArray)

    def plain(leaf: Any) -> Any:
        if not isinstance(leaf, scalify.ScaledArray):
            return leaf
        return jax.numpy.asarray(np.asarray(leaf))

    same(entry.run(found), entry.run(jax.tree.map(plain, found)))


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make drop-in"
