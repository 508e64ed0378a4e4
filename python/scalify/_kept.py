"""State that an executable keeps for its caller: the arguments that the compiler adds to main.

They are main's last ones, and their names start with `scalify.`. One that aliases a result is
replaced by it after each step; such results are main's last ones too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalify import _runtime
from scalify._amaxes import ARGUMENT_AMAX, LeftAmaxes

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
# Of the pass scalify-adapt-scales: the scales of casts.
CAST_SCALES = "scalify.scales"
# Of the pass scalify-carry-scales: scales of casts that the steps have moved; zeros stand for the
# predicted ones, and where the step measures the scale, what is below zero for a factor of that.
CARRIED_SCALES = "scalify.carried_scales"
# Of the pass scalify-delay-scales: the amaxes of earlier steps.
AMAX_HISTORY = "scalify.amax_history"
# Of the pass scalify-scale-gradients: the factors of gradients that are stored narrow; zeros stand
# for the first step's.
GRADIENT_MU = "scalify.gradient_mu"
# Of the pass scalify-store-state: scales of narrow data that the last step wrote, and the amaxes
# of their values; zeros mean that none was written.
STATE_SCALES = "scalify.state_scales"
STATE_AMAX = "scalify.state_amax"


class KeptState:
    """The arrays that an executable adds to its caller's arguments.

    Attributes:
        num_args: how many arguments main takes of the caller.
        num_results: how many results main returns to the caller.
    """

    def __init__(self, runtime: _runtime.Executable) -> None:
        args, results = runtime.args, runtime.results
        self._runtime = runtime
        self.num_args = _count_own(args, lambda arg: arg["name"].startswith(_PREFIX))
        self.num_results = _count_own(results, lambda result: self._is_kept(result["alias_arg"]))
        names = [arg["name"] for arg in args]
        self._left = LeftAmaxes(runtime)
        # What is left is no state: another executable measures it.
        kept = [i for i in range(self.num_args, len(args)) if names[i] != ARGUMENT_AMAX]
        self._arrays: dict[str, Any] = {names[i]: runtime.initial(i) for i in kept}
        aliases = [result["alias_arg"] for result in results[self.num_results :]]
        self._replaced = [names[i] for i in aliases if i in kept]

    def _is_kept(self, index: int | None) -> bool:
        return index is not None and index >= self.num_args

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Runs one step on the caller's arguments and returns the caller's results.

        Raises:
            ValueError: there are more or fewer arguments than the step takes.
        """
        if len(arrays) != self.num_args:
            raise ValueError(f"the step takes {self.num_args} arguments, not {len(arrays)}")
        results = list(self._runtime.run((*arrays, *self.added(arrays))))
        own = results[: self.num_results]
        self.remember(own, results[self.num_results :])
        return own

    def added(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns what main takes behind the caller's arguments."""
        return [*self._arrays.values(), *self._left.of(arrays)]

    def remember(self, own: Sequence[Any], added: Sequence[Any]) -> None:
        """Notes what main has returned: to the caller, and behind that."""
        self._left.remember(own, added)
        self._arrays.update(zip(self._replaced, added, strict=False))

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def get(self, name: str) -> NDArray[Any] | None:
        """Returns a copy of an array, None for a name that this executable does not keep."""
        return np.array(self._arrays[name]) if name in self._arrays else None

    def copies(self) -> dict[str, NDArray[Any]]:
        """Returns copies of all arrays by name."""
        return {name: np.array(array) for name, array in self._arrays.items()}

    def set(self, name: str, value: Any) -> None:
        """Sets an array of the executable to a copy of a value.

        Raises:
            ValueError: no such array is kept, or its shape, dtype or elements are others.
        """
        if name not in self._arrays:
            keeps = ", ".join(f"'{known}'" for known in self._arrays) or "nothing"
            raise ValueError(f"'{name}' is not kept by this step, which keeps {keeps}")
        self._arrays[name] = check_kept(name, value, self._arrays[name])

    def fits(self, name: str, value: NDArray[Any]) -> bool:
        """Whether an array of that name, shape and dtype is kept."""
        own = self._arrays.get(name)
        return own is not None and (own.shape, own.dtype) == (value.shape, value.dtype)


def _count_own(entries: Sequence[dict[str, Any]], is_kept: Callable[[dict[str, Any]], bool]) -> int:
    """Returns the number of entries before those at the end that are kept."""
    count = len(entries)
    while count and is_kept(entries[count - 1]):
        count -= 1
    return count


def check_kept(name: str, value: Any, like: Any) -> NDArray[Any]:
    """Returns a value as an array of its own that can take the place of `like`.

    Raises:
        ValueError: its shape is another one, or its elements cannot be meant.
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
    """Returns a history of amaxes as an F32 array of its own.

    Raises:
        ValueError: its shape is another one, or an amax is negative or not finite.
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
