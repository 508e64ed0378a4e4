"""Scales of arguments: measured once, passed to the compiler, saved in checkpoints."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import operator
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from scalify._frontends import CONVENTIONS
from scalify.ranges import Range, RangesLike, measure_ranges

__all__ = ["Scales", "ScalesLike", "measure"]

# Keeps scales and their inverses normal F32 numbers.
_MAX_EXPONENT = 120
# The declared scale of an array that is all zero: it takes the scale of its new value.
_ZERO_EXPONENT = -127
# An array whose mean is at least this share of its root mean square is dominated by its mean.
_MEAN_DOMINATED = 0.5

# Mean and standard deviation.
Moments: TypeAlias = tuple[float, float]
ScaleEntry: TypeAlias = int | dict[str, Any] | None


@dataclasses.dataclass(frozen=True)
class Scales:
    """log2 of the scale of each leaf of a tree; -127 for zeros, None for a leaf without one.

    Attributes:
        exponents: one entry per leaf, in the tree's order.
        names: the leaves' key paths, for information only.
        ranges: the range of each leaf that the compiler's proofs may assume; None for none.
        moments: mean and standard deviation of each leaf that is dominated by its mean, such as a
            norm's gains, or a bias that starts at -4; None for the others.
    """

    exponents: tuple[int | None, ...]
    names: tuple[str, ...]
    ranges: tuple[Range | None, ...] | None = dataclasses.field(default=None, compare=False)
    moments: tuple[Moments | None, ...] | None = dataclasses.field(default=None, compare=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the scales as JSON."""
        text = json.dumps(dataclasses.asdict(self), indent=1)
        pathlib.Path(path).write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Scales:
        """Reads a file that `save` wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: it does not contain scales.
        """
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        if not isinstance(content, dict) or {"exponents", "names"} - content.keys():
            raise ValueError(f"'{os.fspath(path)}' does not hold scales")
        return Scales.of(content)

    @staticmethod
    def of(content: Mapping[str, Any]) -> Scales:
        """Returns the scales from a JSON object of their fields.

        Raises:
            KeyError: exponents or names are missing.
            TypeError: a field is not a list.
        """
        ranges, moments = content.get("ranges"), content.get("moments")
        return Scales(
            tuple(content["exponents"]),
            tuple(content["names"]),
            None if ranges is None else tuple(ranges),
            None if moments is None else tuple(each and (each[0], each[1]) for each in moments),
        )

    def entries(self) -> list[ScaleEntry]:
        """Returns the compiler's `scales` option: each leaf's exponent, with moments if any."""
        moments = self.moments or (None,) * len(self.exponents)
        return [
            exponent
            if exponent is None or found is None
            else {"exponent": exponent, "mean": found[0], "deviation": found[1]}
            for exponent, found in zip(self.exponents, moments, strict=True)
        ]


# Scales, a mapping from argument names ("params['w']"), a list in main's order, or "declared" for
# only the scales that the program declares.
ScalesLike: TypeAlias = Scales | Mapping[str, int] | Sequence[int | None] | str | None
DECLARED = "declared"


def measure(tree: Any, headroom: float = 8.0) -> Scales:
    """Returns the scale of each array of a tree: the power of two nearest to its rms.

    Pass the tuple of a step's arguments (static ones left out), in their order. An array that is
    all zero gets -127: it takes the scale of its new value. An array of rank 0 or a Python float (a
    learned temperature, a loss scale) is never cast; its scale tells its magnitude, and it gets
    none if it is zero. Arrays that are not finite or not floating point get none.

    Args:
        tree: a pytree of arrays of any shapes.
        headroom: the factor by which proofs assume that an array may grow, as in
            `scalify.measure_ranges`.
    """
    paths = jax.tree_util.tree_leaves_with_path(tree)
    return Scales(
        tuple(_exponent(leaf) for _, leaf in paths),
        tuple(jax.tree_util.keystr(path) for path, _ in paths),
        tuple(measure_ranges([leaf for _, leaf in paths], headroom)),
        tuple(_moments(leaf) for _, leaf in paths),
    )


def _moments(leaf: Any) -> Moments | None:
    """Returns the mean and deviation of an array that has a scale and is dominated by its mean."""
    if _exponent(leaf) in (None, _ZERO_EXPONENT):
        return None
    wide = np.asarray(leaf).astype(np.float64)
    mean, deviation = float(np.mean(wide)), float(np.std(wide))
    return (mean, deviation) if abs(mean) >= _MEAN_DOMINATED * math.hypot(mean, deviation) else None


