"""Loads and runs compiled artefacts; the extension module lies in the build tree."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

class Array:
    """A dense tensor that owns 64-byte aligned memory and can be donated to a step.

    The memory is the host's, or that of the GPU on which a step made it: DLPack then says CUDA,
    other libraries read it there without a copy, and NumPy gets a copy.

    A step that takes it as a donated argument writes its result there and returns a new Array;
    the old one is empty then, and its use raises ValueError. If a NumPy or DLPack view of the
    memory is alive at that time, the step works on a copy and the view keeps its values.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def is_deleted(self) -> bool: ...
    def is_lent(self) -> bool:
        """Whether DLPack has given the memory to another library, which may write there."""

    def item(self) -> Any: ...
    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> NDArray[Any]: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
    def __len__(self) -> int: ...

class Communicator:
    """What connects this rank to the others.

    Args:
        transport: "local" (ranks of one machine), "tcp", "mpi", "record"; None: the launch says.
        timeout: how many seconds a rank may be late; 0 for SCALIFY_COMM_TIMEOUT, else 300.
        rank: with `size`, which one this is, in place of what the launch says.
        size: how many there are; 0 for what the launch says.
        job: of "local", a name that all ranks give, and no other job.

    Raises:
        RuntimeError: they do not find each other, or one failed: which, and when.
    """

    def __init__(
        self,
        transport: str | None = None,
        timeout: float = 0,
        rank: int = 0,
        size: int = 0,
        job: str | None = None,
    ) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank has sent to others, without headers."""

    def all_gather(self, part: bytes) -> list[bytes]:
        """Returns every rank's bytes, of one length, in the order of ranks."""

    def barrier(self) -> None:
        """Returns when all ranks have called it."""

    def abort(self, reason: str) -> None:
        """Gives up: the other ranks' calls fail with that text."""

    @property
    def transport(self) -> str: ...

class Executable:
    """A compiled step, loaded from an artefact's bytes or path.

    The device is "cpu", "cuda" for artefacts of target sm_90a, or "null", which takes both,
    computes nothing and records.

    Raises:
        OSError: the file cannot be read.
        RuntimeError: the artefact is damaged, or this machine cannot run it.
    """

    def __init__(
        self,
        source: bytes | str | os.PathLike[str],
        threads: int = 0,
        device: str = "cpu",
        comm: Communicator | None = None,
    ) -> None: ...
    def run(self, inputs: Sequence[Any], function: str = "step") -> tuple[Any, ...]:
        """Runs one function on array-likes in the order of `args`.

        Donated results come back as Array, others as NumPy arrays; on a GPU all are Arrays in
        its memory. Arrays of others (NumPy, JAX, DLPack) are read in place where they are dense
        and lie where the step runs; donated ones are copied once.

        Raises:
            ValueError: wrong count, shape or dtype, or an Array that a step has consumed.
            KeyboardInterrupt: between commands; donated Arrays are lost then.
        """

    def xla_call(self, operands: Sequence[int], results: Sequence[int]) -> XlaCall:
        """Returns the step for a custom call of an XLA program.

        Args:
            operands: which argument of the step each operand is; those that are left out are the
                last ones.
            results: the same of results.
        """

    def health(self) -> list[dict[str, Any]]:
        """Returns cast, op, loc, format, elements and counts per cast, of the last run."""

    def counters(self) -> NDArray[np.uint64]:
        """Returns the same counts as a table [casts, 6].

        Its columns are saturated, flushed, zeros, nans, top and scales.
        """

    def set_counters(self, words: NDArray[np.uint64]) -> None:
        """Puts such a table in its place until the next run.

        Raises:
            ValueError: it has another shape or type.
        """

    def initial(self, index: int) -> NDArray[np.float32]:
        """Returns what an argument of the step starts from.

        Raises:
            ValueError: it has no such value.
        """

    def put(self, object: ArrayLike, dtype: DTypeLike | None = None) -> Array:
        """Copies any array-like into memory that steps need not move: on a GPU its own."""

    def profile(self) -> list[dict[str, Any]]:
        """Returns function, op, name, loc, calls, nanoseconds, bytes, flops per command."""

    def set_host_call(self, function: Callable[[int, int], bool] | None) -> None:
        """Sets what commands of the kind host_call call, with index and address of addresses.

        Where it does not return True, the step fails.
        """

    def set_profiling(self, on: bool) -> None: ...
    @property
    def trace(self) -> str:
        """What the null device was asked to do, a line each; "" of other devices."""

    @property
    def manifest(self) -> str: ...
    @property
    def functions(self) -> list[str]:
        """Names of the artefact's functions: "step" and maybe others."""

    @property
    def args(self) -> list[dict[str, Any]]: ...
    @property
    def results(self) -> list[dict[str, Any]]: ...
    @property
    def threads(self) -> int: ...
    @threads.setter
    def threads(self, count: int) -> None: ...

class XlaCall:
    """A step as XLA's custom call with the attribute `id` runs it, once for each `prepare`."""

    @property
    def id(self) -> int: ...
    @property
    def copied(self) -> int:
        """Bytes copied since XLA gave a result other memory than its donated argument's."""

    def prepare(self, arguments: Sequence[Any]) -> None:
        """Sets the step's last arguments, which the call lacks."""

    def finish(self) -> list[Any] | None:
        """Returns the step's last results, which the call lacks; None if it has not run.

        Raises:
            RuntimeError: the step failed.
            KeyboardInterrupt: between two commands.
        """

def xla_handler(major: int, minor: int) -> Any:
    """Returns the custom call's handler, a capsule for `jax.ffi.register_ffi_target`.

    Args:
        major: of the version of the FFI that jaxlib has.
        minor: the same.
    """

def launched() -> tuple[int, int]:
    """Returns this process's rank and how many ranks were launched; (0, 1) if it runs alone."""

def version() -> str: ...
def array(object: ArrayLike, dtype: DTypeLike | None = None) -> Array: ...
def f32_to_f8e4m3fn(array: ArrayLike) -> NDArray[Any]: ...
def f32_to_f8e5m2(array: ArrayLike) -> NDArray[Any]: ...
def f32_to_bf16(array: ArrayLike) -> NDArray[Any]: ...
def f32_to_f16(array: ArrayLike) -> NDArray[Any]: ...
def to_f32(array: ArrayLike) -> NDArray[Any]: ...
