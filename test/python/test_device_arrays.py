"""Arrays in a GPU's memory, on a null device, whose host memory is exported as CUDA's.

A producer by ctypes stands for JAX or PyTorch on a GPU: it hands out memory of the null device as
DLPack's structure, and counts how often that is let go.
"""

from __future__ import annotations

import ctypes
import gc
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hand_artefact import PTX, build_kernels, for_gpu, pack, train_step

import scalify
from scalify import _runtime

N = 64
CUDA, CPU, ROCM = 2, 1, 10
F32, BF16, COMPLEX = (2, 32), (4, 16), (5, 64)


class _Tensor(ctypes.Structure):
    """DLManagedTensor of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("kind", ctypes.c_int32),
        ("ordinal", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_NAME = b"dltensor"


class Foreign:
    """An array of another library, in given memory."""

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        kind: tuple[int, int] = F32,
        device: tuple[int, int] = (CUDA, 0),
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.address, self.shape, self.kind, self.device = address, shape, kind, device
        self.strides = strides
        self.dtype = np.dtype(np.float32)
        self.given: list[dict[str, Any]] = []  # what __dlpack__ was asked
        self.let_go = 0
        self._alive: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **kwargs: Any) -> Any:
        self.given.append(kwargs)
        rank = len(self.shape)
        shape = (ctypes.c_int64 * rank)(*self.shape)
        strides = None if self.strides is None else (ctypes.c_int64 * rank)(*self.strides)

        def let_go(_: int) -> None:
            self.let_go += 1

        deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(let_go)
        tensor = _Tensor(
            self.address, *self.device, rank, *self.kind, 1, shape, strides, 0, None, deleter
        )
        self._alive += [tensor, shape, strides, deleter]
        return _new_capsule(ctypes.addressof(tensor), _NAME, None)


class OldForeign(Foreign):
    """An array from before DLPack 1.0, which has no versions."""

    def __dlpack__(self, stream: int | None = None) -> Any:  # type: ignore[override]
        return super().__dlpack__(stream=stream)


def address_of(array: _runtime.Array) -> int:
    """Returns the address of an Array, from its DLPack export."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = array.__dlpack__()
    return int(_Tensor.from_address(get(capsule, _NAME)).data)


@pytest.fixture
def gpu() -> _runtime.Executable:
    return _runtime.Executable(pack(for_gpu(train_step(N)), PTX.encode()), device="null")


@pytest.fixture(scope="module")
def code() -> bytes:
    return build_kernels()


def inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.arange(6, dtype=np.float32).reshape(2, 3).astype(ml_dtypes.bfloat16)
    return rng.normal(size=N).astype("f4"), rng.normal(size=N).astype("f4"), x


