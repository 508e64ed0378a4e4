"""Adversaries of a step: health() shows them at once, nothing becomes NaN."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks" / "numerics"), str(ROOT / "examples" / "llama")]

import outliers  # noqa: E402

SIGNS = {
    "aligned SwiGLU": "saturated",
    "zero tensors": "all zero",
    "an outlier of 1e4": "saturated",
    "gradients of 1e-8": "flushed",
    "ranks 2^20 apart": "flushed",
}


@pytest.mark.parametrize("adversary", outliers.ADVERSARIES)
def test_an_adversary_is_seen_in_its_step(adversary: str) -> None:
    found = outliers.suffer("fp8", adversary, before=3, after=1)
    assert found.finite
    assert found.findings[SIGNS[adversary]] > 0
    assert "NaN" not in found.findings
