"""Ragged dots, as JAX lowers them for a GPU: on the CPU, and as products of a GPU's library."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cpu_run import compile_text
from jax import lax

from scalify import _compiler
from scalify._executable import Executable


def step(x: Any, w: Any, sizes: Any) -> Any:
    """Returns the rows' products and the gradients of their squares."""

    def loss(x: Any, w: Any) -> Any:
        y = lax.ragged_dot(x, w, sizes)
        return jnp.sum(y.astype(jnp.float32) ** 2), y

    (_, y), grads = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(x, w)
    return y, *grads


def text_of(*args: Any) -> str:
    text = jax.jit(step).trace(*args).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count('"chlo.ragged_dot"(') == 3  # forward, and the gradients of both operands
    return text


def arguments(rows: int, sizes: list[int], dtype: Any = np.float32) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(rows, 12)), rng.normal(size=(len(sizes), 12, 20))
    return x.astype(dtype), w.astype(dtype), np.array(sizes, np.int32)


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        (37, [1, 2, 3]),  # rows of no group
        (5, [1, 0, 2, 0, 0, 2]),  # fewer rows than groups
        (1200, [700, 500]),  # several tiles a group
    ],
)
def test_ragged_dots(rows: int, sizes: list[int]) -> None:
    args = arguments(rows, sizes)
    # What belongs to no group reaches no result.
    args[0][sum(sizes) :] = np.nan
    got = compile_text(text_of(*args)).run(list(args))
    args[0][sum(sizes) :] = 0
    want = jax.jit(step)(*args)
    for mine, theirs in zip(got, want, strict=True):
        theirs = np.asarray(theirs)
        # Sums of up to 700 products in another order.
        atol = 3e-6 * np.abs(theirs).max()
        np.testing.assert_allclose(np.asarray(mine), theirs, rtol=0, atol=atol)


def test_a_nan_stays_in_its_group() -> None:
    args = arguments(40, [10, 17, 13])
    args[0][12, 3] = np.nan
    got = compile_text(text_of(*args)).run(list(args))
    assert np.isnan(got[0]).all(1).tolist() == [row == 12 for row in range(40)]
    assert np.isnan(got[2]).any((1, 2)).tolist() == [False, True, False]


def test_sums_of_bf16_are_rounded_once() -> None:
    args = arguments(1200, [700, 500], jnp.bfloat16)
    got = compile_text(text_of(*args)).run(list(args))
    x, w, _ = (np.asarray(arg, np.float32) for arg in args)
    first = np.asarray(got[0], np.float32)[:700]
    # The cotangent is 2 y in BF16, which is exact.
    want = x[:700].T @ (2 * first)
    np.testing.assert_allclose(first, x[:700] @ w[0], rtol=0, atol=2**-8 * np.abs(first).max())
    # Half a unit of BF16's last place, 8 bits.
    found = np.asarray(got[2], np.float32)[0]
    assert np.abs(found - want).max() <= 2**-8 * np.abs(want).max()


def test_a_gpu_multiplies_tiles_by_its_library() -> None:
    options = {"recipe": "fp8", "target": "sm_90a", "ptxas": "none"}
    args = arguments(1200, [700, 500])
    artefact, _ = _compiler.compile(text_of(*args), json.dumps(options))
    exe = Executable(artefact, device="null")
    exe(*args)
    calls = [line for line in exe.trace.splitlines() if line.startswith("cublasLtMatmul ")]
    # 1,200 rows in 2 groups: 4 tiles of 512 rows at most.
    assert len(calls) == 3 and all(" batch=4 " in call for call in calls), calls
