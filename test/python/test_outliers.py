"""Adversaries of a step: health() shows them at once, nothing becomes NaN, the loss comes back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import scalify

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks" / "numerics"), str(ROOT / "examples" / "llama")]

import outliers  # noqa: E402

BEFORE = 3
LASTS = "inputs times 2^20"
SIGNS = {
    "aligned SwiGLU": "saturated",
    "zero tensors": "all zero",
    "an outlier of 1e4": "saturated",
    "gradients of 1e-8": "flushed",
    "ranks 2^20 apart": "flushed",
    LASTS: "saturated",
}


def back(
    recipe: str, adversary: str, policy: scalify.HealthPolicy, before: int = BEFORE
) -> outliers.Outcome:
    """Returns a run whose loss recovers to F32's within the policy's number of steps."""
    most = outliers.allowed_steps(recipe, policy, adversary)
    exact = outliers.run_adversary("none", adversary, before, most + outliers.STAYS)
    found = outliers.run_adversary(recipe, adversary, before, most + outliers.STAYS, policy)
    steps = outliers.steps_to_recover(found, exact)
    assert steps is not None and steps <= most, (found.losses, exact.losses)
    assert found.finite and "NaN" not in found.findings
    return found


@pytest.mark.parametrize("adversary", outliers.ADVERSARIES)
def test_an_adversary_is_seen_in_its_step_and_overcome(adversary: str) -> None:
    # At the start the loss falls by a quarter a step: what lasts delays it for good.
    before = 20 if outliers.ADVERSARIES[adversary].persists else BEFORE
    found = back("fp8", adversary, outliers.policies("fp8")[0], before)
    assert found.findings[SIGNS[adversary]] > 0


@pytest.mark.parametrize("adversary", ["zero tensors", "an outlier of 1e4", "ranks 2^20 apart"])
def test_what_is_not_seen_has_lost_nothing(adversary: str) -> None:
    """A scale that is measured in the step holds whatever comes: the gradient has its bar."""
    recipe = "fp8-lm-o2"
    found = back(recipe, adversary, outliers.policies(recipe)[0])
    assert found.findings or outliers.is_gradient_intact(found)


@pytest.mark.parametrize("adversary", ["gradients of 1e-8", LASTS])
def test_measured_scales_that_moved_are_seen(adversary: str) -> None:
    """Nothing clips if a scale follows within the step; health() shows that it moved."""
    recipe = "fp8-lm-o2"
    before = 20 if outliers.ADVERSARIES[adversary].persists else BEFORE
    found = back(recipe, adversary, outliers.policies(recipe)[0], before)
    assert found.findings["scale moved"] > 0


@pytest.mark.parametrize("action", ["adapt", "report"])
def test_carried_scales_follow_whatever_the_policy(action: str) -> None:
    """Inputs change their units permanently: the step moves its scales by itself."""
    # Behind its first steps, in which a run that has lost some lags behind for that alone.
    back("fp8", LASTS, scalify.HealthPolicy(action, every=5), before=20)


@pytest.mark.parametrize("recipe", ["fp8", "fp8-delayed", "fp8-lm-o2"])
def test_ordinary_steps_show_nothing(recipe: str) -> None:
    """Otherwise the findings in an adversary's step would prove nothing."""
    seen = outliers.findings_without_adversary(recipe)
    assert len(seen) == 10
    # A carried scale stays until it moves by all that it is off, as a measured one never is.
    expected = {"scale moved"} if recipe == "fp8" else set()
    assert all(set(found) <= expected for found in seen)
