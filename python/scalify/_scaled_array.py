"""Tensors stored narrow between two steps, which read as their true values."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from typing import Any

import jax
import numpy as np
from numpy.typing import DTypeLike, NDArray

from scalify import _runtime
from scalify._dtypes import limits, to_numpy
from scalify._jax_api import register_leaf
from scalify._views import host_view, is_jax_type

__all__ = ["ScaledArray", "Storage"]


@dataclasses.dataclass(frozen=True)
class Storage:
    """The storage of a tensor's true values.

    Attributes:
        dtype: of the data: "f16", "bf16", "f8E4M3FN" or "f8E5M2".
        exponent: log2 of the scale that data are multiplied by.
        root: true values are the squares of these products.
        scale_index: the index of the scale among those that a step keeps and moves, for which
            `exponent` is only the initial value; None for a constant. Comparisons ignore it.
    """

    dtype: str
    exponent: int
    root: bool = False
    scale_index: int | None = dataclasses.field(default=None, compare=False)

    def at(self, scales: NDArray[Any] | None) -> Storage:
        """Returns the storage with the scale that a step keeps, where 0 means not yet set."""
        if self.scale_index is None or scales is None or scales[self.scale_index] == 0:
            return self
        _, exponent = math.frexp(scales[self.scale_index])
        # dataclasses.replace takes ten times as long, and this is called for each array.
        return Storage(self.dtype, exponent - 1, self.root, self.scale_index)

    def may_adopt(self, other: Storage) -> bool:
        """Whether a step can read data stored as `other` by setting the scale that it keeps."""
        is_alike = (self.dtype, self.root) == (other.dtype, other.root)
        return is_alike and self.scale_index is not None

    def narrow(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns the narrow data for F32 values, rounded to nearest even; finite ones saturate.

        With `root` only zero becomes zero: other values are at least the format's smallest, as in a
        step.
        """
        smallest, largest = limits(self.dtype)
        scale = np.float32(2.0**self.exponent)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            if self.root:
                least = np.sign(values) * (scale * np.float32(smallest))
                values = np.maximum(np.sqrt(values), least)
            scaled = values / scale
            clipped = np.clip(scaled, np.float32(-largest), np.float32(largest))
            dtype = np.dtype(to_numpy(self.dtype))
            # Infinities become NaN in FP8.
            other = scaled if dtype.itemsize > 1 else np.float32(np.nan)
            return np.where(np.isinf(scaled), other, clipped).astype(dtype)

    def widen(self, data: NDArray[Any]) -> NDArray[np.float32]:
        """Returns the true values, F32."""
        values = data.astype(np.float32) * np.float32(2.0**self.exponent)
        return values * values if self.root else values


