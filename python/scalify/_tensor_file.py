"""Files of arrays in the safetensors format, with checksums of their blocks.

The library writes them directly from memory. They are read by mapping, since checksums are of the
file's bytes, and a rank must touch only the blocks that it needs.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import zlib
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
from numpy.typing import NDArray

__all__ = ["DamagedError", "TensorFile", "is_storable", "map_tensors", "write"]

# Bytes of an array with one checksum each, and so the unit of reads.
BLOCK = 1 << 22

_DTYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "I64": np.int64,
    "U8": np.uint8,
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
}


class DamagedError(RuntimeError):
    """A file is missing, or is not what was written."""


def is_storable(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this dtype can be written."""
    return any(dtype == known for known in _DTYPES.values())


def write(path: pathlib.Path, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
    """Writes arrays into a file, and returns when it is on the disk.

    Returns:
        The file's size and the checksum of its header, which contains the arrays' checksums.

    Raises:
        OSError: the file cannot be written.
    """
    dense = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    sums = {name: _checksums(array) for name, array in dense.items()}
    specs = {
        name: safetensors.TensorSpec(
            dtype=array.dtype.name,
            shape=array.shape,
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
        for name, array in dense.items()
    }
    try:
        safetensors.serialize_file(specs, path, metadata={"crc32": json.dumps(sums)})
    except safetensors.SafetensorError as error:
        raise OSError(f"'{path}' cannot be written: {error}") from error
    # The library makes the file private to its owner; give it the folder's permissions.
    path.chmod(path.parent.stat().st_mode & 0o666)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        length = int.from_bytes(file.read(8), "little")
        return path.stat().st_size, zlib.crc32(file.read(length))


def map_tensors(path: pathlib.Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Returns the arrays of any safetensors file, mapped, in the file's order, and its metadata.

    The library checks the header. It would copy the arrays, and has none of FP8 for numpy.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no safetensors file, truncated, or has formats that are not known here.
    """
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            slices = {name: file.get_slice(name) for name in file.offset_keys()}
            specs = {name: (one.get_dtype(), one.get_shape()) for name, one in slices.items()}
            metadata = file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise ValueError(f"'{path}' is no safetensors file that can be read: {error}") from error
    if odd := [f"{name} ({kind})" for name, (kind, _) in specs.items() if kind not in _DTYPES]:
        raise ValueError(f"'{path}' has arrays of formats that are not known: {', '.join(odd)}")
    sizes = {n: math.prod(shape) * np.dtype(_DTYPES[k]).itemsize for n, (k, shape) in specs.items()}
    content = np.memmap(path, np.uint8, mode="r")
    # The arrays follow one another to the end of the file.
    at, found = len(content) - sum(sizes.values()), {}
    for name, (kind, shape) in specs.items():
        found[name] = content[at : at + sizes[name]].view(_DTYPES[kind]).reshape(shape)
        at += sizes[name]
    return found, metadata


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _checksums(array: NDArray[Any]) -> list[int]:
    content = _bytes_of(array)
    return [zlib.crc32(content[at : at + BLOCK].data) for at in range(0, content.size, BLOCK)]


class TensorFile:
    """A mapped file that `write` wrote, with checks of its blocks by their checksums."""

    def __init__(self, path: pathlib.Path, size: int, header: int) -> None:
        """Maps a file.

        Args:
            path: of the file.
            size: as `write` returned it.
            header: the checksum of the header, as `write` returned it.

        Raises:
            DamagedError: the file is missing, truncated, or has another header.
        """
        self._path = path
        try:
            found = path.stat().st_size
        except FileNotFoundError:
            raise DamagedError(f"'{path}' is missing") from None
        if found != size:
            raise DamagedError(f"'{path}' has {found} bytes where {size} were written")
        self._content: NDArray[np.uint8] = np.memmap(path, np.uint8, mode="r")
        length = int.from_bytes(self._content[:8].tobytes(), "little")
        text = self._content[8 : 8 + length].tobytes()
        if zlib.crc32(text) != header:
            raise DamagedError(f"the header of '{path}' is not what was written")
        self._entries: dict[str, Any] = json.loads(text)
        self._sums: dict[str, list[int]] = json.loads(self._entries["__metadata__"]["crc32"])
        self._start = 8 + length
        self._checked: set[tuple[str, int]] = set()

    def check(self, name: str, start: int, stop: int) -> None:
        """Checks the blocks of the elements [start, stop) of an array in row-major order.

        Raises:
            DamagedError: a block is not what was written.
        """
        array = self.flat(name)
        content, width = _bytes_of(array), array.dtype.itemsize
        for at in range(start * width // BLOCK, -(-stop * width // BLOCK)):
            if (name, at) in self._checked:
                continue
            block = content[at * BLOCK : (at + 1) * BLOCK].data
            if zlib.crc32(block) != self._sums[name][at]:
                raise DamagedError(f"'{name}' in '{self._path}' is not what was written")
            self._checked.add((name, at))

    def check_all(self) -> None:
        """Checks all arrays.

        Raises:
            DamagedError: an array is not what was written.
        """
        for name in self._sums:
            self.check(name, 0, self.flat(name).size)

    def flat(self, name: str) -> NDArray[Any]:
        """Returns a flat, unchecked view of an array in the file.

        Raises:
            DamagedError: the file does not contain the array.
        """
        if name not in self._sums:
            raise DamagedError(f"'{self._path}' does not hold '{name}'")
        begin, end = self._entries[name]["data_offsets"]
        content = self._content[self._start + begin : self._start + end]
        dtype = np.dtype(_DTYPES[self._entries[name]["dtype"]])
        return content.view(dtype)
