"""Calls from a step into the process that runs it: JAX's callbacks, and programs for XLA."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from scalify import _compiler
from scalify._dtypes import PACKED, to_numpy

__all__ = ["HostCalls", "commands_of"]

_Function = Callable[..., Sequence[Any]]


def commands_of(manifest: Mapping[str, Any]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Returns the `host_call` commands, each with its function's buffers.

    They are in the order in which the runtime numbers them, functions sorted by name.
    """
    found: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for _, function in sorted(manifest["functions"].items()):
        own = isinstance(function, dict)
        buffers = (function if own else manifest)["buffers"]
        for command in function["commands"] if own else function:
            if command["op"] == "host_call":
                found.append((command, buffers))
    return found


class _Call:
    """One command: its function, and the types of its buffers."""

    def __init__(
        self, command: Mapping[str, Any], buffers: Sequence[Mapping[str, Any]], function: _Function
    ) -> None:
        self._function = function

        rows = [buffers[index] for key in ("reads", "writes") for index in command[key]]
        # A buffer may have the shape of a reshape of the value.
        shapes = command.get("shapes", [row["shape"] for row in rows])
        types = [
            (tuple(shape), np.dtype(to_numpy(row["dtype"])))
            for row, shape in zip(rows, shapes, strict=True)
        ]
        count = len(command["reads"])
        self._reads, self._writes = types[:count], types[count:]

    def __call__(self, addresses: int) -> None:
        pointers = (ctypes.c_void_p * (len(self._reads) + len(self._writes))).from_address(
            addresses
        )
        reads = [
            # The memory is reused after the call.
            _view(pointer, *type_).copy()
            for pointer, type_ in zip(pointers, self._reads, strict=False)
        ]
        results = self._function(*reads)
        places = zip(pointers[len(self._reads) :], self._writes, results, strict=True)
        for pointer, type_, result in places:
            view = _view(pointer, *type_)
            given = np.asarray(result)
            if given.dtype in PACKED and view.dtype.name == f"{given.dtype.name[:-1]}8":
                given = given.astype(view.dtype)  # whole bytes in an executable
            if given.shape != view.shape or given.dtype != view.dtype:
                raise ValueError(
                    f"a callback returned {given.dtype}{list(given.shape)} where it declared "
                    f"{view.dtype}{list(view.shape)}"
                )
            view[...] = given


def _view(address: int | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    count = int(np.prod(shape))
    if address is None or count == 0:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memoryview(memory), dtype).reshape(shape)


class HostCalls:
    """The functions that a step's commands call; the runtime calls them by index.

    Attributes:
        error: the exception that a call of the last step raised.
    """

    def __init__(self, manifest: Mapping[str, Any], callbacks: Sequence[_Function]) -> None:
        """Finds the functions.

        Args:
            manifest: of the artefact.
            callbacks: the Python functions, by the index that JAX gave them at tracing.
        """
        self.error: BaseException | None = None
        self._calls = []
        for command, buffers in commands_of(manifest):
            if "program" in command:
                function: _Function = _Program(command["name"], command["program"], callbacks)
            elif command["callback"] < len(callbacks):
                function = callbacks[command["callback"]]
            else:
                function = functools.partial(_refuse, command)
            self._calls.append(_Call(command, buffers, function))

    def __bool__(self) -> bool:
        return bool(self._calls)

    def __call__(self, index: int, addresses: int) -> bool:
        """Runs one call; False if it raised, with the exception in `error`."""
        try:
            self._calls[index](addresses)
        except BaseException as error:
            self.error = error
            return False
        return True

    def reraise(self) -> None:
        """Reraises the exception of a call, with its traceback, if there is one."""
        error, self.error = self.error, None
        if error is not None:
            raise error


def _refuse(command: Mapping[str, Any], *_: Any) -> Sequence[Any]:
    raise RuntimeError(
        f"'{command['name']}' at {command['loc']} calls a Python function of the process that "
        "compiled the step, which an artefact does not hold: compile it here by scalify.jit"
    )


class _Program:
    """A part of a step that XLA runs."""

    def __init__(self, name: str, text: str, callbacks: Sequence[_Function]) -> None:
        self._name, self._text, self._callbacks = name, text, callbacks

    @functools.cached_property
    def _run(self) -> Callable[..., Any]:
        # Imported here: `_call` registers a primitive, which only artefacts with programs need.
        from scalify._call import Module, call, out_avals

        # The program may have a recipe's casts, which XLA needs as plain StableHLO.
        text = _compiler.opt(self._text, "scalify-expand-blocks,scalify-to-stablehlo")
        module = Module(
            self._name, out_avals(text), lambda _: text, None, callbacks=self._callbacks
        )
        return jax.jit(functools.partial(call, module))

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        cpu = jax.devices("cpu")[0]
        with jax.default_device(cpu):
            results = self._run(*(jax.device_put(array, cpu) for array in arrays))
        return [np.asarray(result) for result in results]
