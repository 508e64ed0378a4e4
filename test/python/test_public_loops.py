"""Training loops as people write them, some of test/loops: losses against those of jax.jit.

All of them, 30 steps each, are `make loops`.
"""

from __future__ import annotations

import pathlib
import sys

import jax
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "loops"))

from run import REGISTRY, judge

QUICK = [name for name, loop in REGISTRY.items() if loop.quick]


@pytest.mark.parametrize("name", QUICK)
def test_losses_are_those_of_jax(name: str) -> None:
    rows = judge(REGISTRY[name], ["none", "fp8"], steps=8)
    if jax.__version__ != "0.7.0":  # It may abort there: see ABORTS_AT_EXIT in scripts/compat.py.
        jax.clear_caches()
    for row in rows:
        assert not row["error"], row["error"]
        assert row["difference"] <= row["bound"], row
