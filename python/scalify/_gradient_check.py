"""Measured errors of gradients: corrects the model that decides which dots are sensitive.

The model (NoiseAnalysis) takes values to be independent. Those of a trained network are not: for 12
layers of LLaMA with sharp attention it predicts a hundred times the error that there is, and for
small gradients of queries and keys early in training a tenth of it. So along training the step's
gradients are measured, at its weights and batch, in the formats that the model chooses and in F32.
A power of two corrects the model until the formats that it chooses hold the limits, and no more.
"""

from __future__ import annotations

import contextlib
import json
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from scalify import _compiler
from scalify._executable import Executable
from scalify._ranks import compile_on
from scalify._renewal import DotFormats, Formats
from scalify.options import Distribution
from scalify.recipe import Recipe

__all__ = ["Excess", "GradientCheck", "excess", "widened_for_small"]

# The binades that carried scales keep above an amax in E4M3. Of values that span more binades than
# the format, so many more small ones become zero.
_CARRIED_ROOM = int(_compiler.carried_limits()["room"])
# The most of log2 of the correction, and of its inverse.
_MOST = 12
# Formats move between those of neighbouring corrections: one wider, one narrower, and one for small
# tensors.
_KEPT_PROGRAMS = 4
# Shares of the limits. Formats hold if errors are within the room that the compiler leaves. Fewer
# dots are left wide below its room for 16 bits, if errors stay below half of the first: else the
# next check would widen them again.
_LIMITS = _compiler.gradient_limits()
_HOLDS, _SMALL, _ROOM = _LIMITS["room"], _LIMITS["narrow_room"], _LIMITS["room"] / 2
# The share of dots that must become narrower to be worth a compilation, which takes as long as
# forty steps. Along 12 layers of LLaMA the formats that hold moved by 2 to 15 of 327 dots between
# checks, or by 84 and more, all of one kind (docs/research/noise-model.md): an eighth is between.
_PAYS = 2.0**-3
# A tensor whose root mean square is at most this share of the largest one's is a sum of terms that
# cancel: no format but F32 keeps its direction. One with a smaller share of the sum of all squares
# than the second number, as gradients of queries and keys on the plateau that training starts with,
# gets 16 bits, which are cheap, not F32.
_NOISE, _SMALL_SHARE = 1e-6, 2.0**-20


class Excess(NamedTuple):
    """Errors of gradients over their limits: above 1 if they miss one.

    Attributes:
        large: the larger ratio of all together and of the worst tensor that is not small.
        small: that of the worst small tensor.
    """

    large: float
    small: float = 0.0


def excess(squares: Sequence[Sequence[float]]) -> Excess | None:
    """Returns the errors of gradients over their limits; None without gradients in F32 to compare.

    Gradients in F32 that are all zero, or of which one is not finite, are none.

    Args:
        squares: for each gradient, its number of elements, the sum of its squares, and that of the
            squares of its error.
    """
    largest = max((square / count for count, square, _ in squares if count), default=0.0)
    total = sum(square for _, square, _ in squares)
    if not (largest > 0 and math.isfinite(total)):
        return None
    large, small = sum(error for *_, error in squares) / total / _LIMITS["all"], 0.0
    for count, square, error in squares:
        ratio = error / square / _LIMITS["worst"] if square > _NOISE**2 * largest * count else 0.0
        if square < _SMALL_SHARE * total:
            small = max(small, ratio)
        else:
            large = max(large, ratio)
    return Excess(*(one if math.isfinite(one) else math.inf for one in (large, small)))


# Returns the formats of a correction, and their errors.
Measure = Callable[[int], tuple[Formats, Excess]]


