"""scalify.tune: finds the dots that must stay wide, by comparison with F32 on the CPU."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from scalify._lowering import Arguments, Lowered, Signature, to_physical
from scalify._probe import run_text
from scalify._transform import transform_lowered
from scalify.recipe import Formats, Recipe, RecipeLike
from scalify.scales import Scales, measure

__all__ = ["Tuned", "TunedDot", "tune"]

_KINDS = ("forward_dot", "input_grad", "weight_grad")
# A result whose rms is below this share of the rms of all results of its kind is F32 noise.
_NOISE = 1e-5
# A change of state below this share of the state is F32 noise too: F32 rounds it to 8 bits.
_ROUNDING = 2.0**-15


@dataclasses.dataclass(frozen=True)
class TunedDot:
    """A dot that has to stay wide, or several dots with the same kind and name.

    Attributes:
        kind: "forward_dot", "input_grad" or "weight_grad"; "" for a dot of the update.
        name: of its layer's weight; without a weight, JAX's names of its location.
        dots: the number of dots.
        alone: the error if only these dots are narrow.
        back: the error if the found recipe made these dots narrow again.
    """

    kind: str
    name: str
    dots: int
    alone: float
    back: float


@dataclasses.dataclass(frozen=True)
class Tuned:
    """The result of `scalify.tune`.

    Attributes:
        recipe: the given recipe, with an exception (`where`) for each dot that has to stay wide.
        dots: the dots that have to stay wide, in program order.
        before: the error by the given recipe.
        after: the error by `recipe`.
        worst: the path of the result with the error `after`.
        narrow: the number of dots that are narrow under `recipe`.
        runs: the number of recipes tried.
    """

    recipe: Recipe
    dots: tuple[TunedDot, ...]
    before: float
    after: float
    worst: str
    narrow: int
    runs: int

    def __str__(self) -> str:
        lines = [
            f"error {self.before:.3g} before, {self.after:.3g} after (at {self.worst}); "
            f"{sum(dot.dots for dot in self.dots)} dots stay wide, {self.narrow} are narrow; "
            f"{self.runs} recipes tried"
        ]
        lines += [
            f"  {dot.kind or 'dot'} of {dot.name}: error {dot.alone:.3g} if it alone is narrow, "
            f"{dot.back:.3g} if it is narrow again"
            for dot in self.dots
        ]
        return "\n".join([*lines, str(self.recipe)])


def tune(
    step: Callable[..., Any],
    data: Sequence[Any],
    tolerance: float = 0.3,
    *,
    recipe: RecipeLike | None = None,
    scales: Scales | None = None,
    keep: Formats = False,
) -> Tuned:
    """Finds the dots that have to stay wide for a step to agree with F32, and returns a recipe.

    The step runs on XLA's CPU, once in F32 and once for each recipe tried, on equal arguments. The
    error of a result is the norm of its difference from F32 over the norm of the F32 result (0.3 is
    a cosine of about 0.95). The largest error of any floating-point result over all of `data`
    counts. A result with the tree and the shapes of a donated argument is new state: its change is
    compared. If a step updates by signs or by quotients of gradients, as Adam's first step does,
    pass the function that returns gradients instead.

    The set of dots left wide is minimal: making any of them narrow again brings the error above
    the tolerance. It is found by bisection, in about log2(dots) runs for each. A recipe within the
    tolerance is returned unchanged.

    Args:
        step: a function of pytrees of arrays, or the result of `scalify.jit` or
            `scalify.transform`.
        data: the arguments of one call, as a tuple; or a list of such tuples.
        tolerance: the largest error allowed for any result.
        recipe: to start from; by default that of `step` if it has one, else "fp8".
        scales: of the arguments, from `scalify.measure`; by default measured on the first of
            `data`.
        keep: the format of dots that have to stay wide: False (wide), or "bf16".

    Raises:
        ValueError: the error is above the tolerance with all dots left wide, or there is no data.
        scalify.CompileError: the program or the recipe cannot be compiled.
    """
    calls = [tuple(call) for call in data] if isinstance(data, list) else [tuple(data)]
    if not calls:
        raise ValueError("no data: give the arguments of one call, or a list of such tuples")
    start = Recipe.of(recipe if recipe is not None else getattr(step, "recipe", "fp8"))
    search = _Search(step, calls, start, scales or getattr(step, "_given", None), keep)
    return search.run(tolerance)


@dataclasses.dataclass(frozen=True)
class _Dots:
    """Dots with one kind and name, to which an exception applies together."""

    kind: str
    name: str
    dots: int

    @property
    def pattern(self) -> str:
        prefix = f"{self.kind}:" if self.kind else ""
        return f"{prefix}^{re.escape(self.name)}$"


class _Search:
    """Runs a step by recipes and compares the results with F32."""

    def __init__(
        self,
        step: Callable[..., Any],
        calls: list[tuple[Any, ...]],
        start: Recipe,
        scales: Any,
        keep: Formats,
    ) -> None:
        signature = getattr(step, "_signature", None) or Signature(step)
        self._name: str = signature.name
        self._arguments: list[Arguments] = [signature.bind(call, {}) for call in calls]
        self._lowered: list[Lowered] = [signature.lower(bound) for bound in self._arguments]
        self._scales = measure(self._arguments[0].leaves) if scales is None else scales
        self._start, self._keep = start, keep
        self._errors: dict[frozenset[_Dots], tuple[float, str]] = {}
        self._old = [_state(*pair) for pair in zip(self._lowered, self._arguments, strict=True)]
        self._wanted = [self._results(index, Recipe.preset("none")) for index in range(len(calls))]
        self._report = transform_lowered(self._lowered[0], start, False, self._scales)[1]

    def run(self, tolerance: float) -> Tuned:
        dots = list(self._candidates())
        before, worst = self._error(frozenset())
        wide: list[_Dots] = []
        if before > tolerance:
            least, at = self._error(frozenset(dots))
            if least > tolerance:
                raise ValueError(
                    f"with every dot {self._keep or 'left wide'} the error is {least:.3g} (at "
                    f"{at}), above the tolerance of {tolerance:.3g}: no exception helps; change "
                    "the recipe's formats of state and of saved values, or keep=, or raise the "
                    "tolerance"
                )
            wide = _minimal(dots, lambda some: self._error(frozenset(some))[0] <= tolerance)
        after, worst = self._error(frozenset(wide))
        rows = tuple(
            TunedDot(
                dot.kind,
                dot.name,
                dot.dots,
                self._error(frozenset(dots) - {dot})[0],
                self._error(frozenset(wide) - {dot})[0],
            )
            for dot in wide
        )
        narrow = sum(dot.dots for dot in dots) - sum(dot.dots for dot in wide)
        return Tuned(self._recipe(wide), rows, before, after, worst, narrow, len(self._errors))

    def _candidates(self) -> Iterable[_Dots]:
        """Returns the dots that the recipe makes narrow, in program order."""
        found: dict[tuple[str, str], int] = {}
        for row in self._report.dots():
            # A narrow dot's format is one narrow format, or two: "a x b -> c".
            if row["format"].startswith("f32") or row["wide"]:
                continue
            name = row["weight"] or _names(row["location"])
            if name:
                key = (row["kind"], name)
                found[key] = found.get(key, 0) + 1
        return [_Dots(kind, name, dots) for (kind, name), dots in found.items()]

    def _recipe(self, wide: Iterable[_Dots]) -> Recipe:
        """Returns the given recipe with exceptions, one for all dots of a layer if possible."""
        kinds: dict[str, list[_Dots]] = {}
        for dot in wide:
            kinds.setdefault(dot.name, []).append(dot)
        exceptions: list[tuple[str, Formats]] = []
        for name, dots in kinds.items():
            if {dot.kind for dot in dots} == set(_KINDS):
                exceptions.append((f"^{re.escape(name)}$", self._keep))
            else:
                exceptions += [(dot.pattern, self._keep) for dot in dots]
        if not exceptions:
            return self._start
        given: Any = self._start.where
        return self._start.replace(where=[*exceptions, *given])

    def _results(self, index: int, recipe: Recipe) -> list[np.ndarray]:
        """Returns the flat results of one call by a recipe, floats as F64, state as its change."""
        lowered, arguments = self._lowered[index], self._arguments[index]
        text, _ = transform_lowered(lowered, recipe, False, self._scales)
        results = run_text(self._name, text, lowered, arguments)[: len(lowered.out_avals)]
        return [
            _as_float(result) - old if old is not None else _as_float(result)
            for result, old in zip(results, self._old[index], strict=True)
        ]

    def _error(self, wide: frozenset[_Dots]) -> tuple[float, str]:
        """Returns the error with some dots left wide, and the path of its result."""
        if wide not in self._errors:
            recipe = self._recipe(sorted(wide, key=lambda dot: (dot.name, dot.kind)))
            self._errors[wide] = max(
                (
                    _worst(
                        self._results(index, recipe),
                        wanted,
                        self._old[index],
                        self._lowered[index].out_tree,
                    )
                    for index, wanted in enumerate(self._wanted)
                ),
                key=lambda found: found[0],
            )
        return self._errors[wide]


def _names(location: str) -> str:
    """Returns JAX's names in `file:line:column (names)`; "" if there are none."""
    match = re.search(r"\((.*)\)$", location)
    return match.group(1) if match else ""


