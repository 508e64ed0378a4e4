"""scalify.collect: statistics of a step's casts on real values, step by step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax

from scalify._jit import Jit
from scalify._statistics import Statistics
from scalify._transform import Transformed, transform
from scalify.recipe import RecipeLike

__all__ = ["collect"]


def collect(
    step: Callable[..., Any],
    *args: Any,
    steps: int = 1,
    update: Callable[[tuple[Any, ...], Any], tuple[Any, ...]] | None = None,
    recipe: RecipeLike = "fp8",
    **options: Any,
) -> Statistics:
    """Runs a step and returns the statistics of each cast.

    Args:
        step: a JAX function, which is transformed and run by JAX; the result of
            `scalify.transform`; or that of `scalify.jit`, which counts only saturated and flushed
            values.
        *args: its arguments, which stay the caller's: each run gets copies of JAX arrays.
        steps: how often to run it.
        update: computes the next step's arguments from this step's arguments and result; without
            it, all steps run on the same arguments.
        recipe: for a JAX function.
        **options: of `scalify.transform`, for a JAX function.

    Raises:
        scalify.CompileError: the program or the recipe cannot be compiled.
        ValueError: `steps` is not positive.
    """
    if steps < 1:
        raise ValueError(f"steps must be positive, not {steps}")
    run: Jit | Transformed
    if isinstance(step, Jit):
        run, statistics = step, Statistics()
    else:
        known = step if isinstance(step, Transformed) else transform(step, recipe, **options)
        run = known.collecting()
        statistics = run.statistics()
    history = run.init_state(*args) if isinstance(run, Transformed) and run.is_delayed else None
    for number in range(steps):
        own = jax.tree.map(_copied, args)  # a step may donate them
        if history is None:
            result = run(*own)
        else:
            result, history = run(*own, amax_history=history)
        if isinstance(run, Jit):
            statistics.add_health(run.health())
        if update is not None and number + 1 < steps:
            args = update(args, result)
    return statistics


def _copied(leaf: Any) -> Any:
    return copy.deepcopy(leaf) if isinstance(leaf, jax.Array) else leaf
