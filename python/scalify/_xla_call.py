"""A step as an XLA program of one custom call, which `jax.jit` runs on JAX's arrays.

JAX itself therefore handles donation, deleted arguments, copies of arguments that are still viewed,
devices and weak types. XLA allocates the step's memory: a result aliases its donated argument.

The same custom call may be part of another function under `jax.jit`, which XLA then runs as often
as it likes.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import operator
import pathlib
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jax.extend import core as jax_core
from jax.interpreters import ad, batching
from jax.interpreters import mlir as jax_mlir

from scalify import _runtime
from scalify._dtypes import to_numpy
from scalify._views import is_jax_type

__all__ = ["SeveralDevicesError", "StepInXla"]

_TARGET = "scalify_step"


# XLA packs these into bytes; the runtime, as numpy, has a byte for each element.
_IN_BYTES = {
    to_numpy("i2"): np.dtype(np.int8),
    to_numpy("i4"): np.dtype(np.int8),
    to_numpy("ui2"): np.dtype(np.uint8),
    to_numpy("ui4"): np.dtype(np.uint8),
}


def _stored(dtype: Any) -> Any:
    """Returns the type as which XLA passes arrays of `dtype` to the runtime."""
    return _IN_BYTES.get(dtype, dtype)


class SeveralDevicesError(Exception):
    """The arguments are on several JAX devices, and the step runs on the host."""

    def __init__(self) -> None:
        super().__init__(
            "a step within jax.jit runs on one device, and the program is for several: shard it "
            "with scalify.jit(distribution=), or use scalify.transform"
        )


class _Kept(Protocol):
    """The part of `KeptState` that a call needs."""

    @property
    def measures(self) -> bool: ...
    def added(self, arrays: Sequence[Any]) -> list[Any]: ...
    def remember(self, own: Sequence[Any], added: Sequence[Any]) -> None: ...


@functools.cache
def _register() -> None:
    # XLA refuses a handler of another version; the part that ours uses is the same in all of them.
    header = pathlib.Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    text = header.read_text(encoding="utf-8")
    found = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", text))
    version = int(found["MAJOR"]), int(found["MINOR"])
    for platform, is_for_gpu in (("cpu", False), ("CUDA", True)):
        handler = _runtime.xla_handler(*version, is_for_gpu)
        jax.ffi.register_ffi_target(_TARGET, handler, platform=platform)


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
        self._runtime = runtime
        self._call = runtime.xla_call(self._operands, self._results)
        self._within: _runtime.XlaCall | None = None
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
            return self._bind(operands, self._call.id)

        step.__name__ = step.__qualname__ = name
        self._run: Callable[..., Sequence[Any]] = jax.jit(
            step, donate_argnums=tuple(range(count)), keep_unused=True
        )

    @property
    def copied(self) -> int:
        """Bytes copied because XLA did not place a result in its donated argument's memory."""
        return self._call.copied

    def traced(self, arrays: Sequence[Any], content: bytes) -> Sequence[Any]:
        """Returns the results of the step as a part of the function that JAX traces.

        Args:
            arrays: tracers and arrays, the caller's arguments in order.
            content: the artefact.
        """
        if self._within is None:
            self._within = self._runtime.xla_call(
                self._operands, self._results, _number_of(content)
            )
            self._within.set_hooks(*_hooks(self), self._kept.measures)
        return self._back(self._bind(self._order(arrays), self._within.id, self))

    def prepare_within(self, operands: Sequence[Any]) -> None:
        """Prepares a run that XLA starts; the operands are numpy arrays if the step reads them."""
        assert self._within is not None
        arrays: list[Any] = [None] * len(self._operands)
        for index, operand in zip(self._operands, operands, strict=False):
            arrays[index] = operand
        self._within.prepare(self._kept.added(arrays))

    def finish_within(self) -> None:
        """Keeps the state that a run which XLA started has left."""
        assert self._within is not None
        added = self._within.finish()
        if added is not None:
            self._kept.remember((), added)

    def _bind(self, operands: Sequence[Any], number: int, owner: Any = None) -> list[Any]:
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
        avals = tuple(
            aval.update(dtype=_stored(aval.dtype)) if aval.dtype in _IN_BYTES else aval
            for aval in self._avals
        )
        flat = [
            jax.lax.convert_element_type(one, _stored(one.dtype)) if one.dtype in _IN_BYTES else one
            for one in flat
        ]
        results = _step_p.bind(
            *flat, avals=avals, number=number, aliases=self._aliases, owner=owner
        )
        results = [
            jax.lax.convert_element_type(one, aval.dtype) if aval.dtype in _IN_BYTES else one
            for one, aval in zip(results, self._avals, strict=True)
        ]
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


# The number of calls within other functions, by artefact.
_numbered: collections.Counter[int] = collections.Counter()


def _number_of(content: bytes) -> int:
    """Returns a number for one more call of an artefact within another function.

    JAX's persistent cache keeps the program for other processes: there the same artefact must have
    the same number, and no other one may.
    """
    digest = hashlib.blake2b(content, digest_size=5).digest()
    first = 1 << 60 | int.from_bytes(digest, "little") << 16
    _numbered[first] += 1
    return first + _numbered[first] - 1


def _hooks(owner: StepInXla) -> tuple[Callable[[Sequence[Any]], None], Callable[[], None]]:
    """Returns what runs before and after each run that XLA starts, by which state is kept."""
    weak = weakref.ref(owner)  # it owns the call, which owns the hooks

    def before(operands: Sequence[Any]) -> None:
        if (step := weak()) is not None:
            step.prepare_within(operands)

    def after() -> None:
        if (step := weak()) is not None:
            step.finish_within()

    return before, after


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
    ctx: Any,
    *operands: Any,
    avals: Any,
    number: int,
    aliases: tuple[tuple[int, int], ...],
    owner: Any,
) -> Any:
    # XLA's program knows the call by its number only.
    ctx.module_context.add_keepalive(owner)
    if getattr(ctx.module_context.axis_context, "num_devices", 1) > 1:
        raise SeveralDevicesError
    # Without the side effect XLA drops a step whose results have no elements.
    rule = jax.ffi.ffi_lowering(_TARGET, operand_output_aliases=dict(aliases), has_side_effect=True)
    return rule(ctx, *operands, id=np.int64(number))


def _refuse_transformation(*_: Any, **__: Any) -> Any:
    raise NotImplementedError(
        "a step that scalify calls within JAX has no derivative, and no jax.vmap: transform the "
        "function itself, or use scalify.transform, which jax.vmap takes"
    )


ad.primitive_jvps[_step_p] = _refuse_transformation
batching.primitive_batchers[_step_p] = _refuse_transformation
_step_p.def_abstract_eval(_abstract_eval)
_step_p.def_impl(_run_eagerly)
for _platform in ("cpu", "cuda"):
    jax_mlir.register_lowering(_step_p, _lower, platform=_platform)
