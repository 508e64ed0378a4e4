"""The runtime's C interface by ctypes: no compiler, and no extension module of one Python version.

On a machine with a GPU it needs NumPy, ml_dtypes, and the library that run.sh builds there.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import pathlib
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

__all__ = ["DTYPES", "Executable", "Library", "Tensor", "from_bits"]

DEVICES = {"cpu": 0, "null": 1, "cuda": 2}
DTYPES: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "i32": np.int32,
    "ui32": np.uint32,
    "i8": np.int8,
    "ui8": np.uint8,
    "i1": np.bool_,
}

Pointer = ctypes.c_void_p


class _Options(ctypes.Structure):
    _fields_ = (
        ("threads", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("comm", Pointer),
    )


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("bytes", ctypes.c_uint64),
        ("alias", ctypes.c_int32),
        ("role", ctypes.c_char_p),
    )


class _Counter(ctypes.Structure):
    _fields_ = (
        tuple((name, ctypes.c_char_p) for name in ("cast", "op", "loc", "format"))
        + tuple(
            (name, ctypes.c_uint64)
            for name in ("elements", "saturated", "flushed", "zeros", "nans", "top")
        )
        + tuple((name, ctypes.c_float) for name in ("scale", "moved"))
    )


class _Entry(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_char_p) for name in ("function", "op", "name", "loc")),
        *((name, ctypes.c_uint64) for name in ("calls", "nanoseconds", "bytes", "flops")),
        ("type", ctypes.c_char_p),
        ("least", ctypes.c_double),
    )


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An argument or result; `alias` is -1 or the index of the other side with the same memory."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    alias: int


def from_bits(raw: NDArray[Any], tensor: Tensor) -> NDArray[Any]:
    """Returns bytes as an array of a tensor's dtype and shape.

    Raises:
        ValueError: the number of bytes is wrong.
    """
    data = np.ascontiguousarray(raw).reshape(-1).view(np.uint8)
    if data.nbytes != tensor.bytes:
        raise ValueError(f"'{tensor.name}' takes {tensor.bytes} bytes, not {data.nbytes}")
    return data.view(DTYPES[tensor.dtype]).reshape(tensor.shape)


def _plain(record: ctypes.Structure) -> dict[str, Any]:
    """Returns a structure of strings and numbers as a dictionary."""
    values = {field[0]: getattr(record, field[0]) for field in record._fields_}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}


class Library:
    """libscalify_runtime.so."""

    def __init__(self, path: str | pathlib.Path) -> None:
        self._lib = ctypes.CDLL(str(path))
        for name in ("version", "last_error", "manifest", "trace", "device_name"):
            getattr(self._lib, f"scalify_rt_{name}").restype = ctypes.c_char_p
        # By default ctypes passes 32 bits, and pointers have 64.
        for name in ("manifest", "trace", "device_name", "free", "num_args", "num_results"):
            getattr(self._lib, f"scalify_rt_{name}").argtypes = [Pointer]
        for name in ("num_counters", "num_profile_entries"):
            getattr(self._lib, f"scalify_rt_{name}").argtypes = [Pointer]

    @property
    def version(self) -> str:
        """The runtime's version."""
        return str(self._lib.scalify_rt_version().decode())

    def get(self, name: str, *args: Any) -> Any:
        """Calls a function that cannot fail."""
        return getattr(self._lib, f"scalify_rt_{name}")(*args)

    def call(self, name: str, *args: Any) -> None:
        """Calls a function that returns a status.

        Raises:
            RuntimeError: it failed; the text is the runtime's.
        """
        if status := self.get(name, *args):
            raise RuntimeError(f"{name} ({status}): {self.get('last_error').decode()}")


