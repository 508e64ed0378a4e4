"""scalify.probe: the operand of each cast of a function, run by a recipe on XLA's CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from scalify._call import added_arguments, call, out_avals
from scalify._dtypes import to_numpy
from scalify._lowering import Arguments, Lowered, Signature
from scalify._transform import input_of, module_of, transform_lowered
from scalify.recipe import RecipeLike
from scalify.scales import ScalesLike, measure

__all__ = ["added_results", "probe", "run_text"]


def probe(
    fn: Callable[..., Any],
    recipe: RecipeLike = "fp8",
    *,
    scales: ScalesLike = None,
    **options: Any,
) -> Callable[..., list[dict[str, Any]]]:
    """Returns a function that runs `fn` by a recipe and returns the operand of each cast.

    It runs on XLA's CPU and returns one row per quantizing cast: `name`, `op`, `loc`, `phase`,
    `format` ("float8_e4m3fn", "float8_e5m2"), `scale` (a float) and `value`, the wide operand as
    a numpy array. For a cast in a loop, `value` has all iterations stacked along a new first axis
    if the trip count is known and the stack is small, else the last iteration. `scale` is stacked
    too if the loop measures it. For a cast in a branch that did not run, `value` is zero.

    Args:
        fn: a function of pytrees of arrays.
        recipe: as in `transform`.
        scales: as in `transform`.
        **options: static and donated arguments, as in `transform`.
    """
    signature = Signature(fn, **options)

    def run(*args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        arguments = signature.bind(args, kwargs)
        given = measure(arguments.leaves) if scales is None else scales
        lowered = signature.lower(arguments)
        text, report = transform_lowered(lowered, recipe, False, given, probe_casts=True)
        probes = added_results(signature.name, text, lowered, arguments)
        return [
            {
                "name": row["cast"],
                "op": row["op"],
                "loc": row["location"],
                "phase": row["phase"],
                "format": to_numpy(row["format"]).name,
                "scale": float(scale) if scale.ndim == 0 else scale,
                "value": value,
            }
            for row, value, scale in zip(report.casts(), probes[::2], probes[1::2], strict=True)
        ]

    return run


def added_results(
    name: str,
    text: str,
    lowered: Lowered,
    arguments: Arguments,
    options: Mapping[str, Any] | None = None,
) -> list[np.ndarray]:
    """Runs a rewritten step on XLA's CPU; returns the results that follow the step's own.

    Args:
        name: of the step.
        text: the rewritten step.
        lowered: the step before.
        arguments: of the step.
        options: of XLA's compiler.
    """
    own = len(lowered.out_avals) + len(added_arguments(text, len(lowered.in_avals)))
    return run_text(name, text, lowered, arguments, options)[own:]


def run_text(
    name: str,
    text: str,
    lowered: Lowered,
    arguments: Arguments,
    options: Mapping[str, Any] | None = None,
) -> list[np.ndarray]:
    """Runs a rewritten step on XLA's CPU, as `added_results`; returns all results of its main."""
    module = module_of(name, lowered, out_avals(text), lambda _: text)
    added = added_arguments(text, len(lowered.in_avals))
    leaves = [*arguments.leaves, *(np.zeros(aval.shape, aval.dtype) for aval in added)]
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu):
        chosen = None if options is None else dict(options)
        run = jax.jit(functools.partial(call, module), compiler_options=chosen)
        results = run(*(jax.device_put(input_of(leaf), cpu) for leaf in leaves))
    return [np.asarray(result) for result in results]
