"""Differences between the supported versions of JAX, 0.7 to 0.10.

No other file checks JAX's version, or whether JAX has a name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src import core as _core
from jax._src import dtypes as _dtypes
from jax._src.config import trace_context
from jax._src.core import trace_state_clean
from jax._src.interpreters import pxla as _pxla
from jax._src.lax.lax import _convert_element_type
from jax._src.mesh import use_abstract_mesh
from jax.sharding import NamedSharding, PartitionSpec

__all__ = [
    "UNBOUND_AXIS_ERRORS",
    "as_varying",
    "register_leaf",
    "trace_context",
    "trace_state_clean",
    "use_abstract_mesh",
    "vary_like",
    "varying_axes",
    "weakly_typed",
]

# Lowering a collective over an axis of the enclosing `jax.shard_map` raises one of these.
UNBOUND_AXIS_ERRORS = (AssertionError, NameError)

# A type's attribute for the axes of a `jax.shard_map` along which its values vary; before 0.10 a
# set of names.
_AXES = "manual_axis_type" if hasattr(_core, "ManualAxisType") else "vma"


def weakly_typed(array: Any) -> jax.Array:
    """Returns an array with a weak type, as JAX gives to Python numbers."""
    return _convert_element_type(array, weak_type=True)


def varying_axes(aval: Any) -> frozenset[Any]:
    """Returns the mesh axes of a `jax.shard_map` along which values of a type vary."""
    axes: Any = getattr(aval, _AXES, frozenset())
    return getattr(axes, "varying", axes)


def as_varying(value: Any, axes: Sequence[Any]) -> Any:
    """Marks a value that is replicated along axes of a `jax.shard_map` as varying along them."""
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(value, tuple(axes), to="varying")
    return jax.lax.pvary(value, tuple(axes))  # before 0.8


def vary_like(avals: Sequence[Any], like: Any) -> tuple[Any, ...]:
    """Returns `avals` with the varying mesh axes of the type `like`."""
    axes = {_AXES: getattr(like, _AXES)}
    mesh = like.sharding.mesh
    return tuple(
        aval.update(sharding=NamedSharding(mesh, PartitionSpec(*[None] * aval.ndim)), **axes)
        for aval in avals
    )


def register_leaf(
    class_: type, aval: Callable[[Any], Any], array: Callable[[Any], jax.Array]
) -> None:
    """Lets JAX's transformations take leaves of a class, for which JAX has no public API.

    Args:
        class_: of the leaves.
        aval: returns a leaf's abstract value.
        array: returns the JAX array that is passed to a compiled function in a leaf's place.
    """

    def shard(leaves: Sequence[Any], shardings: Any, layouts: Any, semantics: Any) -> Any:
        return _pxla.shard_args(shardings, layouts, semantics, [array(leaf) for leaf in leaves])

    _core.pytype_aval_mappings[class_] = aval
    _pxla.shard_arg_handlers[class_] = shard
    if hasattr(_dtypes, "register_canonicalize_value_handler"):
        _dtypes.register_canonicalize_value_handler(class_, None)
    elif hasattr(_dtypes, "canonicalize_value_handlers"):  # before 0.10
        _dtypes.canonicalize_value_handlers[class_] = lambda leaf: leaf
    else:  # 0.7.0
        from jax._src.interpreters.xla import canonicalize_dtype_handlers

        canonicalize_dtype_handlers[class_] = lambda leaf: leaf
