"""Temporary views of JAX arrays that do not prevent donation in place.

JAX caches the view that `numpy.asarray` makes of an array, and an array with such a view is copied
when it is donated.
"""

from __future__ import annotations

import ctypes
from typing import Any

import jax
import numpy as np

__all__ = ["host_view", "is_jax_type"]


_KNOWN: dict[type, bool] = {}


def is_jax_type(kind: type) -> bool:
    """Whether a type is that of JAX arrays with memory of their own: no tracers, no ScaledArray."""
    if kind not in _KNOWN:
        from scalify._scaled_array import ScaledArray  # here, since it imports this module

        others = (jax.core.Tracer, ScaledArray)
        _KNOWN[kind] = issubclass(kind, jax.Array) and not issubclass(kind, others)
    return _KNOWN[kind]


def host_view(array: Any) -> Any:
    """Returns a numpy view of a JAX array's memory, or a copy if that is not the host's.

    The view is valid only until the next step, which may donate the memory. Returns any value that
    is not a JAX array unchanged.
    """
    if not is_jax_type(type(array)) or jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
        return array
    devices = array.devices()
    if len(devices) != 1 or next(iter(devices)).platform != "cpu" or not array.size:
        return np.asarray(array)
    array.block_until_ready()
    memory = (ctypes.c_uint8 * array.nbytes).from_address(array.unsafe_buffer_pointer())
    memory.owner = array  # so that the view keeps the array alive
    view = np.frombuffer(memory, array.dtype).reshape(array.shape)
    view.flags.writeable = False
    return view
