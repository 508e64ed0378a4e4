"""Trains one step by jax.jit and by scalify.jit, on the same batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import scalify

__all__ = ["assert_trains_alike"]


def assert_trains_alike(
    step: Callable[..., Any],
    start: Any,
    batches: Sequence[tuple[Any, ...]],
    bound: float,
    **options: Any,
) -> scalify.Jit:
    """Runs (params, *batch) -> (params, loss) over all batches, and compares the losses.

    Raises AssertionError if one differs by more than `bound` of it. Returns our step, which has a
    report.
    """

    def losses(run: Callable[..., Any]) -> list[float]:
        params, found = start, []
        for batch in batches:
            params, loss = run(params, *batch)
            found.append(float(loss))
        return found

    ours = scalify.jit(step, donate_argnums=0, **options)
    np.testing.assert_allclose(losses(ours), losses(jax.jit(step)), rtol=bound)
    return ours
