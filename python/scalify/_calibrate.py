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

    Each cast's constant becomes the power of two nearest to the measured root mean square, raised
    until nothing saturates: for models whose initial values the rules mispredict.

    Args:
        step: a function of pytrees of arrays, or the result of `scalify.jit` or
            `scalify.transform`; the `rescale=` places of such a step are ignored.
        *args: its arguments. Nothing is donated.
        recipe: as in `transform`; by default that of `step` if it has one, else "fp8".
        scales: of the arguments, from `scalify.measure` or as a list; by default those given to
            `step`, else measured.
        **kwargs: its keyword arguments.

    Raises:
        scalify.CompileError: the program or the recipe cannot be compiled.
        ValueError: the scales are given by name, or their number is not that of the arguments.
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
