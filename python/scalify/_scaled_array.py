"""Tensors that are stored narrow: state between two steps, with true values for who looks."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scalify import _runtime
from scalify._dtypes import limits, to_numpy

__all__ = ["ScaledArray", "Storage"]


@dataclasses.dataclass(frozen=True)
class Storage:
    """How a tensor's true values are stored.

    Attributes:
        dtype: of the data: "f16", "bf16", "f8E4M3FN" or "f8E5M2".
        exponent: log2 of what data are multiplied by.
        root: true values are the squares of these products.
        scale_index: the place of the scale among those that a step keeps and moves, where the
            exponent is but the first one; None for a constant. It does not count in comparisons.
    """

    dtype: str
    exponent: int
    root: bool = False
    scale_index: int | None = dataclasses.field(default=None, compare=False)

    def at(self, scales: NDArray[Any] | None) -> Storage:
        """Returns the storage by scales that a step keeps; 0 for one that it has not set yet."""
        if self.scale_index is None or scales is None or scales[self.scale_index] == 0:
            return self
        _, exponent = math.frexp(scales[self.scale_index])
        return dataclasses.replace(self, exponent=exponent - 1)

    def may_adopt(self, other: Storage) -> bool:
        """Whether data stored so can be read by setting the scale that the step keeps."""
        is_alike = (self.dtype, self.root) == (other.dtype, other.root)
        return is_alike and self.scale_index is not None

    def narrow(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns the data that stand for F32 values, rounded to nearest even, saturated.

        Only zero becomes zero in a root: else the smallest value takes its place, as in a step.
        """
        smallest, largest = limits(self.dtype)
        scale = np.float32(2.0**self.exponent)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            if self.root:
                least = np.sign(values) * (scale * np.float32(smallest))
                values = np.maximum(np.sqrt(values), least)
            clipped = np.clip(values / scale, np.float32(-largest), np.float32(largest))
            return clipped.astype(to_numpy(self.dtype))

    def widen(self, data: NDArray[Any]) -> NDArray[np.float32]:
        """Returns the true values, F32."""
        values = data.astype(np.float32) * np.float32(2.0**self.exponent)
        return values * values if self.root else values


class ScaledArray:
    """A tensor of F32 values that holds narrow data and a power of two.

    Steps whose recipe stores state narrow return it in this form, and take it back without a
    copy. `numpy.asarray` gives the true values, and so do steps of other recipes, which take it
    as they take any array. It is a leaf of pytrees.
    """

    def __init__(self, data: Any, storage: Storage) -> None:
        """Wraps narrow data.

        Args:
            data: a `scalify.Array`, or an array that is copied into one; its dtype is that of
                `storage`.
            storage: what its elements stand for.

        Raises:
            ValueError: the data are of another dtype.
        """
        if not isinstance(data, _runtime.Array):
            data = _runtime.array(data)
        if data.dtype != to_numpy(storage.dtype):
            raise ValueError(f"data of {data.dtype} for an array that stores {storage.dtype}")
        self._data = data
        self._storage = storage

    @property
    def data(self) -> _runtime.Array:
        """The narrow data: true values are `data * scale`, or the squares of these in a root."""
        return self._data

    @property
    def storage(self) -> Storage:
        """How the values are stored."""
        return self._storage

    @property
    def scale(self) -> float:
        """What data are multiplied by, a power of two."""
        return math.ldexp(1.0, self._storage.exponent)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the data and of the true values."""
        return self._data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the true values: F32."""
        return np.dtype(np.float32)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._data.size

    @property
    def nbytes(self) -> int:
        """Bytes of the narrow data."""
        return self._data.nbytes

    def is_deleted(self) -> bool:
        """True once a step has taken the memory over."""
        return self._data.is_deleted()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Returns a copy of the true values; there is no view of them."""
        if copy is False:
            raise ValueError("the true values of a ScaledArray are a copy of its data")
        values = self._storage.widen(np.asarray(self._data))
        return values if dtype is None else values.astype(dtype, copy=False)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        what = f"f32{list(self.shape)}, stored as {self._storage.dtype}"
        if self.is_deleted():
            return f"scalify.ScaledArray({what}, donated)"
        return f"scalify.ScaledArray({np.asarray(self)}, {what})"
