"""Memory and clocks of the first GPU, by its driver."""

from __future__ import annotations

import ctypes
import subprocess

__all__ = ["clocks", "free", "taken"]

_CLOCKS = (
    "clocks.sm",
    "clocks.mem",
    "power.draw",
    "temperature.gpu",
    "clocks_event_reasons.active",
)


def free() -> int | None:
    """Returns the free bytes of the GPU's memory, or None without a driver.

    The process has a context afterwards, so that later figures show data and programs only.
    """
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, context = ctypes.c_int(), ctypes.c_void_p()
    left, whole = ctypes.c_size_t(), ctypes.c_size_t()
    if (
        cuda.cuInit(0)
        or cuda.cuDeviceGet(ctypes.byref(device), 0)
        or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        or cuda.cuCtxPushCurrent_v2(context)
    ):
        return None
    status = cuda.cuMemGetInfo_v2(ctypes.byref(left), ctypes.byref(whole))
    cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
    return None if status else int(left.value)


def taken(before: int | None) -> int | None:
    """Returns how many bytes fewer are free than before, whoever took them."""
    now = free()
    return None if before is None or now is None else before - now


def clocks() -> dict[str, str] | None:
    """Returns clocks, power and the reasons for lower clocks, or None without nvidia-smi.

    Call it right after a measurement, while the GPU is still in that state.
    """
    command = ["nvidia-smi", f"--query-gpu={','.join(_CLOCKS)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    line = next(iter(done.stdout.splitlines()), "")
    return dict(zip(_CLOCKS, line.split(", "), strict=False)) or None
