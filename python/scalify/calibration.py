"""Scales of casts from measurements: calibration, moves between steps, health policies."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import ml_dtypes
import numpy as np

from scalify._counters import FLUSHED_MAX_REMAINING, FLUSHED_MIN_SHARE, is_mostly_flushed
from scalify._dtypes import to_numpy
from scalify._manifest import names_of
from scalify.recipe import Recipe, RecipeLike
from scalify.scales import DECLARED, Scales, ScalesLike

__all__ = [
    "Calibration",
    "CastScale",
    "HealthPolicy",
    "WideCast",
    "WidenTracker",
    "carried_option",
    "names_of",
    "wide_option",
]

# Columns of scalify-collect-statistics, in units of the cast's data except for the amax.
_FINITE, _AMAX, _SQUARES, _SCALE = 0, 1, 2, 7
# Keeps scales and their inverses normal F32 numbers.
_MAX_EXPONENT = 100


@dataclasses.dataclass(frozen=True)
class CastScale:
    """The measured scale of one cast.

    Attributes:
        cast: its name in the report.
        names: JAX's names of its location, which do not depend on line numbers.
        elements: the number of elements that it casts.
        exponent: log2 of the scale.
    """

    cast: str
    names: str
    elements: int
    exponent: int


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Scales that one step measured; an argument of `scalify.jit` and `scalify.transform`.

    Attributes:
        recipe: of the compilation.
        scales: of the step's arguments, as `scalify.measure` returns them.
        casts: one entry per cast, in the order of the program.
    """

    recipe: str
    scales: Scales
    casts: tuple[CastScale, ...]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the calibration as JSON."""
        text = json.dumps(dataclasses.asdict(self), indent=1)
        pathlib.Path(path).write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Calibration:
        """Reads a file that `save` wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: it does not contain a calibration.
        """
        try:
            content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
            scales = content["scales"]
            return Calibration(
                str(content["recipe"]),
                Scales.of(scales),
                tuple(CastScale(**entry) for entry in content["casts"]),
            )
        except (KeyError, TypeError, json.JSONDecodeError):
            raise ValueError(f"'{os.fspath(path)}' does not hold a calibration") from None

    def options(self, recipe: RecipeLike) -> list[dict[str, Any]]:
        """Returns the compiler's option `castScales` for a compilation by `recipe`.

        Raises:
            ValueError: the calibration is of another recipe.
        """
        if Recipe.of(recipe) != Recipe.of(self.recipe):
            raise ValueError(
                f"a calibration by recipe '{self.recipe}' for recipe '{recipe}': calibrate by "
                "the recipe that the step is compiled by"
            )
        return [dataclasses.asdict(cast) for cast in self.casts]


def calibrate_casts(
    casts: Sequence[Mapping[str, Any]], statistics: np.ndarray
) -> tuple[CastScale, ...]:
    """Returns the measured scale of each cast.

    Args:
        casts: the report's rows of casts.
        statistics: one row of 8 figures per cast, see `scalify-collect-statistics`.
    """
    return tuple(
        CastScale(
            cast=row["cast"],
            names=names_of(row["location"]),
            elements=row["elements"],
            exponent=_measured_exponent(row, figures),
        )
        for row, figures in zip(casts, statistics, strict=True)
    )


def largest_finite(element: str) -> float:
    """Returns the largest number of an element type such as "f8E4M3FN"."""
    info: Any = ml_dtypes.finfo(to_numpy(element))  # type: ignore[no-untyped-call]
    return float(info.max)


def _measured_exponent(row: Mapping[str, Any], figures: np.ndarray) -> int:
    """Returns log2 of the power of two nearest to the rms, raised until no value saturates.

    Falls back to the cast's own scale if there is no usable measurement.
    """
    scale, finite = float(figures[_SCALE]), float(figures[_FINITE])
    if scale <= 0:  # a branch that did not run, or the condition of a loop
        return row["scale"] or 0
    rms = scale * math.sqrt(float(figures[_SQUARES]) / finite) if finite > 0 else 0.0
    if not (rms > 0 and math.isfinite(rms)):
        return round(math.log2(scale))
    exponent = math.floor(math.log2(rms) + 0.5)
    bound = float(figures[_AMAX]) / largest_finite(row["format"])
    if bound > 0 and math.isfinite(bound):
        exponent = max(exponent, math.ceil(math.log2(bound)))
    return max(-_MAX_EXPONENT, min(_MAX_EXPONENT, exponent))


@dataclasses.dataclass(frozen=True)
class WideCast:
    """A cast that clipped, for `scalify.Numerics(wide=)`: it and its dots are not made narrow.

    Attributes:
        cast: its name in the report.
        names: JAX's names of its location, which do not depend on line numbers.
        elements: the number of elements that it casts.
        reason: the shares counted, for the report.
    """

    cast: str
    names: str
    elements: int
    reason: str

    @staticmethod
    def of(row: Mapping[str, Any]) -> WideCast:
        """Returns the entry for a row of `Executable.health`, with what the compiler matches."""
        parts = [
            f"{100 * row[key] / max(1, row['elements']):.3g} % of the values {what}"
            for key, what in (("saturated", "saturated"), ("flushed", "became zero"))
            if row[key]
        ]
        reason = " and ".join(parts) or "chosen by the user"
        return WideCast(row["cast"], row["names"], int(row["each"]), reason)


@dataclasses.dataclass(frozen=True)
class HealthPolicy:
    """The policy between two steps for casts that clip, for `scalify.Numerics(health=)`.

    Attributes:
        action: "report" warns. "rescale" moves the scales by `@rescale`. "adapt" warns of the first
            unhealthy cast, recompiles the step with scales that move, and continues as "rescale";
            where scales are not constants or state is packed, it acts as "report". "widen" lists
            casts that stay unhealthy, which the next compilation (`Jit.recompile`) leaves wide.
        every: steps between two checks of the counters.
        at_once: the share of saturated or NaN values above which a cast is checked in the same
            step although no check is due. A cast is also checked if half of its nonzero values were
            flushed and none is at the top of the format. Only for steps on the CPU without ranks,
            whose counters need no waiting, and not under "widen", which counts checks. 1 disables
            these additional checks.
        saturated: the share of saturated values above which a cast is unhealthy.
        flushed: the share of flushed values above which a cast is unhealthy.
        patience: consecutive checks at which a cast must be unhealthy before it is widened.
        assumptions: also check the proofs' assumptions on the state, and warn once for each
            argument that violates one. Reads the arrays that the artefact lists once, on the host:
            for the report's proofs these are gains of norms, a few kilobytes.
    """

    action: Literal["report", "rescale", "adapt", "widen"] = "report"
    every: int = 1
    at_once: float = 0.1
    saturated: float = 0.001
    flushed: float = 0.5
    patience: int = 3
    assumptions: bool = False

    def __post_init__(self) -> None:
        if self.action not in ("report", "rescale", "adapt", "widen"):
            raise ValueError(
                f"unknown action '{self.action}': expected one of report, rescale, adapt, widen"
            )
        if self.every < 1:
            raise ValueError(f"every {self.every} steps: expected 1 or more")
        if not 0 <= self.at_once <= 1:
            raise ValueError(f"at_once {self.at_once}: expected a share, 0 to 1")
        if self.patience < 1:
            raise ValueError(f"a patience of {self.patience} checks: expected 1 or more")

    def unhealthy(self, health: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Returns the rows of `health` above the limits, or with a scale too high for all values.

        The scale is too high if half of the nonzero values and a tenth of all values were flushed,
        and none is in the four binades at the top of the format.
        """
        return [
            row
            for row in health
            if row["saturated"] > self.saturated * row["elements"]
            or row["flushed"] > self.flushed * row["elements"]
            or _is_mostly_flushed(row)
        ]


