"""State that an executable keeps for its caller: the arguments that the compiler adds to main.

They are main's last arguments, and their names start with `scalify.`. An argument that aliases a
result is replaced by it after each step; these results are main's last ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalify import _runtime
from scalify._amaxes import ARGUMENT_AMAX, ArgumentAmaxes

__all__ = [
    "AMAX_HISTORY",
    "CARRIED_SCALES",
    "CAST_SCALES",
    "GRADIENT_MU",
    "STATE_AMAX",
    "STATE_SCALES",
    "KeptState",
    "check_history",
    "check_kept",
]

_PREFIX = "scalify."
# From the pass scalify-adapt-scales: the scales of casts.
CAST_SCALES = "scalify.scales"
# From the pass scalify-carry-scales: scales of casts that earlier steps have moved. Zero stands for
# the predicted scale; a negative entry is a factor on a scale that the step measures.
CARRIED_SCALES = "scalify.carried_scales"
# From the pass scalify-delay-scales: the amaxes of earlier steps.
AMAX_HISTORY = "scalify.amax_history"
# From the pass scalify-scale-gradients: the factors of gradients that are stored narrow; zero
# stands for the first step's factor.
GRADIENT_MU = "scalify.gradient_mu"
# From the pass scalify-store-state: scales of the narrow data that the last step wrote, and the
# amaxes of their values; zero means that none was written.
STATE_SCALES = "scalify.state_scales"
STATE_AMAX = "scalify.state_amax"


class KeptState:
    """The arrays that an executable adds to its caller's arguments.

    Attributes:
        num_args: the number of main's arguments that the caller passes.
        is_initial: no step has run and no array was set.
        num_results: the number of main's results that the caller gets.
    """

    def __init__(self, runtime: _runtime.Executable) -> None:
        args, results = runtime.args, runtime.results
        self._runtime = runtime
        self.num_args = _count_own(args, lambda arg: arg["name"].startswith(_PREFIX))
        self.num_results = _count_own(results, lambda result: self._is_kept(result["alias_arg"]))
        names = [arg["name"] for arg in args]
        self.is_initial = True
        self._left = ArgumentAmaxes(runtime)
        # Amaxes of arguments are not state: another executable measures them.
        kept = [i for i in range(self.num_args, len(args)) if names[i] != ARGUMENT_AMAX]
        self._arrays: dict[str, Any] = {names[i]: runtime.initial(i) for i in kept}
        aliases = [result["alias_arg"] for result in results[self.num_results :]]
        self._replaced = [names[i] for i in aliases if i in kept]

    @property
    def measures(self) -> bool:
        """Whether `added` reads the values of arguments."""
        return self._left.measures

    def _is_kept(self, index: int | None) -> bool:
        return index is not None and index >= self.num_args

    def run(self, arrays: Sequence[Any], in_place: bool = False) -> list[Any]:
        """Runs one step on the caller's arguments and returns the caller's results.

        Args:
            arrays: the caller's arguments.
            in_place: overwrite donated NumPy arrays, as `_runtime.Executable.run`.

        Raises:
            ValueError: there are more or fewer arguments than the step takes.
        """
        if len(arrays) != self.num_args:
            raise ValueError(f"the step takes {self.num_args} arguments, not {len(arrays)}")
        results = list(self._runtime.run((*arrays, *self.added(arrays)), "step", in_place))
        own = results[: self.num_results]
        self.remember(own, results[self.num_results :])
        return own

    def move_scales(self, arrays: Sequence[Any]) -> None:
        """Counts the casts' values for the caller's arguments, and moves the carried scales.

        Nothing else changes: neither the arguments nor other state.
        """
        results = self._runtime.try_step((*arrays, *self.added(arrays)))
        added = dict(zip(self._replaced, results[self.num_results :], strict=False))
        if CARRIED_SCALES in added:
            self._arrays[CARRIED_SCALES] = added[CARRIED_SCALES]

    def added(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the arguments of main that follow the caller's."""
        return [*self._arrays.values(), *self._left.of(arrays)]

    def remember(self, own: Sequence[Any], added: Sequence[Any]) -> None:
        """Records main's results: the caller's own, and those that follow them."""
        self.is_initial = False
        self._left.remember(own, added)
        self._arrays.update(zip(self._replaced, added, strict=False))

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def get(self, name: str) -> NDArray[Any] | None:
        """Returns a copy of an array; None if this executable keeps none of that name."""
        return np.array(self._arrays[name]) if name in self._arrays else None

    def copies(self) -> dict[str, NDArray[Any]]:
        """Returns copies of all arrays by name."""
        return {name: np.array(array) for name, array in self._arrays.items()}

    def set(self, name: str, value: Any) -> None:
        """Sets an array of the executable to a copy of a value.

        Raises:
            ValueError: no such array is kept, or its shape, dtype or elements do not fit.
        """
        if name not in self._arrays:
            keeps = ", ".join(f"'{known}'" for known in self._arrays) or "nothing"
            raise ValueError(f"'{name}' is not kept by this step, which keeps {keeps}")
        self._arrays[name] = check_kept(name, value, self._arrays[name])
        self.is_initial = False

    def fits(self, name: str, value: NDArray[Any]) -> bool:
        """Whether an array of that name, shape and dtype is kept."""
        own = self._arrays.get(name)
        return own is not None and (own.shape, own.dtype) == (value.shape, value.dtype)


