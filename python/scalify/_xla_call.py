"""A step as an XLA program of one custom call, which `jax.jit` runs on JAX's arrays.

JAX itself therefore handles donation, deleted arguments, copies of arguments that are still viewed,
devices and weak types. XLA allocates the step's memory: a result aliases its donated argument.
"""

from __future__ import annotations

import functools
import operator
import pathlib
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jax.extend import core as jax_core
from jax.interpreters import mlir as jax_mlir

from scalify import _runtime
from scalify._dtypes import to_numpy
from scalify._views import is_jax_type

__all__ = ["SeveralDevicesError", "StepInXla"]

_TARGET = "scalify_step"


class SeveralDevicesError(Exception):
    """The arguments are on several JAX devices, and the step runs on the host."""


class _Kept(Protocol):
    """The methods of `KeptState` that a call needs."""

    def added(self, arrays: Sequence[Any]) -> list[Any]: ...
    def remember(self, own: Sequence[Any], added: Sequence[Any]) -> None: ...


@functools.cache
def _register() -> None:
    # XLA refuses a handler of another version; the part that ours uses is the same in all of them.
    header = pathlib.Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    text = header.read_text(encoding="utf-8")
    found = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", text))
    handler = _runtime.xla_handler(int(found["MAJOR"]), int(found["MINOR"]))
    jax.ffi.register_ffi_target(_TARGET, handler, platform="cpu")


class StepInXla:
    """An executable's step on JAX's arrays, with JAX's compiled program for it."""

    def __init__(
        self,
        runtime: _runtime.Executable,
        kept: _Kept,
        counts: tuple[int, int],
        donated: Sequence[bool],
        keys: tuple[Sequence[str | None], Sequence[str | None]],
        weak: Sequence[bool],
        name: str,
    ) -> None:
        """Builds the program; JAX compiles it at the first call.

        Args:
            runtime: the executable.
            kept: the state that the executable keeps.
            counts: the number of the caller's arguments and results.
            donated: per argument, whether the caller donates it, for those that alias no result.
            keys: per argument and per result, the generator if it is random keys.
            weak: per result, whether its type is weak.
            name: of the function, for profiles.
        """
        _register()
        args, results = runtime.args[: counts[0]], runtime.results[: counts[1]]
        aliases = [result["alias_arg"] for result in results]
        taken = [index for index, alias in enumerate(aliases) if alias is not None]
        free = [index for index, alias in enumerate(aliases) if alias is None]
        # JAX pairs donated arguments and results of the same type in order.
        given = [aliases[index] for index in taken]
        rest = sorted(set(range(len(args))) - set(given), key=lambda i: (not donated[i], i))
        self._results, self._operands = taken + free, given + rest
        self._kept = kept
        self._call = runtime.xla_call(self._operands, self._results)
        self._lock = threading.Lock()
        self._order = _permutation(self._operands)
        self._back = _permutation(list(np.argsort(self._results)))
        self._avals = tuple(
            jax.core.ShapedArray(
                results[index]["shape"], to_numpy(results[index]["dtype"]), weak_type=weak[index]
            )
            for index in self._results
        )
        self._types = [
            (tuple(args[i]["shape"]), to_numpy(args[i]["dtype"])) for i in self._operands
        ]
        self._names = [args[index]["name"] for index in self._operands]
        self._in_keys = [keys[0][index] for index in self._operands]
        self._out_keys = [keys[1][index] for index in self._results]
        count = len(given) + sum(donated[index] for index in rest)
        self._aliases = tuple((place, place) for place in range(len(given)))

        def step(*operands: Any) -> Any:
            return self._traced(operands)

        step.__name__ = step.__qualname__ = name
        self._run: Callable[..., Sequence[Any]] = jax.jit(
            step, donate_argnums=tuple(range(count)), keep_unused=True
        )

    @property
    def copied(self) -> int:
        """Bytes copied because XLA did not place a result in its donated argument's memory."""
        return self._call.copied

    def _traced(self, operands: Sequence[Any]) -> list[Any]:
        flat = [
            one if impl is None else jax.random.key_data(one)
            for one, impl in zip(operands, self._in_keys, strict=True)
        ]
        for one, (shape, dtype), name in zip(flat, self._types, self._names, strict=True):
            if one.shape != shape or one.dtype != dtype:
                raise ValueError(
                    f"argument '{name}' takes {dtype} of shape {shape}, not {one.dtype} of shape "
                    f"{one.shape}"
                )
        results = _step_p.bind(
            *flat, avals=self._avals, number=self._call.id, aliases=self._aliases
        )
        return [
            one if impl is None else jax.random.wrap_key_data(one, impl=impl)
            for one, impl in zip(results, self._out_keys, strict=True)
        ]

    def __call__(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Runs the step to completion and returns the caller's results in order.

        Raises:
            RuntimeError: an argument was deleted, for example donated before, or the step failed.
            SeveralDevicesError: an argument is on several devices.
            KeyboardInterrupt: between two commands; donated arrays are then lost.
        """
        with self._lock:
            self._call.prepare(self._kept.added(arrays))
            try:
                found = self._run(*self._order(arrays))
                found[-1].block_until_ready()
            except BaseException as error:
                added = self._call.finish()  # raises the error of the step, if it ran and failed
                if added is not None:
                    # Interrupted after the step: the kept state is that of the completed step.
                    self._kept.remember((), added)
                elif isinstance(error, Exception) and (deleted := _deleted_among(arrays)):
                    raise deleted from None
                raise
            added = self._call.finish()
            assert added is not None
            results = self._back(found)
            self._kept.remember(results, added)
            return results


def _deleted_among(arrays: Sequence[Any]) -> RuntimeError | None:
    """Returns JAX's error for a deleted array, which it does not raise beside numpy arguments."""
    for array in arrays:
        if is_jax_type(type(array)) and array.is_deleted():
            return RuntimeError(f"Array has been deleted with shape={array.aval.str_short()}.")
    return None


def _permutation(order: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Returns a function that permutes a sequence into an order."""
    if list(order) == list(range(len(order))):
        return list
    # An itemgetter of one index returns the item, not a tuple.
    return operator.itemgetter(*order) if len(order) > 1 else lambda items: [items[order[0]]]


_step_p = jax_core.Primitive(_TARGET)
_step_p.multiple_results = True


def _abstract_eval(*_: Any, avals: tuple[Any, ...], **__: Any) -> tuple[Any, ...]:
    return avals


def _run_eagerly(*operands: Any, **params: Any) -> Any:
    """Runs the primitive under `jax.disable_jit`, where JAX evaluates each primitive by itself."""
    with jax.disable_jit(False):
        return jax.jit(functools.partial(_step_p.bind, **params))(*operands)


def _lower(
    ctx: Any, *operands: Any, avals: Any, number: int, aliases: tuple[tuple[int, int], ...]
) -> Any:
    if getattr(ctx.module_context.axis_context, "num_devices", 1) > 1:
        raise SeveralDevicesError
    # Without the side effect XLA drops a step whose results have no elements.
    rule = jax.ffi.ffi_lowering(_TARGET, operand_output_aliases=dict(aliases), has_side_effect=True)
    return rule(ctx, *operands, id=np.int64(number))


_step_p.def_abstract_eval(_abstract_eval)
_step_p.def_impl(_run_eagerly)
jax_mlir.register_lowering(_step_p, _lower, platform="cpu")
