"""The state of scales of a transformed function between calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from scalify._diagnostics import warn
from scalify._first_batch import settle
from scalify._kept import AMAX_HISTORY, CARRIED_SCALES, check_kept
from scalify._lowering import Arguments, Lowered, Signature
from scalify._renewal import is_deleted
from scalify.report import Report

if TYPE_CHECKING:
    from scalify._transform import Transformed

__all__ = ["StepState", "fitted", "state_kind"]


def state_kind(fn: Transformed, arguments: Arguments, given: Any, is_traced: bool = False) -> str:
    """Returns the source of a call's scales of casts.

    Returns:
        "delayed": amaxes that the caller keeps; "given": scales that the caller keeps; "kept":
        scales that the function keeps; "measured": measured in each step, since JAX traces and the
        scales cannot be kept; "fixed": determined by the recipe or a calibration.
    """
    if fn.is_delayed:
        return "delayed"
    if not fn.is_carried:
        return "fixed"
    if given is not None:
        return "given"
    if is_traced or any(isinstance(leaf, jax.core.Tracer) for leaf in arguments.leaves):
        return "fixed" if fn.is_calibrated else "measured"
    return "kept"


def fitted(
    run: Callable[..., Sequence[Any]],
    lowered: Lowered,
    inputs: Sequence[Any],
    state: Any,
    key: Sequence[Any],
) -> Any:
    """Returns a state of scales after trial steps (`settle`), of which nothing else is kept.

    It is `state` for a function that calls back, whose effects would be visible, for arguments that
    were donated, and where JAX compiles nothing.

    Args:
        run: the step, which takes arguments, the state and `key`, and returns results, the state
            and maybe more.
        lowered: the function.
        inputs: its arguments.
        state: the scales to start with.
        key: the step's key of random words, if it takes one.
    """
    if lowered.callbacks or jax.config.jax_disable_jit or any(map(is_deleted, inputs)):
        return state

    def move(state: Any) -> Any:
        pairs = zip(inputs, lowered.donated, strict=True)
        own = [jnp.copy(leaf) if is_donated else leaf for leaf, is_donated in pairs]
        return run(*own, state, *key)[len(lowered.out_keys)]

    return settle(move, state)[0]


class StepState:
    """The states of scales that one transformed function keeps, by compiled shape."""

    def __init__(self, signature: Signature, recipe: str, extra: Mapping[str, Any]) -> None:
        self._name = signature.name
        self._recipe = recipe
        self._extra = dict(extra)
        self._arrays: dict[Hashable, Any] = {}
        # The names of the casts with a scale in `_arrays`.
        self._casts: dict[Hashable, list[str]] = {}
        self._last_key: Hashable = None
        self._pending: Any = None
        self._has_warned = False
        # The function may have a parameter `state` of its own.
        try:
            parameters = inspect.signature(signature.fn).parameters.values()
        except (TypeError, ValueError):
            parameters = {}.values()
        self._takes_state_keyword = not any(
            one.name == "state" or one.kind is one.VAR_KEYWORD for one in parameters
        )

    def given(
        self, scale_state: Any, amax_history: Any, kwargs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Returns the state given to a call, and the call's other keyword arguments.

        Raises:
            TypeError: more than one state is given.
        """
        states = [scale_state, amax_history]
        if self._takes_state_keyword and "state" in kwargs:
            kwargs = dict(kwargs)
            states.append(kwargs.pop("state"))
        found = [state for state in states if state is not None]
        if len(found) > 1:
            raise TypeError(f"'{self._name}' takes one state of scales, not {len(found)}")
        return (found[0] if found else None), kwargs

    def options(self, kind: str) -> dict[str, Any]:
        """Returns the compiler's options for a kind of call."""
        return self._extra | {
            "carryScales": kind in ("given", "kept"),
            "measureCasts": kind == "measured",
        }

    def take(
        self,
        key: Hashable,
        kind: str,
        given: Any,
        shape: tuple[int, ...] | None,
        report: Report,
    ) -> tuple[Any, ...]:
        """Returns main's arguments that follow the function's own.

        The first call with other shapes continues with the scales of the last call, and warns.

        Raises:
            TypeError: a state is missing, or the function takes none.
            ValueError: the state is of another program.
        """
        if kind in ("fixed", "measured"):
            if given is not None:
                raise TypeError(
                    f"'{self._name}' takes no state: recipe '{self._recipe}' keeps no state"
                )
            return ()
        if kind == "delayed" and given is None:
            raise TypeError(
                f"'{self._name}' needs the amaxes of earlier steps: start from state = "
                f"{self._name}.init_state(*args), and call results, state = "
                f"{self._name}(*args, state=state); scalify.jit keeps them by itself"
            )
        if shape is None:
            return ()
        if kind == "kept":
            if key not in self._casts:
                self._casts[key] = [
                    row["cast"] for row in report.casts() if row["scaling"] == "carried"
                ]
            given, self._pending = self._arrays.get(key, self._pending), None
            given = self._initial_scales(key, shape) if given is None else given
            self._last_key = key
        return (self._checked(kind, given, shape),)

    def _initial_scales(self, key: Hashable, shape: tuple[int, ...]) -> Any:
        """Returns the initial scales of the first call with its shapes."""
        last = self._arrays.get(self._last_key)
        if last is None:
            return np.zeros(shape, np.float32)
        fits = last.shape == shape and self._casts[key] == self._casts[self._last_key]
        warn(
            f"'{self._name}' is rewritten once more, for arguments of other types: scales of "
            f"{len(self._casts[key])} casts "
            + ("are kept" if fits else "start anew, since its casts are others")
        )
        return last if fits else np.zeros(shape, np.float32)

    def _checked(self, kind: str, given: Any, shape: tuple[int, ...]) -> Any:
        name = AMAX_HISTORY if kind == "delayed" else CARRIED_SCALES
        if not isinstance(given, (jax.Array, jax.ShapeDtypeStruct)):
            return check_kept(name, given, np.empty(shape, np.float32))
        # Checks only the shape, so that the values are not copied.
        if given.shape != shape:
            what = "history of amaxes" if kind == "delayed" else "state of scales"
            raise ValueError(
                f"a {what} of shape {given.shape} for a step that keeps {shape}: it is of another "
                "program or another recipe"
            )
        return given

    def starts(self, key: Hashable) -> bool:
        """Whether a call that keeps its state is the first one, with no state set before."""
        return key not in self._arrays and self._pending is None

    def keep(self, key: Hashable, state: Any) -> bool:
        """Keeps a returned state; False if it is a tracer, which is not kept."""
        if isinstance(state, jax.core.Tracer):
            return False
        if state is not None:
            self._arrays[key] = state
        return True

    def get(self) -> np.ndarray | None:
        """Returns a copy of the last state kept; None if there is none yet."""
        state = self._arrays.get(self._last_key, self._pending)
        return None if state is None else np.array(state)

    def set(self, value: Any) -> None:
        """Sets the state that the next call takes.

        Raises:
            ValueError: the state is of another program, or contains an invalid scale.
        """
        known = self._arrays.get(self._last_key)
        shape: Sequence[int] = np.shape(value if known is None else known)
        state = check_kept(CARRIED_SCALES, value, np.empty(shape, np.float32))
        if known is None:
            self._pending = state
        else:
            self._arrays[self._last_key] = state

    def warn_measured(self, report: Report) -> None:
        """Warns once that each step measures arguments, and scales of casts."""
        arguments = len(report.measured_arguments())
        count = sum(row["scaling"] == "measured" for row in report.casts())
        if self._has_warned or not (arguments or count):
            return
        self._has_warned = True
        # The model of noise needs sizes of all arguments that reach the loss.
        judged = ""
        if arguments:
            judged = ", and layers that FP8 would harm (sensitive) are chosen by predicted sizes"
        warn(
            f"'{self._name}' is traced without values: each step measures {arguments} of its "
            f"arguments{judged}; numerics=scalify.Numerics(scales=scalify.measure(args)) makes "
            f"their scales constants, and takes their sizes. It also measures what {count} casts "
            "read; their scales are carried from step to step instead if you start from "
            f"state = {self._name}.init_state(*args) and "
            f"call results, state = {self._name}(*args, state=state)"
        )

    def warn_undeclared(self, report: Report, is_delayed: bool) -> None:
        """Warns of arguments without values, and how their scales are determined."""
        count = len(report.measured_arguments())
        if not count and not is_delayed:
            return
        what = f"each step measures {count} of its arguments" if count else "they count as 2^0"
        warn(
            f"'{self._name}' is traced without values of its arguments: {what}; "
            "numerics=scalify.Numerics(scales=scalify.measure(args)) makes their scales constants"
        )
