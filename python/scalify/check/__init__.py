"""Checks a training step before it is trained at low precision: `python -m scalify.check`.

`check` compares the gradients of recipes with those of the step as written, at the user's own
weights and batch, and says in three lines whether to use a recipe. The parts: `sources` and
`capture` find the step, `program` and `flow` find its gradients, `bench` runs it by recipes,
`verdict` judges, `results` and `page` hold and show what was found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from scalify.check.results import Check, Look, Result, Verdict

__all__ = ["Check", "Look", "Result", "Verdict", "check", "check_calls", "main"]

RECIPES = ("fp8", "bf16")


def check(
    step: Callable[..., Any],
    *args: Any,
    recipes: Sequence[str] | None = None,
    steps: int = 0,
    batches: Sequence[tuple[Any, ...]] = (),
    **kwargs: Any,
) -> Check:
    """Returns how a step's gradients, speed and memory under recipes compare with F32's.

        print(scalify.check.check(train_step, params, state, batch))

    The step runs on the CPU, on copies of its arguments; the arguments stay as they are.

    Args:
        step: a training step, a function that returns gradients, or either under `scalify.jit`,
            `scalify.filter_jit` or `scalify.nnx.jit`: a function of trees of arrays.
        *args: its arguments.
        recipes: to check; the verdict is about the first. If it misses a bar, others that are
            between it and the rest of these are tried. None: the recipe of a step of
            `scalify.jit`, else "fp8"; then "bf16".
        steps: of training by each recipe, after which its gradients are compared again, at the
            weights that it reached.
        batches: the arguments of the calls that follow the first one. Those that are the step's
            state are ignored. Without, all steps train on the same batch.
        **kwargs: arguments given by name.

    Raises:
        StepError: the step was compiled before and cannot be looked into.
        FloatingPointError: the step as written gives NaN or infinity, or F32 itself does not
            reproduce it.
        ValueError: a recipe is unknown.
    """
    from scalify.check.sources import calls_of_function

    calls = calls_of_function(step, args, kwargs)
    for batch in batches:
        calls += calls_of_function(step, batch, kwargs)
    return check_calls(calls, recipes, steps)


def check_calls(
    calls: Sequence[Any], recipes: Sequence[str] | None = None, steps: int = 0
) -> Check:
    """Returns the check of a captured step; see `check`.

    Args:
        calls: of the step: the first one, and those whose batches follow.
        recipes: as in `check`.
        steps: as in `check`.
    """
    from scalify.check.bench import Bench, name_of
    from scalify.check.program import Program
    from scalify.check.verdict import amax_recipe, judged, ladder, verdict, with_more_roles
    from scalify.recipe import Recipe

    if recipes is None:
        own = calls[0].recipe
        is_own = own is not None and Recipe.of(own).casts
        recipes = tuple(dict.fromkeys((own, RECIPES[-1]))) if is_own else RECIPES
    parsed = [Recipe.of(recipe) for recipe in recipes]  # unknown ones are errors at once
    program = Program.of(calls[0].signature, calls[0].arguments)
    bench = Bench(program, [call.arguments.leaves for call in calls[1:]])
    bench.find_noise()
    amax: dict[str, float | None] = {}

    def measure(recipe: Recipe, label: str) -> Result:
        found = bench.measure(recipe, label, steps)
        is_fp8 = recipe.scales == "propagated" and recipe.forward.startswith("f8")
        if found.error or not is_fp8 or not found.casts:
            return judged(found, None) if not found.error else found
        yardstick = amax_recipe(recipe)
        text = str(yardstick)
        if text not in amax:
            looks = bench.measure(yardstick, text).looks
            amax[text] = looks[0].whole if looks else None
        return judged(found, amax[text])

    results = [measure(parsed[0], name_of(recipes[0]))]
    if not results[0].holds and not results[0].error:
        for label, recipe in ladder(results[0]):
            results.append(measure(recipe, label))
            if results[-1].holds:
                break
    elif (more := with_more_roles(results[0])) is not None:
        results.append(measure(more[1], more[0]))
    results += [
        measure(recipe, name_of(label))
        for recipe, label in zip(parsed[1:], recipes[1:], strict=True)
    ]
    timed = [result.recipe for result in results if not result.error]
    seconds, memory = bench.timed(["none", *dict.fromkeys(timed)])
    results = [
        dataclasses.replace(
            result, seconds=seconds.get(result.recipe), memory=memory.get(result.recipe)
        )
        for result in results
    ]
    return Check(
        name=program.name,
        compared=bench.compared,
        is_first_iteration=program.first is not program.jaxpr,
        judged=len(bench.items),
        noise=bench.noise,
        results=tuple(results),
        jax_seconds=seconds[""],
        jax_memory=memory.get(""),
        none_seconds=seconds.get("none"),
        verdict=verdict(results, seconds[""], memory.get(""), bench.compared, len(bench.noise)),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command `scalify check`; returns its exit status."""
    from scalify.check.command import main as run  # JAX loads when a check begins

    return run(argv)
