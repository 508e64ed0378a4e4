"""Values of arrays for a moment's look: JAX keeps what `numpy.asarray` has once made of an array.

An array with such a view is copied when it is donated. A look that leaves nothing behind leaves
donation in place.
"""

from __future__ import annotations

import ctypes
from typing import Any

import jax
import numpy as np

__all__ = ["host_view", "is_jax_type"]


_KNOWN: dict[type, bool] = {}


def is_jax_type(kind: type) -> bool:
    """Whether values of a type are arrays of JAX, with memory of their own: no tracers."""
    if kind not in _KNOWN:
        from scalify._scaled_array import ScaledArray  # late: it looks at its data by this module

        others = (jax.core.Tracer, ScaledArray)
        _KNOWN[kind] = issubclass(kind, jax.Array) and not issubclass(kind, others)
    return _KNOWN[kind]


def host_view(array: Any) -> Any:
    """Returns a numpy array of a JAX array's values in its own memory, where that is the host's.

    It is for a look before the next step: a donated array's memory is the result's then. Anything
    else than an array of JAX comes back as it is.
    """
    if not is_jax_type(type(array)) or jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
        return array
    devices = array.devices()
    if len(devices) != 1 or next(iter(devices)).platform != "cpu" or not array.size:
        return np.asarray(array)
    array.block_until_ready()
    memory = (ctypes.c_uint8 * array.nbytes).from_address(array.unsafe_buffer_pointer())
    memory.owner = array  # which the view keeps alive
    view = np.frombuffer(memory, array.dtype).reshape(array.shape)
    view.flags.writeable = False
    return view
