"""Loads and runs compiled artefacts; the extension module is in the build tree."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

class Array:
    """A dense tensor that owns 64-byte aligned memory and can be donated to a step.

    The memory is the host's, or that of the GPU of the step that returned it. DLPack then reports
    a CUDA device, other libraries read it there without a copy, and NumPy gets a copy.

    A step that takes it as a donated argument writes its result there and returns a new Array;
    the old one is then empty, and its use raises ValueError. If a NumPy or DLPack view of the
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
        """Whether DLPack has exported the memory to another library, which may write to it."""

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
    """Connects this rank to the others.

    Args:
        transport: "local" (ranks of one machine), "tcp", "mpi", "record"; None for the launcher's.
        timeout: how many seconds a rank may be late; 0 for SCALIFY_COMM_TIMEOUT, by default 300.
        rank: with `size`, this rank, in place of the launcher's.
        size: the number of ranks; 0 for the launcher's.
        job: for "local", a name shared by all ranks and by no other job.

    Raises:
        RuntimeError: the ranks do not find each other, or one failed; names the rank and the time.
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
        """Returns every rank's bytes, all of the same length, in the order of ranks."""

    def barrier(self) -> None:
        """Returns when all ranks have called it."""

    def abort(self, reason: str) -> None:
        """Aborts communication: the other ranks' calls fail with `reason`."""

    @property
    def transport(self) -> str: ...

class Executable:
    """A compiled step, loaded from an artefact's bytes or path.

    The device is "cpu", "cuda" for artefacts of target sm_90a, or "null", which accepts both,
    computes nothing and records commands.

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
    def run(
        self, inputs: Sequence[Any], function: str = "step", in_place: bool = False
    ) -> tuple[Any, ...]:
        """Runs one function on array-likes in the order of `args`.

        Results that alias donated arguments are Arrays, others NumPy arrays; on a GPU all are
        Arrays in its memory. Arrays of other libraries (NumPy, JAX, DLPack) are read in place if
        they are contiguous and on the step's device; donated ones are copied once. With `in_place`,
        on the CPU, donated NumPy arrays are overwritten instead, and must be dense and writable.

        Raises:
            ValueError: wrong count, shape or dtype, or an Array that a step has consumed.
            KeyboardInterrupt: between commands; donated Arrays are then lost.
        """

    def try_step(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Runs as much of the step as counts the casts' values and moves their scales.

        All arguments stay the caller's. Donated ones that this writes are copied first: in a step
        of training not the parameters and moments, which only an optimizer overwrites. On a GPU the
        whole step runs, on copies of all donated arguments.

        Returns:
            For each result the Array in the copy of its argument, else None. Its values are those
            of a step for "scalify.carried_scales", and unspecified for others.
        """

    def xla_call(self, operands: Sequence[int], results: Sequence[int], id: int = 0) -> XlaCall:
        """Returns the step for a custom call of an XLA program.

        Args:
            operands: the index of the step's argument for each operand; the step's last arguments
                may be left out.
            results: the same for results.
            id: the call's number, which no other one may have; 0 for the next one.
        """

    def health(self) -> list[dict[str, Any]]:
        """Returns cast, op, loc, format, elements and counts of each cast in the last run."""

    def counters(self) -> NDArray[np.uint64]:
        """Returns the same counts as a table [casts, 6].

        Its columns are saturated, flushed, zeros, nans, top and scales.
        """

    def set_counters(self, words: NDArray[np.uint64]) -> None:
        """Replaces the counters by such a table until the next run.

        Raises:
            ValueError: the table has another shape or type.
        """

    def initial(self, index: int) -> NDArray[np.float32]:
        """Returns the initial value of an argument of the step.

        Raises:
            ValueError: the argument has none.
        """

    def put(self, object: ArrayLike, dtype: DTypeLike | None = None) -> Array:
        """Copies any array-like into memory that steps read in place: on a GPU, the GPU's."""

    def profile(self) -> list[dict[str, Any]]:
        """Returns function, op, name, loc, calls, nanoseconds, bytes, flops per command."""

    def set_host_call(self, function: Callable[[int, int], bool] | None) -> None:
        """Sets the function for host_call commands, called with an index and an address.

        The address is that of the array of the buffers' addresses. The step fails unless the
        function returns True.
        """

    def set_profiling(self, on: bool) -> None: ...
    @property
    def trace(self) -> str:
        """The commands that the null device recorded, one per line; "" for other devices."""

    @property
    def manifest(self) -> str: ...
    @property
    def functions(self) -> list[str]:
        """Names of the artefact's functions: "step" and possibly others."""

    @property
    def args(self) -> list[dict[str, Any]]: ...
    @property
    def results(self) -> list[dict[str, Any]]: ...
    @property
    def threads(self) -> int: ...
    @threads.setter
    def threads(self, count: int) -> None: ...

class XlaCall:
    """A step run by XLA's custom call with the attribute `id`, once per `prepare`."""

    @property
    def id(self) -> int: ...
    @property
    def copied(self) -> int:
        """Bytes copied because XLA did not place a result in its donated argument's memory."""

    def prepare(self, arguments: Sequence[Any]) -> None:
        """Sets the step's last arguments, which are not operands of the call."""

    def set_hooks(
        self, before: Callable[[list[Any]], None], after: Callable[[], None], takes_operands: bool
    ) -> None:
        """Sets what prepares and finishes each run, so that XLA may run the step at any time.

        Args:
            before: called with the operands, numpy arrays over XLA's memory, that it must not keep.
            after: called after the run.
            takes_operands: whether `before` reads the operands; else its list is empty.
        """

    def finish(self) -> list[Any] | None:
        """Returns the step's last results, which the call does not return; None if it did not run.

        Raises:
            RuntimeError: the step failed.
            KeyboardInterrupt: between two commands.
        """

def xla_handler(major: int, minor: int, is_for_gpu: bool = False) -> Any:
    """Returns the custom call's handler, a capsule for `jax.ffi.register_ffi_target`.

    Args:
        major: the major version of jaxlib's FFI.
        minor: the minor version.
        is_for_gpu: for XLA's platform "CUDA" and steps of a GPU; else for "cpu" and its steps.
    """

def launched() -> tuple[int, int]:
    """Returns this process's rank and the number of ranks; (0, 1) if it runs alone."""

def version() -> str: ...
def processor() -> str:
    """Returns the x86-64 level of this processor, as "x86-64-v3"; "" for another kind."""

def product_unit() -> str:
    """Returns the unit that multiplies BF16 here: "f32", "avx512_bf16" or "amx"."""

def array(object: ArrayLike, dtype: DTypeLike | None = None) -> Array: ...
def f32_to_f8e4m3fn(array: ArrayLike) -> NDArray[Any]: ...
def f32_to_f8e5m2(array: ArrayLike) -> NDArray[Any]: ...
def f32_to_bf16(array: ArrayLike) -> NDArray[Any]: ...
def f32_to_f16(array: ArrayLike) -> NDArray[Any]: ...
def to_f32(array: ArrayLike) -> NDArray[Any]: ...
