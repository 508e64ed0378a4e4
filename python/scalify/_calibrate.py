"""scalify.calibrate: one step that measures the scales of its casts."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from scalify._call import Module, call, out_avals
from scalify._lowering import Signature
from scalify._transform import on_cpu, transform_lowered
from scalify.calibration import Calibration, calibrate_casts
from scalify.scales import Scales, ScalesLike, measure, to_option

__all__ = ["calibrate"]


def calibrate(
    step: Any, *args: Any, recipe: str | None = None, scales: ScalesLike = None, **kwargs: Any
) -> Calibration:
    """Runs one step on XLA's CPU and returns the scales that its casts should have.

    Measured root mean squares, as powers of two at which nothing saturates, become the constants
    of the casts: for models whose initial values the rules do not expect.

    Args:
        step: a function of pytrees of arrays, or what `scalify.jit` or `scalify.transform` made
            of one.
        *args: its arguments. Nothing is donated.
        recipe: as in `transform`; that of `step` if it has one, else "fp8".
        scales: of the arguments; measured where not given.
        **kwargs: its keyword arguments.

    Raises:
        scalify.CompileError: the program or the recipe cannot be.
    """
    signature = getattr(step, "_signature", None) or Signature(step)
    recipe = str(recipe or getattr(step, "recipe", "fp8"))
    arguments = signature.bind(args, kwargs)
    given = measure(arguments.leaves) if scales is None else scales
    lowered = signature.lower(arguments)
    text, report = transform_lowered(lowered, recipe, False, given, statistics=True)
    module = Module(signature.name, out_avals(text), lambda _: text, None)
    with jax.default_device(jax.devices("cpu")[0]):
        run = jax.jit(functools.partial(call, module))
        results = run(*map(on_cpu, arguments.leaves))
    statistics = np.asarray(results[len(lowered.out_avals)], np.float64)
    if not isinstance(given, Scales):
        names = tuple(map(str, range(len(lowered.in_avals))))
        option = to_option(given, len(lowered.in_avals))
        if isinstance(option, dict):
            raise ValueError("scales by name: give those of scalify.measure, or a list")
        given = Scales(tuple(option or ()), names)
    return Calibration(recipe, given, calibrate_casts(report.casts(), statistics))
