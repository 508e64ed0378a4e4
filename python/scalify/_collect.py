"""scalify.collect: what the casts of a step make of real values, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    """Runs a step and returns what each cast did to its values.

    Args:
        step: a JAX function, which is transformed and run by JAX; what `scalify.transform` made;
            or what `scalify.jit` made, whose counters know what saturated and flushed only.
        *args: its arguments.
        steps: how often to run it.
        update: makes the next step's arguments from this one's and its result; without it, all
            steps run on the same ones, which must not be donated then.
        recipe: for a JAX function.
        **options: of `scalify.transform`, for a JAX function.

    Raises:
        scalify.CompileError: the program or the recipe cannot be.
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
        if history is None:
            result = run(*args)
        else:
            result, history = run(*args, amax_history=history)
        if isinstance(run, Jit):
            statistics.add_health(run.health())
        if update is not None and number + 1 < steps:
            args = update(args, result)
    return statistics