class Executable:
    """An artefact on a device, with memory of the device for all arguments and results.

    State stays in that memory from step to step: a result that aliases an argument is read from the
    argument's memory.
    """

    def __init__(self, library: Library, artefact: bytes, device: str) -> None:
        self._library = library
        self._handle = Pointer()
        options = _Options(0, DEVICES[device], 0, None)
        self._library.call(
            "load_memory",
            artefact,
            ctypes.c_uint64(len(artefact)),
            ctypes.byref(options),
            ctypes.byref(self._handle),
        )
        self.args = self._tensors("arg")
        self.results = self._tensors("result")
        self._arg_memory = [self._allocate(tensor.bytes) for tensor in self.args]
        self._result_memory = [
            self._allocate(tensor.bytes) if tensor.alias < 0 else Pointer()
            for tensor in self.results
        ]
        places = {tensor.name: index for index, tensor in enumerate(self.args)}
        taken = self.manifest["functions"].get("measure", {"args": []})["args"]
        # Arguments whose amaxes the step takes, and whether the amaxes are those of the current
        # values.
        self._measured = [places[argument["name"]] for argument in taken]
        self._amaxes = places.get("scalify.argument_amax")
        self._has_amaxes = False
        for index, tensor in enumerate(self.args):
            if tensor.name.startswith("scalify."):
                self.write(index, self._initial(index))

    def __enter__(self) -> Executable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the executable and its memory."""
        if self._handle:
            self._library.get("free", self._handle)
            self._handle = Pointer()

    def _tensors(self, kind: str) -> list[Tensor]:
        found = []
        for index in range(self._library.get(f"num_{kind}s", self._handle)):
            record = _Tensor()
            self._library.call(kind, self._handle, ctypes.c_int32(index), ctypes.byref(record))
            shape = tuple(record.shape[axis] for axis in range(record.rank))
            name, dtype = record.name.decode(), record.dtype.decode()
            found.append(Tensor(name, dtype, shape, record.bytes, record.alias))
        return found

    def _allocate(self, size: int) -> Pointer:
        memory = Pointer()
        self._library.call(
            "memory_alloc", self._handle, ctypes.c_uint64(max(size, 1)), ctypes.byref(memory)
        )
        return memory

    def _initial(self, index: int) -> NDArray[Any]:
        data = np.empty(self.args[index].bytes, np.uint8)
        self._library.call(
            "initial", self._handle, ctypes.c_int32(index), data.ctypes.data_as(Pointer)
        )
        return data

    def write(self, index: int, array: NDArray[Any]) -> None:
        """Copies an array's bytes to an argument.

        Raises:
            ValueError: the number of bytes is wrong.
        """
        data = from_bits(array, self.args[index])
        self._has_amaxes &= index not in self._measured
        self._library.call(
            "memory_copy_in",
            self._handle,
            self._arg_memory[index],
            data.ctypes.data_as(Pointer),
            ctypes.c_uint64(data.nbytes),
        )

    def read(self, index: int) -> NDArray[Any]:
        """Returns a copy of a result."""
        tensor = self.results[index]
        memory = self._result_memory[index] if tensor.alias < 0 else self._arg_memory[tensor.alias]
        data = np.empty(tensor.bytes, np.uint8)
        self._library.call(
            "memory_copy_out",
            self._handle,
            data.ctypes.data_as(Pointer),
            memory,
            ctypes.c_uint64(data.nbytes),
        )
        return from_bits(data, tensor)

    def run(self) -> None:
        """Runs one step; returns when it is done."""
        if self._measured and not self._has_amaxes:
            assert self._amaxes is not None
            given = [self._arg_memory[index] for index in self._measured]
            self._run(b"measure", given, [self._arg_memory[self._amaxes]])
        self._run(b"step", self._arg_memory, self._result_memory)
        # A step also returns the amaxes of its results.
        self._has_amaxes = True

    def _run(self, function: bytes, given: list[Pointer], made: list[Pointer]) -> None:
        args = (Pointer * len(given))(*(memory.value for memory in given))
        results = (Pointer * len(made))(*(memory.value for memory in made))
        self._library.call("run", self._handle, function, args, len(args), results, len(results))

    @property
    def device_name(self) -> str:
        """The driver's name of the GPU; empty on a CPU."""
        return str(self._library.get("device_name", self._handle).decode())

    @property
    def manifest(self) -> dict[str, Any]:
        """The artefact's table of contents."""
        found: dict[str, Any] = json.loads(self._library.get("manifest", self._handle))
        return found

    @property
    def trace(self) -> list[str]:
        """The null device's record, one line per call."""
        return str(self._library.get("trace", self._handle).decode()).splitlines()

    @property
    def health(self) -> list[dict[str, Any]]:
        """The counts of each cast in the last step."""
        return self._records("num_counters", "counter_info", _Counter)

    @property
    def profile(self) -> list[dict[str, Any]]:
        """The time of each command since profiling was enabled."""
        return self._records("num_profile_entries", "profile", _Entry)

    def _records(self, count: str, call: str, kind: type[ctypes.Structure]) -> list[dict[str, Any]]:
        found = []
        for index in range(self._library.get(count, self._handle)):
            record = kind()
            self._library.call(call, self._handle, ctypes.c_int32(index), ctypes.byref(record))
            found.append(_plain(record))
        return found

    def set_profiling(self, on: bool) -> None:
        """Enables timing of each command, from zero, or disables it."""
        self._library.call("set_profiling", self._handle, ctypes.c_int32(on))

    def index(self, name: str) -> int:
        """Returns the index of the first argument whose name ends with `name`.

        Raises:
            KeyError: there is none.
        """
        for index, tensor in enumerate(self.args):
            if tensor.name.endswith(name):
                return index
        raise KeyError(f"no argument is called '{name}'")

    @property
    def argument_bytes(self) -> int:
        """Bytes of all arguments and of results with memory of their own."""
        own = [t.bytes for t in self.results if t.alias < 0]
        return sum(t.bytes for t in self.args) + sum(own)