def _is_float(array: Any) -> bool:
    return bool(jax.dtypes.issubdtype(array.dtype, np.floating))


def _as_float(array: Any) -> np.ndarray:
    return np.asarray(array, np.float64) if _is_float(array) else np.asarray(array)


def _state(lowered: Lowered, arguments: Arguments) -> list[np.ndarray | None]:
    """Returns for each flat result the donated argument that it updates; None for others."""
    leaves = [
        leaf if donated else None
        for leaf, donated in zip(arguments.leaves, lowered.donated, strict=True)
    ]
    positional, named = jax.tree.unflatten(arguments.tree, leaves)
    unused = [tree for tree in (*positional, *named.values()) if jax.tree.leaves(tree)]
    results = jax.tree.unflatten(lowered.out_tree, lowered.out_avals)
    parts = results if isinstance(results, tuple) else (results,)
    old: list[np.ndarray | None] = []
    for part in parts:
        match = next((tree for tree in unused if _same_structure(tree, part)), None)
        if match is None:
            old += [None] * len(jax.tree.leaves(part))
            continue
        unused = [tree for tree in unused if tree is not match]
        old += [
            np.asarray(to_physical(leaf), np.float64) if _is_float(leaf) else None
            for leaf in jax.tree.leaves(match)
        ]
    return old