class ScaledArray(jax.Array):
    """A tensor of F32 values, stored as narrow data and a power of two.

    Steps whose recipe stores state narrow return it, and take it back without a copy. It is a leaf
    of pytrees and reads as its true values: `numpy.asarray`, `jax.numpy`, arithmetic, comparison
    and indexing return arrays of them, functions under `jax.jit` and other transformations take it
    as an F32 array of that shape, and all other attributes of a `jax.Array` are those of the true
    values. Each use computes the true values again.
    """

    # As in jax.Array, so that numpy's operators defer to this class.
    __array_priority__ = 100

    def __init__(self, data: Any, storage: Storage) -> None:
        """Wraps narrow data.

        Args:
            data: a JAX array or a `scalify.Array`; any other array is copied into a
                `scalify.Array`. Its dtype is that of `storage`.
            storage: how the data encode the true values.

        Raises:
            ValueError: the data have another dtype.
        """
        if not isinstance(data, _runtime.Array) and not is_jax_type(type(data)):
            data = _runtime.array(data)
        if data.dtype != to_numpy(storage.dtype):
            raise ValueError(f"data of {data.dtype} for an array that stores {storage.dtype}")
        self._data = data
        self._storage = storage

    @property
    def data(self) -> Any:
        """The narrow data: true values are `data * scale`, or their squares with `storage.root`."""
        return self._data

    @property
    def storage(self) -> Storage:
        """The storage of the values."""
        return self._storage

    @property
    def scale(self) -> float:
        """The scale that data are multiplied by, a power of two."""
        return math.ldexp(1.0, self._storage.exponent)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the data and of the true values."""
        return tuple(self._data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the true values, F32."""
        return np.dtype(np.float32)

    @property
    def aval(self) -> Any:
        """The abstract value of the true values in JAX."""
        return _aval(self.shape)

    @property
    def weak_type(self) -> bool:
        """False: the type of the true values is not weak."""
        return False

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the narrow data."""
        return int(self._data.nbytes)

    def wide(self) -> jax.Array:
        """Returns the true values as a JAX array in F32."""
        return jax.numpy.asarray(np.asarray(self))

    def is_deleted(self) -> bool:
        """True if a step has consumed the data as a donated argument."""
        return bool(self._data.is_deleted())

    def delete(self) -> None:
        """Frees the narrow data, if they are a JAX array."""
        if not isinstance(self._data, _runtime.Array):
            self._data.delete()

    def block_until_ready(self) -> ScaledArray:
        """Returns itself, since a step is complete when it returns."""
        return self

    def __jax_array__(self) -> jax.Array:
        return self.wide()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Returns a copy of the true values, which cannot be viewed."""
        if copy is False:
            raise ValueError("the true values of a ScaledArray are a copy of its data")
        values = self._storage.widen(np.asarray(host_view(self._data)))
        return values if dtype is None else values.astype(dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return ScaledArray, (np.array(host_view(self._data)), self._storage)

    def __copy__(self) -> ScaledArray:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: Any) -> ScaledArray:
        # As with JAX's arrays, donating the original does not donate the copy.
        is_own = isinstance(self._data, _runtime.Array)
        data = _runtime.array(self._data) if is_own else jax.numpy.array(self._data, copy=True)
        return ScaledArray(data, self._storage)

    def __getattr__(self, name: str) -> Any:
        # Other public attributes of JAX's arrays; a missing protocol must stay missing.
        if name.startswith("_"):
            raise AttributeError(f"'ScaledArray' has no attribute '{name}'")
        return getattr(self.wide(), name)

    def __iter__(self) -> Any:
        return iter(self.wide())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        what = f"f32{list(self.shape)}, stored as {self._storage.dtype}"
        if self.is_deleted():
            return f"scalify.ScaledArray({what}, donated)"
        return f"scalify.ScaledArray({np.asarray(self)}, {what})"

    __str__ = __repr__


def _words(text: str) -> list[str]:
    return text.split()


# Attributes that jax.Array only declares or lacks, forwarded to the true values.
_PROPERTIES = _words(
    "T mT at addressable_shards committed device global_shards imag is_fully_addressable "
    "is_fully_replicated itemsize real sharding"
)
_OPERATORS = _words(
    "abs neg pos invert add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv "
    "rfloordiv mod rmod divmod rdivmod pow rpow eq ne lt le gt ge getitem bool float int complex "
    "index round contains reversed format dlpack dlpack_device array_namespace"
)
_METHODS = _words(
    "addressable_data all any argmax argmin argpartition argsort astype choose clip compress conj "
    "conjugate copy copy_to_host_async cumprod cumsum devices diagonal dot flatten item max mean "
    "min nonzero on_device_size_in_bytes prod ptp ravel repeat reshape round searchsorted sort "
    "squeeze std sum swapaxes take to_device tobytes tolist trace transpose var view"
)


def _forward() -> None:
    """Gives ScaledArray these attributes, forwarded to its true values."""

    def method(name: str) -> Any:
        def forward(self: ScaledArray, *args: Any, **kwargs: Any) -> Any:
            return getattr(self.wide(), name)(*args, **kwargs)

        forward.__name__ = name
        return forward

    for name in [f"__{name}__" for name in _OPERATORS] + _METHODS:
        setattr(ScaledArray, name, method(name))
    for name in _PROPERTIES:
        setattr(ScaledArray, name, property(operator.attrgetter(f"_wide.{name}")))
    ScaledArray._wide = property(ScaledArray.wide)


@functools.lru_cache(maxsize=4096)
def _aval(shape: tuple[int, ...]) -> Any:
    return jax.core.ShapedArray(shape, np.dtype(np.float32))


_forward()
# ScaledArray is a leaf, not a pytree node. The leaves of a node would be data and scale, of which
# `optax.tree.norm` is not the norm of the values, and the structure of F32 state would change at
# its first step.
register_leaf(ScaledArray, operator.attrgetter("aval"), ScaledArray.wide)