def _count_own(entries: Sequence[dict[str, Any]], is_kept: Callable[[dict[str, Any]], bool]) -> int:
    """Returns the number of entries before the trailing kept ones."""
    count = len(entries)
    while count and is_kept(entries[count - 1]):
        count -= 1
    return count


def check_kept(name: str, value: Any, like: Any) -> NDArray[Any]:
    """Returns a copy of a value as an array that can replace `like`.

    Raises:
        ValueError: the shape or dtype does not fit, or an element is invalid.
    """
    given = np.asarray(value)
    if given.shape != tuple(like.shape) or not np.can_cast(given.dtype, like.dtype, "same_kind"):
        raise ValueError(
            f"'{name}' is {like.dtype} of shape {tuple(like.shape)}, not {given.dtype} of shape "
            f"{given.shape}: it is of another program or another recipe"
        )
    array = np.array(given, like.dtype)
    if check := _CHECKS.get(name):
        check(array)
    return array


def check_history(history: Any, shape: Sequence[int]) -> NDArray[Any]:
    """Returns a copy of a history of amaxes as an F32 array.

    Raises:
        ValueError: the shape does not fit, or an amax is negative or not finite.
    """
    return check_kept(AMAX_HISTORY, history, np.empty(tuple(shape), np.float32))


def _check_amaxes(amaxes: NDArray[Any]) -> None:
    if not (np.isfinite(amaxes) & (amaxes >= 0)).all():
        raise ValueError("a history of amaxes has entries that are negative or not finite")


def _check_state_scales(scales: NDArray[Any]) -> None:
    _check_powers_of_two(scales[scales != 0])


def _check_carried(scales: NDArray[Any]) -> None:
    _check_state_scales(np.abs(scales))


def _check_factors(factors: NDArray[Any]) -> None:
    if not (np.isfinite(factors) & (factors >= 0)).all():
        raise ValueError("a factor of a gradient is negative or not finite")


def _check_powers_of_two(scales: NDArray[Any]) -> None:
    mantissas, _ = np.frexp(scales)
    if not np.array_equal(mantissas, np.full_like(scales, 0.5)):
        raise ValueError("a scale of a cast must be a positive power of two")


_CHECKS: Mapping[str, Callable[[NDArray[Any]], None]] = {
    AMAX_HISTORY: _check_amaxes,
    CARRIED_SCALES: _check_carried,
    CAST_SCALES: _check_powers_of_two,
    GRADIENT_MU: _check_factors,
    STATE_SCALES: _check_state_scales,
    STATE_AMAX: _check_amaxes,
}