def _same_structure(argument: Any, result: Any) -> bool:
    return bool(jax.tree.structure(argument) == jax.tree.structure(result)) and all(
        np.shape(old) == new.shape
        for old, new in zip(jax.tree.leaves(argument), jax.tree.leaves(result), strict=True)
    )


def _worst(
    got: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    old: Sequence[np.ndarray | None],
    tree: Any,
) -> tuple[float, str]:
    """Returns the largest error of a floating-point result, and its path."""
    groups: dict[tuple[bool, bool], list[float]] = {}
    for theirs, state in zip(wanted, old, strict=True):
        if _is_float(theirs):
            totals = groups.setdefault((state is None, theirs.ndim == 0), [0.0, 0.0])
            totals[0] += float(np.sum(theirs**2))
            totals[1] += theirs.size
    errors = []
    for (path, _), mine, theirs, state in zip(_paths(tree), got, wanted, old, strict=True):
        if not _is_float(theirs) or not theirs.size:
            continue
        squares, count = groups[state is None, theirs.ndim == 0]
        noise = _NOISE * math.sqrt(squares / count * theirs.size)
        if state is not None:
            noise = max(noise, _ROUNDING * float(np.linalg.norm(state.ravel())))
        errors.append((_error_of(mine, theirs, noise), path))
    return max(errors, key=lambda found: found[0], default=(0.0, "nothing"))


def _error_of(got: np.ndarray, wanted: np.ndarray, noise: float) -> float:
    """Returns the relative norm of the difference; infinite if it is not finite."""
    difference = float(np.linalg.norm((got - wanted).ravel()))
    if difference == 0:
        return 0.0
    # A result that is not finite in F32 cannot be compared.
    error = difference / max(float(np.linalg.norm(wanted.ravel())), noise)
    return error if math.isfinite(error) else math.inf


def _paths(tree: Any) -> list[tuple[str, Any]]:
    leaves = jax.tree.unflatten(tree, list(range(tree.num_leaves)))
    return [
        ("result" + jax.tree_util.keystr(path), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(leaves)
    ]


def _minimal(dots: list[_Dots], passes: Callable[[list[_Dots]], bool]) -> list[_Dots]:
    """Returns a minimal subset of `dots` that passes, by bisection.

    All of `dots` pass, and the empty set does not. Each half is searched with the dots kept that
    the search of the other half found.
    """

    def search(kept: list[_Dots], grown: bool, rest: list[_Dots]) -> list[_Dots]:
        if grown and passes(kept):
            return []
        if len(rest) == 1:
            return rest
        half = len(rest) // 2
        left, right = rest[:half], rest[half:]
        later = search(kept + left, True, right)
        earlier = search(kept + later, bool(later), left)
        return earlier + later

    found = search([], False, dots)
    # Errors of two dots may cancel, so that the subset is not yet minimal: try each dot again.
    for dot in list(found):
        fewer = [other for other in found if other is not dot]
        if passes(fewer):
            found = fewer
    return sorted(found, key=functools.partial(dots.index))
