"""Files of tokens, in the safetensors format: read by mapping, never as a whole.

tokens     U16 or U32 [n]     all documents, one after another
documents  I64 [d + 1]        where each begins; the last entry is n
trained    U8 [n]             1 where the loss counts the token; only files of instructions
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pathlib
import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from scalify._tensor_file import map_tensors

__all__ = ["TokenFile", "TokenWriter"]

_KIND = "scalify.tokens/1"
# A digest reads at most 16 MiB of an array, evenly spread, so that another corpus, tokenizer or
# shuffle is noticed without reading a mapped file as a whole.
_BLOCKS, _BLOCK = 256, 1 << 16


class TokenFile:
    """A mapped file of tokens.

    Attributes:
        tokens: [n], unsigned.
        documents: offsets [d + 1].
        trained: 0 or 1 for each token; None: all count.
        vocabulary: the number of tokens of the tokenizer.
        end: the token that ends a document; None if there is none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Maps a file.

        Raises:
            OSError: it cannot be read.
            ValueError: it is no complete file of tokens.
        """
        self.path = pathlib.Path(path)
        try:
            arrays, metadata = map_tensors(self.path)
            if metadata.get("kind") != _KIND:
                raise ValueError(f"its kind is {metadata.get('kind')}")
            self.tokens: NDArray[Any] = arrays["tokens"]
            self.documents: NDArray[np.int64] = np.asarray(arrays["documents"])
            self.trained: NDArray[np.uint8] | None = arrays.get("trained")
            self.vocabulary = int(metadata["vocabulary"])
            self.end = json.loads(metadata["end"])
            if self.documents[-1] != len(self.tokens):
                raise ValueError("its documents do not end where its tokens end")
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"'{self.path}' is no file of tokens ({error}): `scalify tokenize` makes one"
            ) from error

    def __len__(self) -> int:
        return len(self.tokens)

    @functools.cached_property
    def digest(self) -> int:
        """63 bits of a hash of the arrays: whole up to 16 MiB each, of samples beyond.

        Another corpus of the same length has another digest; a change of a few tokens of a large
        file may have the same.
        """
        found = hashlib.blake2b(digest_size=8)
        for array in (self.tokens, self.documents, self.trained):
            if array is not None:
                _hash_sample(found, np.ascontiguousarray(array).view(np.uint8))
        return int.from_bytes(found.digest(), "little") >> 1


def _hash_sample(found: hashlib.blake2b, data: NDArray[np.uint8]) -> None:
    """Adds all of the data to a hash, or blocks from the first bytes to the last."""
    if len(data) <= _BLOCKS * _BLOCK:
        found.update(data.data)
        return
    for block in range(_BLOCKS):
        begin = (len(data) - _BLOCK) * block // (_BLOCKS - 1)
        found.update(data[begin : begin + _BLOCK].data)


class TokenWriter:
    """Writes a file of tokens; it has its name once it is complete and on the disk."""

    def __init__(
        self, path: str | os.PathLike[str], vocabulary: int, end: int | None, masked: bool = False
    ) -> None:
        """Starts a file.

        Args:
            path: of the file; the folder must exist.
            vocabulary: the number of tokens of the tokenizer.
            end: the token that ends a document.
            masked: whether documents come with the tokens that the loss counts.
        """
        self.path = pathlib.Path(path)
        self.vocabulary, self.end, self.masked = vocabulary, end, masked
        self.dtype = np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.uint32)
        self._offsets = [0]
        # Offsets are before tokens, so tokens wait in files of their own until their number is
        # known.
        self._raw = {
            name: tempfile.TemporaryFile(dir=self.path.parent)  # noqa: SIM115
            for name in (["tokens", "trained"] if masked else ["tokens"])
        }

    def add(self, tokens: Sequence[int], trained: Sequence[int] | None = None) -> None:
        """Adds a document of tokens, with 0 or 1 for each token where the file is masked.

        Raises:
            ValueError: a token is not in the vocabulary, or the mask has another length.
        """
        array = np.asarray(tokens, np.int64)
        if array.size == 0:
            return
        if array.min() < 0 or array.max() >= self.vocabulary:
            raise ValueError(
                f"token {array.max()} is not in a vocabulary of {self.vocabulary} tokens"
            )
        if (trained is not None) != self.masked or (trained and len(trained) != array.size):
            raise ValueError("a masked file needs 0 or 1 for each token of a document")
        self._raw["tokens"].write(array.astype(self.dtype).tobytes())
        if trained is not None:
            self._raw["trained"].write(np.asarray(trained, np.uint8).tobytes())
        self._offsets.append(self._offsets[-1] + array.size)

    @property
    def count(self) -> int:
        """The number of tokens so far."""
        return self._offsets[-1]

    @property
    def documents(self) -> int:
        """The number of documents so far."""
        return len(self._offsets) - 1

    def close(self) -> None:
        """Writes the file.

        Raises:
            OSError: the file cannot be written.
            ValueError: there is no document.
        """
        if not self.count:
            raise ValueError(f"'{self.path}' would be empty: the input has no text")
        arrays = {"documents": np.asarray(self._offsets, np.int64)}
        for name, file in self._raw.items():
            file.flush()
            dtype = self.dtype if name == "tokens" else np.dtype(np.uint8)
            arrays[name] = np.memmap(file, dtype, mode="r", shape=(self.count,))
        specs = {
            name: safetensors.TensorSpec(
                dtype=array.dtype.name,
                shape=array.shape,
                data_ptr=array.ctypes.data,
                data_len=array.nbytes,
            )
            for name, array in arrays.items()
        }
        metadata = {
            "kind": _KIND,
            "vocabulary": str(self.vocabulary),
            "end": json.dumps(self.end),
        }
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            safetensors.serialize_file(specs, beside, metadata=metadata)
        except safetensors.SafetensorError as error:
            raise OSError(f"'{self.path}' cannot be written: {error}") from error
        # The library makes the file private to its owner; give it the folder's permissions.
        beside.chmod(self.path.parent.stat().st_mode & 0o666)
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        beside.rename(self.path)
        self.discard()

    def discard(self) -> None:
        """Removes what was added."""
        for file in self._raw.values():
            file.close()

    def __enter__(self) -> TokenWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()
