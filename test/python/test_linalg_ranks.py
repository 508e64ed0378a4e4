"""Factorisations of sharded matrices: a device has whole matrices, and its part of a batch."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import linalg_steps
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from test_linalg import general, power, well
from test_simulate_ranks import sharded

import scalify

A, B = well(8, 8, 8).astype(np.float32), general(8, 8).astype(np.float32)
SPD = A @ A.swapaxes(1, 2)
TALL = general(64, 8).astype(np.float32)
ROWS, COLUMNS = P("data"), P(None, "data")


def differences(fn: Any, args: Any, specs: Any, out: Any) -> tuple[str, float]:
    """Returns the program of one of four devices, and all devices' difference from JAX."""
    text = sharded(fn, args, specs, out, 4)
    found = scalify.compile(text, simulate_ranks=4)(*jax.tree.leaves(args))
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(jax.jit(fn)(*args)), strict=True)
    return text, max(float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) for a, b in pairs)


@pytest.mark.parametrize(
    ("fn", "args", "specs", "out", "call"),
    [
        (jnp.linalg.cholesky, (SPD,), (ROWS,), ROWS, "potrf_ffi(tensor<2x8x8xf32>)"),
        (jnp.linalg.cholesky, (SPD[0],), (ROWS,), ROWS, "potrf_ffi(tensor<8x8xf32>)"),
        (jnp.linalg.cholesky, (SPD[0],), (COLUMNS,), P(), "potrf_ffi(tensor<8x8xf32>)"),
        (lambda a: power(a, -0.25), (SPD,), (ROWS,), ROWS, "syevd_ffi(tensor<2x8x8xf32>)"),
        (
            lambda a: jnp.abs(jnp.linalg.qr(a)[1]),
            (TALL,),
            (ROWS,),
            P(),
            "geqrf_ffi(tensor<64x8xf32>)",
        ),
        (
            lambda a, b: jsl.solve_triangular(a, b, lower=True),
            (A[0], B),
            (ROWS, COLUMNS),
            COLUMNS,
            "trsm_ffi(tensor<8x8xf32>, tensor<8x8xf32>)",
        ),
        (jnp.linalg.solve, (A[0], B), (ROWS, ROWS), ROWS, "getrf_ffi(tensor<8x8xf32>)"),
    ],
)
def test_matrices_are_whole(fn: Any, args: Any, specs: Any, out: Any, call: str) -> None:
    text, difference = differences(fn, args, specs, out)
    calls = {
        f"{name}({types})"
        for name, types in re.findall(r"@lapack_s(\w+)\(.*\} : \(([^)]*)\)", text)
    }
    assert call in calls, calls
    # The routines are the same; JAX's sums around them round in another order.
    assert difference < 1e-5


def test_shampoo_with_sharded_state() -> None:
    """Weights and statistics are sharded by rows, the batch by examples."""
    x, y = linalg_steps.batches(1)[0]
    fn, state = linalg_steps.STEPS["shampoo"]
    args = (linalg_steps.start(), state(), x, y)
    specs = jax.tree.map(lambda _: ROWS, args)
    out = (specs[0], specs[1], P())
    _, difference = differences(fn, args, specs, out)
    assert difference < 1e-5
