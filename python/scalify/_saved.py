"""Arrays of a checkpoint, of which each rank reads only its shard."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scalify._dtypes import to_numpy
from scalify._folders import open_file
from scalify._pieces import Block, Layout, blocks_of, writers
from scalify._scaled_array import ScaledArray, Storage
from scalify._tensor_file import TensorFile
from scalify.mesh import Owned, Parts, Shares

__all__ = ["Reader", "Saved", "describe_layout"]


def describe_layout(layout: Layout) -> dict[str, Any] | None:
    """Returns a layout as JSON, the inverse of `_layout_of`."""
    if layout is None:
        return None
    if isinstance(layout, Owned):
        parts = describe_layout(layout.parts)
        stage = {"owner": layout.owner, "ranks": layout.ranks, "parts": parts}
        return {"shape": list(layout.shape), **stage}
    if isinstance(layout, Parts):
        return {"shape": list(layout.shape), "digits": [list(map(list, d)) for d in layout.digits]}
    return {"whole": describe_layout(layout.whole), "row": describe_layout(layout.row)}


def _parts_of(entry: Mapping[str, Any]) -> Parts:
    digits = (tuple((stride, size) for stride, size in dim) for dim in entry["digits"])
    return Parts(tuple(entry["shape"]), tuple(digits))


def _layout_of(entry: Mapping[str, Any] | None) -> Layout:
    if entry is None:
        return None
    if "owner" in entry:
        # In checkpoints of earlier versions a stage has one rank.
        parts = cast("Parts | Shares | None", _layout_of(entry.get("parts")))
        return Owned(tuple(entry["shape"]), entry["owner"], entry.get("ranks", 1), parts)
    if "row" in entry:
        return Shares(_parts_of(entry["whole"]), _parts_of(entry["row"]))
    return _parts_of(entry)


class Reader:
    """An opened checkpoint.

    Attributes:
        folder: its path.
        manifest: its manifest.
    """

    def __init__(self, folder: pathlib.Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest
        self._files: dict[int, TensorFile] = {}

    @property
    def ranks(self) -> int:
        """The number of ranks that wrote it."""
        return len(self.manifest["files"])

    def file(self, rank: int) -> TensorFile:
        """Returns the file that a rank wrote."""
        if rank not in self._files:
            self._files[rank] = open_file(self.folder, self.manifest, rank)
        return self._files[rank]

    def leaves(self) -> list[Saved]:
        """Returns the arrays, in the order in which they were saved."""
        return [Saved(self, index) for index in range(len(self.manifest["leaves"]))]


class Saved:
    """An array in a checkpoint: a leaf of pytrees that a step takes as an argument.

    A step on several ranks reads only the rank's shard; `numpy.asarray` reads the whole array. The
    checkpoint must exist until then.
    """

    def __init__(self, reader: Reader, index: int) -> None:
        self._reader = reader
        self._index = index
        self.entry: dict[str, Any] = reader.manifest["leaves"][index]

    @property
    def name(self) -> str:
        """Its path in the saved tree."""
        return str(self.entry["name"])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        return tuple(self.entry["shape"])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the true values."""
        return np.dtype(np.float32) if self.storage else self._stored_dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def layout(self) -> Layout:
        """Its layout on the ranks that saved it."""
        return _layout_of(self.entry["layout"])

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array as saved."""
        return math.prod(self.shape) * self._stored_dtype.itemsize

    @property
    def storage(self) -> Storage | None:
        """The storage of its values, if narrow."""
        stored = self.entry["stored"]
        return None if stored is None else Storage(**stored)

    @property
    def _stored_dtype(self) -> np.dtype[Any]:
        return to_numpy(self.entry["dtype"])

    def part(self, layout: Layout, rank: int) -> Any:
        """Returns a rank's shard by a layout; with None the whole array.

        It is a `scalify.ScaledArray` if one was saved. Padding is zero.

        Raises:
            DamagedError: the checkpoint is not as written.
        """
        shape = self.shape if layout is None else layout.part_shape(rank)
        data: NDArray[Any] = np.zeros(shape, self._stored_dtype)
        row = data.reshape(-1)
        for block in blocks_of(layout, self.shape, rank):
            self._fill(row[block.offset : block.offset + block.size], block)
        return data if self.storage is None else ScaledArray(data, self.storage)

    def _fill(self, elements: NDArray[Any], wanted: Block) -> None:
        """Reads a block of the whole array from the files that contain parts of it."""
        target = elements.reshape(wanted.extents)
        layout = self.layout
        for rank in writers(layout, self._reader.ranks, self._index):
            for block in blocks_of(layout, self.shape, rank):
                if (place := wanted.meet(block)) is None:
                    continue
                file, there = self._reader.file(rank), block.within(place)
                first, last = _span(there, block.extents)
                file.check(self.name, block.offset + first, block.offset + last + 1)
                flat = file.flat(self.name)[block.offset : block.offset + block.size]
                target[wanted.within(place)] = flat.reshape(block.extents)[there]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Reads the true values of the whole array."""
        if copy is False:
            raise ValueError("an array of a checkpoint is read from files")
        return np.asarray(self.part(None, 0), dtype)

    def __repr__(self) -> str:
        return f"Saved({self.dtype.name}{list(self.shape)}, '{self.name}' of {self._reader.folder})"


def _span(there: tuple[slice, ...], extents: tuple[int, ...]) -> tuple[int, int]:
    """Returns the offsets of the first and the last element of a part of a contiguous block."""
    first = last = 0
    for part, extent in zip(there, extents, strict=True):
        first, last = first * extent + part.start, last * extent + part.stop - 1
    return first, last