def new_lines(gpu: _runtime.Executable, run: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Returns a call's result, and the device calls that it made."""
    before = len(gpu.trace)
    result = run()
    return result, gpu.trace[before:].splitlines()


def copies(lines: list[str]) -> list[str]:
    """Returns the copies of data, without the counters that each step copies back."""
    return [line for line in lines if line.startswith("cuMemcpy") and " counters" not in line]


def test_arrays_of_the_gpu_are_read_in_place(gpu: _runtime.Executable) -> None:
    w, g, x = inputs()
    memory, words = gpu.put(g), gpu.put(x)
    batch, other = Foreign(address_of(memory), (N,)), Foreign(address_of(words), (2, 3), BF16)
    state = gpu.put(w)
    _, lines = new_lines(gpu, lambda: gpu.run((state, batch, other)))
    assert copies(lines) == []
    launch = next(line for line in lines if line.startswith("cuLaunchKernel update"))
    assert "args=[arg0+0,arg1+0,arg0+0,counters+0]" in launch
    assert batch.let_go == other.let_go == 1  # once, when the step is done
    # The stream of the step, so that the producer makes it wait for its own work.
    (given,) = batch.given
    assert given["stream"] > 2 and given["max_version"] == (1, 1)
    np.testing.assert_array_equal(np.asarray(memory), g)


def test_results_stay_on_the_gpu(gpu: _runtime.Executable) -> None:
    w, g, x = inputs()
    batch, words = gpu.put(g), gpu.put(x)
    (state, loss, y), lines = new_lines(gpu, lambda: gpu.run((w, batch, words)))
    # The donated array of the host comes once.
    assert [line.split()[0] for line in copies(lines)] == ["cuMemcpyHtoDAsync"]
    assert all(isinstance(result, _runtime.Array) for result in (state, loss, y))
    assert state.__dlpack_device__() == loss.__dlpack_device__() == (CUDA, 0)
    place = address_of(state)
    (state, loss, y), lines = new_lines(gpu, lambda: gpu.run((state, batch, words)))
    assert copies(lines) == [] and address_of(state) == place
    # What is read is copied then, and alone.
    values, lines = new_lines(gpu, lambda: np.asarray(state))
    np.testing.assert_array_equal(values, w)
    assert [line.split()[0] for line in copies(lines)] == ["cuMemcpyDtoHAsync"]
    assert values.flags.writeable and float(loss) == 0.0 and y.dtype == ml_dtypes.bfloat16
    with pytest.raises(ValueError, match="NumPy gets a copy"):
        np.asarray(state, copy=False)


def test_addresses_come_back_so_that_graphs_replay(gpu: _runtime.Executable) -> None:
    w, g, x = inputs()
    batch, words, state = gpu.put(g), gpu.put(x), gpu.put(w)
    loss = y = None
    for _ in range(4):  # a loop holds the results of its last step
        state, loss, y = gpu.run((state, batch, words))
    _, lines = new_lines(gpu, lambda: gpu.run((state, batch, words)))
    assert [line for line in lines if "Mem" in line] == [
        next(line for line in lines if line.startswith("cuMemcpyDtoHAsync counters"))
    ]
    assert any(line.startswith("cuGraphLaunch") for line in lines)
    assert not any("Capture" in line for line in lines)
    assert loss is not None and y is not None


def test_donated_arrays_are_taken_over_or_copied_once(gpu: _runtime.Executable) -> None:
    w, g, x = inputs()
    batch, words = gpu.put(g), gpu.put(x)
    memory = gpu.put(w)
    # Another library's: its values stay.
    foreign = Foreign(address_of(memory), (N,))
    (state, *_), lines = new_lines(gpu, lambda: gpu.run((foreign, batch, words)))
    assert len(copies(lines)) == 1 and copies(lines)[0].startswith("cuMemcpyAsync ")
    assert foreign.let_go == 1 and address_of(state) != foreign.address
    np.testing.assert_array_equal(np.asarray(state), w)
    # Ours: the memory goes over, and the old Array is empty.
    (new, *_), lines = new_lines(gpu, lambda: gpu.run((state, batch, words)))
    assert copies(lines) == [] and state.is_deleted()
    for use in (np.asarray, address_of, lambda array: gpu.run((array, batch, words))):
        with pytest.raises(ValueError, match="donated"):
            use(state)
    # Ours, which another library still holds: a copy for the step.
    held, place = new.__dlpack__(), address_of(new)
    (after, *_), lines = new_lines(gpu, lambda: gpu.run((new, batch, words)))
    assert len(copies(lines)) == 1 and new.is_deleted() and address_of(after) != place
    del held


def test_what_others_had_is_written_when_the_gpu_is_done(gpu: _runtime.Executable) -> None:
    w, g, x = inputs()
    batch, words = gpu.put(g), gpu.put(x)
    state, *_ = gpu.run((w, batch, words))
    _, lines = new_lines(gpu, lambda: gpu.run((gpu.put(w), batch, words)))
    assert "cuCtxSynchronize" not in lines
    place = address_of(state)  # exports it, and lets go
    (state, *_), lines = new_lines(gpu, lambda: gpu.run((state, batch, words)))
    assert lines[0] == "cuCtxSynchronize" and copies(lines) == [] and address_of(state) == place
    (state, *_), lines = new_lines(gpu, lambda: gpu.run((state, batch, words)))
    assert lines[0] == "cuCtxSynchronize"  # address_of above
    _, lines = new_lines(gpu, lambda: gpu.run((state, batch, words)))
    assert "cuCtxSynchronize" not in lines


def test_memory_is_given_back(gpu: _runtime.Executable) -> None:
    w, g, x = inputs()
    array = gpu.put(g)
    del array
    assert gpu.trace.splitlines()[-1].startswith("cuMemFree")
    state, *_ = gpu.run((w, gpu.put(g), x))
    capsule = state.__dlpack__()
    del state
    gc.collect()
    freed = gpu.trace.count("cuMemFree")
    del capsule  # the last owner
    assert gpu.trace.count("cuMemFree") == freed + 1
    # Memory outlives the executable that gave it.
    last = gpu.put(w)
    del gpu
    gc.collect()
    np.testing.assert_array_equal(np.asarray(last), w)


def test_other_executables_take_the_arrays(gpu: _runtime.Executable, code: bytes) -> None:
    w, g, x = inputs()
    state, *_ = gpu.run((w, g, x))
    other = _runtime.Executable(pack(for_gpu(train_step(N)), PTX.encode()), device="null")
    state, *_ = other.run((state, g, x))
    np.testing.assert_array_equal(np.asarray(state), w)
    cpu = _runtime.Executable(pack(train_step(N), code))
    new, *_ = cpu.run((state, g, x))
    assert state.is_deleted() and new.__dlpack_device__() == (CPU, 0)
    np.testing.assert_array_equal(np.asarray(new), w - np.float32(0.5) * g)
    with pytest.raises(ValueError, match=r"argument 'x': it lies on DLPack's device 2:0"):
        cpu.run((w, g, Foreign(0, (2, 3), BF16)))


def test_arrays_that_do_not_fit_are_named(gpu: _runtime.Executable) -> None:
    w, g, x = inputs()
    at = address_of(gpu.put(g))
    cases = [
        (Foreign(at, (N,), device=(CUDA, 1)), "it lies on GPU 1, and the step runs on GPU 0"),
        (Foreign(at, (N,), device=(ROCM, 0)), "it lies on DLPack's device 10:0"),
        (Foreign(at, (N // 2,), strides=(2,)), "it is not dense and row major"),
        (Foreign(at, (N,), device=(CPU, 0), strides=(-1,)), "it is not dense and row major"),
    ]
    for array, reason in cases:
        with pytest.raises(ValueError, match=rf"argument 'batch\['g'\]': .*{reason}"):
            gpu.run((w, array, x))
    for array, what in [
        (Foreign(at, (N - 1,)), r"f32\[63\]"),
        (Foreign(at, (N,), BF16), r"bf16\[64\]"),
        (Foreign(at, (N,), COMPLEX), r"complex<f32>\[64\]"),
    ]:
        with pytest.raises(ValueError, match=rf"'batch\['g'\]' takes f32\[64\], not {what}"):
            gpu.run((w, array, x))
        assert array.let_go == 1


def test_unaligned_arrays_are_copied_and_said(gpu: _runtime.Executable) -> None:
    w, g, x = inputs()
    memory = gpu.put(np.concatenate([g[:1], g]))
    batch = Foreign(address_of(memory) + 4, (N,))
    with pytest.warns(RuntimeWarning, match=r"'batch\['g'\]' is copied .* multiple of 64"):
        _, lines = new_lines(gpu, lambda: gpu.run((gpu.put(w), batch, gpu.put(x))))
    within = [line for line in copies(lines) if line.startswith("cuMemcpyAsync ")]
    assert len(within) == 1 and within[0].endswith(f"+4 bytes={4 * N}")
    assert batch.let_go == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            gpu.run((w, batch, x))


def test_old_producers_and_host_copies(gpu: _runtime.Executable) -> None:
    w, g, x = inputs()
    memory = gpu.put(g)
    batch = OldForeign(address_of(memory), (N,))
    gpu.run((w, batch, x))
    assert [set(given) for given in batch.given] == [{"stream"}] and batch.let_go == 1
    # NumPy asks for the host's memory, and gets a copy there.
    np.testing.assert_array_equal(np.from_dlpack(memory, device="cpu"), g)
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(memory)


def test_host_arrays_are_staged_still(gpu: _runtime.Executable) -> None:
    w, g, x = inputs()
    for first in (w, jnp.asarray(w), _runtime.array(w), w.tolist()):
        (state, *_), lines = new_lines(gpu, lambda first=first: gpu.run((first, g, x)))
        assert len(copies(lines)) == 3
        np.testing.assert_array_equal(np.asarray(state), w)


def test_jit_keeps_state_on_the_gpu() -> None:
    def update(state: Any, x: Any) -> Any:
        return jax.tree.map(lambda w: w - 0.5 * x, state), jnp.sum(x)

    step = scalify.jit(update, "none", "sm_90a", gpu=scalify.GPU(device="null"), donate_argnums=0)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, N)).astype("f4")
    first = {"w": rng.normal(size=(4, N)).astype("f4")}
    state, total = step(first, x)
    executable = step.executable()
    assert isinstance(total, scalify.Array) and state["w"].__dlpack_device__() == (CUDA, 0)
    batch = executable.put(x)
    step(state, batch)
    state = {"w": executable.put(first["w"])}
    foreign = Foreign(address_of(batch), (4, N))
    before = len(executable.trace)
    state, total = step(state, foreign)
    assert copies(executable.trace[before:].splitlines()) == []
    # JAX arrays of the CPU make results of the CPU.
    _, total = step(state, jnp.asarray(x))
    assert isinstance(total, jax.Array)