def _is_mostly_flushed(row: Mapping[str, Any]) -> bool:
    flushed, elements = row["flushed"], row["elements"]
    wiped = is_mostly_flushed(flushed, row["zeros"], row["top"], elements, FLUSHED_MAX_REMAINING)
    return bool(wiped) and flushed > FLUSHED_MIN_SHARE * elements


class WidenTracker:
    """The casts of one executable under the policy "widen".

    Attributes:
        widened: the casts that the next compilation leaves wide, in the order of detection.
        unhealthy: the number of consecutive checks at which each cast was unhealthy.
    """

    def __init__(
        self, widened: Iterable[WideCast] = (), unhealthy: Mapping[str, int] | None = None
    ) -> None:
        self.widened = list(widened)
        self.unhealthy = dict(unhealthy or {})

    def look(self, policy: HealthPolicy, health: Iterable[Mapping[str, Any]]) -> list[WideCast]:
        """Adds a check of a step; returns the casts whose patience ran out at it."""
        rows = {row["cast"]: row for row in policy.unhealthy(health)}
        self.unhealthy = {cast: self.unhealthy.get(cast, 0) + 1 for cast in rows}
        known = {entry.cast for entry in self.widened}
        found = [
            WideCast.of(rows[cast])
            for cast, looks in self.unhealthy.items()
            if looks >= policy.patience and cast not in known
        ]
        self.widened += found
        return found


def carried_option(
    cast_scales: str, scales: ScalesLike | Literal["static"]
) -> tuple[dict[str, Any], ScalesLike]:
    """Returns the compiler's option `carryScales`, and the scales of arguments.

    Args:
        cast_scales: "carried" from step to step, or "static".
        scales: of arguments; "static" stands for `cast_scales="static"` and no scales.

    Raises:
        ValueError: a word is unknown.
    """
    if isinstance(scales, str) and scales != DECLARED:
        if scales != "static":
            raise ValueError(
                f"scales={scales!r}: expected 'static', 'declared', or scales of arguments, from "
                "scalify.measure"
            )
        cast_scales, scales = scales, None
    if cast_scales not in ("carried", "static"):
        raise ValueError(f"cast_scales={cast_scales!r}: expected 'carried' or 'static'")
    return ({"carryScales": False} if cast_scales == "static" else {}), scales


def wide_option(wide: Iterable[WideCast]) -> list[dict[str, Any]]:
    """Returns the compiler's option `wide`.

    Raises:
        TypeError: an entry is not a WideCast.
    """
    casts = list(wide)
    for cast in casts:
        if not isinstance(cast, WideCast):
            raise TypeError(f"{cast!r} in wide= is not a WideCast: give entries of Jit.widened")
    return [dataclasses.asdict(cast) for cast in casts]