def _exponent(leaf: Any) -> int | None:
    # A Python number is an array of rank 0: a loss scale of 65536.0 as much as np.float32(65536).
    if not jnp.issubdtype(leaf.dtype if hasattr(leaf, "dtype") else type(leaf), jnp.floating):
        return None
    wide = np.asarray(leaf).astype(np.float64)
    square = float(np.mean(wide * wide)) if wide.size else 0.0
    if not math.isfinite(square):
        return None
    if square <= 0:
        # A scalar that is zero now, such as a warm-up's rate or a time, changes later.
        return _ZERO_EXPONENT if np.ndim(leaf) else None
    return max(-_MAX_EXPONENT, min(_MAX_EXPONENT, _round_half_away(0.5 * math.log2(square))))


def _round_half_away(value: float) -> int:
    """Rounds with ties away from zero, as the compiler rounds its scales."""
    return math.floor(value + 0.5) if value >= 0 else math.ceil(value - 0.5)


def roles_option(roles: Mapping[str, str] | None) -> dict[str, Any]:
    """Returns the compiler's option `roles`: the patterns in order, then conventions of names.

    Raises:
        TypeError: `roles` is not a mapping.
    """
    if roles is not None and not isinstance(roles, Mapping):
        raise TypeError(f"roles={roles!r}: expected a mapping of patterns of names to roles")
    given = [[pattern, role] for pattern, role in (roles or {}).items()]
    return {"roles": [*given, *CONVENTIONS]}


def _checked(place: object, exponent: Any) -> int:
    """Returns an exponent that a user declares; a scale in its place (0.5 for -1) is an error."""
    try:
        return operator.index(int(exponent) if exponent == int(exponent) else exponent)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            f"scales[{place!r}] = {exponent!r}: expected log2 of an argument's scale, an int, as "
            "scalify.measure(arguments) gives for all arguments"
        ) from None


def to_option(scales: ScalesLike, count: int | None) -> dict[str, int] | list[ScaleEntry] | None:
    """Returns the compiler's `scales` option for a main of `count` arguments.

    Raises:
        TypeError: an entry is not an exponent.
        ValueError: there is not one entry per argument, or a string is not "declared".
    """
    if scales is None or isinstance(scales, str):
        _check_declared(scales)
        return None
    if isinstance(scales, Mapping):
        return {str(name): _checked(name, exponent) for name, exponent in scales.items()}
    entries: list[ScaleEntry]
    if isinstance(scales, Scales):
        entries = scales.entries()
    else:
        entries = [
            each if each is None or isinstance(each, Mapping) else _checked(i, each)
            for i, each in enumerate(scales)
        ]
    if count is not None and len(entries) != count:
        raise ValueError(
            f"scales of {len(entries)} arrays for a function of {count}: measure the tuple "
            "of all its arguments, static ones left out"
        )
    return entries


def argument_options(scales: ScalesLike, count: int | None = None) -> dict[str, Any]:
    """Returns the compiler's options for the argument `scales=` and a main of `count` arguments.

    Raises:
        ValueError: as `to_option`.
    """
    if isinstance(scales, str):
        to_option(scales, count)
        return {"declaredScales": True}
    option = to_option(scales, count)
    return {} if option is None else {"scales": option}


def _check_declared(scales: str | None) -> None:
    if scales is not None and scales != DECLARED:
        raise ValueError(f"scales={scales!r}: expected '{DECLARED}', or scales of arguments")


def range_option(
    scales: ScalesLike, declared: RangesLike = None, count: int | None = None
) -> list[Range | None] | dict[str, Range] | None:
    """Returns the compiler's `ranges` option: declared ranges, else those measured with the scales.

    Args:
        scales: their ranges are used for arguments without a declared one.
        declared: by the user, by name or as a list in main's order.
        count: the number of main's arguments.

    Raises:
        ValueError: the list of declared ranges does not have one entry per argument.
    """
    measured = list(scales.ranges or ()) if isinstance(scales, Scales) else []
    if declared is None:
        return measured or None
    if isinstance(declared, Mapping):
        by_index = {str(i): entry for i, entry in enumerate(measured) if entry is not None}
        return by_index | {str(name): dict(entry) for name, entry in declared.items()}
    given = list(declared)
    if count is not None and len(given) != count:
        raise ValueError(
            f"ranges of {len(given)} arrays for a function of {count}: give one entry for each "
            "argument, None for no range"
        )
    return [
        own if own is not None else other
        for own, other in itertools.zip_longest(given, measured[: len(given)])
    ]
