"""scalify.calibrate: one step that measures the scales of its casts."""

from __future__ import annotations

from typing import Any

import numpy as np

from scalify._lowering import Lowered, Signature
from scalify._probe import added_results
from scalify._transform import transform_lowered
from scalify.calibration import Calibration, calibrate_casts
from scalify.recipe import RecipeLike
from scalify.scales import Scales, ScalesLike, measure, to_option

__all__ = ["calibrate"]


def calibrate(
    step: Any,
    *args: Any,
    recipe: RecipeLike | None = None,
    scales: ScalesLike = None,
    **kwargs: Any,
) -> Calibration:
    """Runs one step on XLA's CPU and returns the scales that its casts should have.

    Measured root mean squares, as powers of two at which nothing saturates, become the constants
    of the casts: for models whose initial values the rules do not expect.

    Args:
        step: a function of pytrees of arrays, or what `scalify.jit` or `scalify.transform` made
            of one; places where such a step measures scales (`rescale=`) do not count here.
        *args: its arguments. Nothing is donated.
        recipe: as in `transform`; that of `step` if it has one, else "fp8".
        scales: of the arguments, from `scalify.measure` or as a list; those given to `step`, else
            measured.
        **kwargs: its keyword arguments.

    Raises:
        scalify.CompileError: the program or the recipe cannot be.
        ValueError: the scales are given by name, or are not as many as the arguments.
    """
    signature = getattr(step, "_signature", None) or Signature(step)
    recipe = str(recipe or getattr(step, "recipe", "fp8"))
    arguments = signature.bind(args, kwargs)
    lowered = signature.lower(arguments)
    if scales is None:
        scales = getattr(step, "_given", None)
    given = _as_scales(measure(arguments.leaves) if scales is None else scales, lowered)
    text, report = transform_lowered(lowered, recipe, False, given, statistics=True)
    (statistics,) = added_results(signature.name, text, lowered, arguments)
    return Calibration(
        recipe, given, calibrate_casts(report.casts(), statistics.astype(np.float64))
    )


def _as_scales(given: ScalesLike, lowered: Lowered) -> Scales:
    if isinstance(given, Scales):
        return given
    count = len(lowered.in_avals)
    option = to_option(given, count)
    if isinstance(option, dict):
        raise ValueError("scales by name: give those of scalify.measure, or a list")
    exponents = tuple(entry for entry in option or () if not isinstance(entry, dict))
    return Scales(exponents, tuple(map(str, range(count))))