class GradientCheck:
    """Measures gradients of one step's program, and corrects the model by them.

    The programs used last stay loaded. Their temporaries are in memory that the step's own leave
    free between two steps. On ranks, all ranks check together.
    """

    def __init__(self, text: str, threads: int, distribution: Distribution) -> None:
        """Initialises a check of a program, given as StableHLO."""
        self._text, self._threads, self._distribution = text, threads, distribution
        self._exact: Executable | None = None
        self._made: dict[Formats, Executable] = {}
        self._formats = DotFormats(text, distribution)
        self._has_gradients = self._fits = True
        self._has_measured = False

    @property
    def fits(self) -> bool:
        """Whether the last check had enough memory."""
        return self._fits

    def corrected(
        self,
        before: dict[str, Any],
        now: dict[str, Any],
        inputs: Sequence[Any],
        exponent: int,
        narrows: bool = True,
        arena: int = 0,
    ) -> int | None:
        """Returns log2 of the correction with which the model's formats hold the limits.

        If none does, it is the last one that halves the error. None if the step keeps its formats;
        `exponent` if there is nothing to measure.

        Args:
            before: options by which the step has been compiled.
            now: options with the scales that its arguments have now.
            inputs: the arguments of this rank's step, which are not changed.
            exponent: log2 of the correction until now.
            narrows: whether dots may go back to FP8, where errors are small.
            arena: the bytes of temporaries of the step, which are free now.
        """
        if not self._has_gradients:
            return exponent
        before, now = _probe_options(before), _probe_options(now)
        if self._exact is None:
            self._exact = self._make(now | {"recipe": "none"})
        memory = self._exact.memory
        beside = memory["constants"] + 3 * memory["results"]
        self._fits = self._has_memory(beside + max(0, memory["arena"] - arena))
        # What was measured before outweighs predictions.
        unmeasured = None if self._has_measured else exponent
        if not self._fits:
            return unmeasured
        exact = _run(self._exact, inputs)
        self._has_gradients = bool(exact)
        if self._excess(exact, exact) is None:
            return unmeasured
        self._has_measured = True
        found: dict[Formats, Excess] = {}

        def measure(correction: int, options: dict[str, Any] = now) -> tuple[Formats, Excess]:
            formats = self._formats.of(options, [correction])[0]
            if formats not in found:
                program = self._program(formats, options | {"noiseExponent": correction})
                error = self._excess(exact, _run(program, inputs))
                found[formats] = Excess(math.inf) if error is None else error
            return formats, found[formats]

        used, start = measure(exponent, before)
        holds = max(start) <= _HOLDS
        if holds and not (narrows and max(start) < _SMALL):
            return None
        # Most of the time to find formats goes to what all corrections have in common.
        tried = [exponent, exponent - 1] if holds else [exponent, *_above(exponent)]
        others = dict(zip(tried, self._formats.of(now, tried), strict=True))
        if holds:
            chosen = _narrowed(measure, exponent)
            formats, error = measure(chosen)
            pays = _count_narrower(used, formats) >= len(used) * _PAYS
            return chosen if pays and max(error) <= _ROOM else None
        chosen = _widened(measure, exponent)
        if measure(chosen)[1].small > _HOLDS:
            chosen = widened_for_small(measure, others, chosen)
        return chosen if _improves(measure(chosen)[1], start) else None

    def _program(self, formats: Formats, options: dict[str, Any]) -> Executable:
        """Returns the program of these formats, which these options choose."""
        # The scales of a program are not in it: they follow from amaxes.
        known = formats in self._made
        program = self._made.pop(formats) if known else self._make(options)
        self._made[formats] = program
        while len(self._made) > _KEPT_PROGRAMS:
            del self._made[next(iter(self._made))]
        return program

    def _has_memory(self, needed: int) -> bool:
        """Whether half of the memory that is free, on all ranks, holds what a check needs."""
        fits = 2 * needed <= _available_bytes()
        mesh = self._distribution.mesh
        return fits if mesh is None else all(map(json.loads, mesh.gather_bytes(_json(fits))))

    def _excess(self, exact: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> Excess | None:
        """Returns `excess` of gradients, of which each rank has its part."""

        def squares() -> list[list[float]]:
            return list(map(_squares, exact, found))

        mesh = self._distribution.mesh
        if mesh is None:
            return excess(squares())
        # No rank waits for one that runs out of memory.
        rows = mesh.together("gradients are not measured", squares)
        if not rows:
            return None
        said = mesh.gather_bytes(_json(rows))
        return excess(np.sum([json.loads(each) for each in said], axis=0).tolist())

    def _make(self, options: dict[str, Any]) -> Executable:
        run = (options, self._threads, None)
        return compile_on(self._distribution, self._text, *run, quiet=True)


def _run(program: Executable, inputs: Sequence[Any]) -> list[np.ndarray]:
    return [np.asarray(result) for result in program.run(inputs)]


def _squares(exact: np.ndarray, found: np.ndarray) -> list[float]:
    wide = np.asarray(exact, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # excess() sees NaN and infinity
        error = np.asarray(found, np.float64) - wide
        return [float(wide.size), float(np.sum(wide**2)), float(np.sum(error**2))]


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _available_bytes() -> float:
    """Returns the bytes of memory that this machine can still give; infinity if it is not known."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    return math.inf


def _improves(error: Excess, before: Excess) -> bool:
    """Whether other formats are worth their compilation: they hold, or halve what misses."""
    if before.large <= _HOLDS:
        return error.large <= _HOLDS and error.small <= max(_HOLDS, before.small / 2)
    # Small tensors are of a step, and vary as much from one to the next.
    is_near = error.small <= max(_HOLDS, 2 * before.small)
    return is_near and error.large <= max(_HOLDS, before.large / 2)


def _above(exponent: int) -> range:
    return range(exponent + 1, _MOST + 1)


def _widened(measure: Measure, exponent: int) -> int:
    """Returns the first higher correction whose formats hold, else one of little error."""
    chosen, (_, least) = exponent, measure(exponent)
    for correction in _above(exponent):
        if least.large <= _HOLDS:
            break
        _, error = measure(correction)
        # Dots become wider for half the error, not for less.
        if error.large <= max(_HOLDS, least.large / 2):
            chosen, least = correction, error
    return chosen


def widened_for_small(measure: Measure, others: dict[int, Formats], exponent: int) -> int:
    """Returns the first higher correction whose formats hold for small tensors too, without F32.

    If no more 16 bits halve their error, it is the one until now.
    """
    formats, start = measure(exponent)
    most = _count_wide(formats)
    found = [each for each, other in others.items() if each > exponent and other != formats]
    found = [each for each in found if _count_wide(others[each]) <= most]
    # What most dots in 16 bits do not mend, fewer do not.
    least = measure(found[-1])[1].small if found else math.inf
    if least > start.small / 2:
        return exponent
    return next(each for each in found if measure(each)[1].small <= max(_HOLDS, least))


def _narrowed(measure: Measure, exponent: int) -> int:
    """Returns the lowest correction whose formats hold with room, and all between."""
    chosen, (formats, _) = exponent, measure(exponent)
    for correction in range(exponent - 1, -_MOST - 1, -1):
        other, error = measure(correction)
        if max(error) > _ROOM:
            break
        if other != formats:
            chosen, formats = correction, other
    return chosen


def _count_wide(formats: Formats) -> int:
    return sum(name.startswith("f32 ") for name in formats)


def _width(name: str) -> int:
    return next(
        (width for width, start in ((8, "f8"), (16, "bf16"), (16, "f16")) if start in name), 32
    )


def _count_narrower(before: Formats, after: Formats) -> int:
    """Returns how many dots are narrower, less those that are wider."""
    if len(before) != len(after):
        return 0
    pairs = list(zip(map(_width, before), map(_width, after), strict=True))
    return sum(one > other for one, other in pairs) - sum(one < other for one, other in pairs)


def _probe_options(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of a program that returns gradients.

    Its scales follow from amaxes: what is measured are the formats, not scales that move.
    """
    recipe = Recipe.of(options["recipe"])
    if recipe.scales == "propagated":
        recipe = recipe.replace(scales="current", margin=_CARRIED_ROOM)
    elif recipe.scales == "delayed":
        recipe = recipe.replace(scales="current")
    kept = {key: value for key, value in options.items() if key not in ("castScales", "wide")}
    return kept | {
        "recipe": str(recipe),
        "returnGradients": True,
        "carryScales": False,
        "adaptScales": False,
        "packState": False,
    }
