"""One process that computes what all ranks of a mesh compute."""

from __future__ import annotations

import jax
import numpy as np
import partition_programs
import pytest

import scalify
from scalify.partition import partition


@pytest.mark.parametrize("name", ["llama_tensor", "scanned", "mapped", "moved"])
def test_all_ranks_make_the_whole(name: str) -> None:
    program = partition_programs.PROGRAMS[name]()
    local = partition(partition_programs.lower(program))
    simulated = scalify.compile(local.text, simulate_ranks=local.devices)
    args = [np.asarray(arg) for arg in jax.tree.leaves(program.args)]
    with jax.set_mesh(program.mesh()):
        wanted = jax.tree.leaves(jax.jit(program.fn)(*program.args))
    results = simulated(*args)
    for result, want in zip(jax.tree.leaves(results), wanted, strict=True):
        assert result.shape == want.shape
        # Sums go in another order, over several devices: a few roundings of F32 at the
        # largest element, more after AdamW's quotient.
        bound = 2e-5 * max(np.max(np.abs(want), initial=0), 1e-6)
        np.testing.assert_allclose(np.asarray(result), want, rtol=0, atol=bound)


def test_what_cannot_be_simulated() -> None:
    text = jax.jit(lambda x: x + 1).lower(np.float32(1)).as_text()
    with pytest.raises(scalify.CompileError, match=r"no mesh.*scalify\.partition"):
        scalify.compile(text, simulate_ranks=True)
    local = partition(partition_programs.lower(partition_programs.mapped()))
    with pytest.raises(scalify.CompileError, match="a mesh of 8 devices, and 4 ranks"):
        scalify.compile(local.text, simulate_ranks=4)
    with pytest.raises(ValueError, match="'simulateRanks' must be a number"):
        scalify.compile(local.text, simulate_ranks=-1)
