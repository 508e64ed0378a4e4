"""Batches of packed samples from files of tokens, in an order that resumes at the sample.

The order depends on the seed, the sources and the number of samples taken so far, and on nothing
else: not on the number of ranks, of micro-batches, or on where a run was interrupted.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalify.train.order import Permutation, blend
from scalify.train.settings import Source
from scalify.train.tokens import TokenFile

__all__ = ["FIELDS", "Blend", "Documents", "Pick", "Stream"]

_PACKINGS = ("stream", "documents")
FIELDS = ("tokens", "targets", "weights", "segments", "positions")
Sample = dict[str, NDArray[Any]]


def _sample(
    tokens: NDArray[Any], segments: NDArray[Any], counts: NDArray[Any], sequence: int
) -> Sample:
    """Returns a sample of up to `sequence` + 1 tokens, padded with zeros.

    Args:
        tokens: [n].
        segments: [n], the document of each token, from 1 and increasing.
        counts: [n], whether the loss counts the token as a target.
        sequence: tokens of the sample.
    """
    inputs = len(tokens) - 1
    starts = np.searchsorted(segments, segments[:-1], side="left")
    # The first token of a document cannot be told from the one before it.
    same = segments[1:] == segments[:-1]
    parts = {
        "tokens": tokens[:-1].astype(np.int32),
        "targets": tokens[1:].astype(np.int32),
        "weights": (same & (counts[1:] > 0)).astype(np.float32),
        "segments": segments[:-1].astype(np.int32),
        "positions": (np.arange(inputs) - starts).astype(np.int32),
    }
    return {name: np.pad(part, (0, sequence - inputs)) for name, part in parts.items()}


class Stream:
    """Samples of all documents, one after another, cut every `sequence` tokens.

    A sample's documents have segments 1, 2, ..., and positions from 0 in each.
    """

    def __init__(self, file: TokenFile, sequence: int, *seed: int) -> None:
        self.file, self.sequence, self.seed = file, sequence, seed
        self.count = (len(file) - 1) // sequence
        if self.count < 1:
            raise ValueError(
                f"'{file.path}' has {len(file)} tokens, too few for a sample of {sequence}"
            )

    def size(self, epoch: int) -> int:
        """Returns the number of samples of an epoch."""
        return self.count

    def sample(self, epoch: int, index: int) -> Sample:
        """Returns a sample of an epoch; each epoch has another order."""
        place = Permutation(self.count, *self.seed, epoch).of(index)
        begin = place * self.sequence
        end = begin + self.sequence + 1
        numbers = np.arange(begin, end)
        found = np.searchsorted(self.file.documents, numbers, side="right")
        trained = self.file.trained
        counts = np.ones(end - begin) if trained is None else trained[begin:end]
        tokens = np.asarray(self.file.tokens[begin:end])
        return _sample(tokens, found - found[0] + 1, counts, self.sequence)


class Documents:
    """Samples of whole documents in random order, each filled until the next does not fit.

    A longer document is cut to the tokens of a sample.
    """

    def __init__(self, file: TokenFile, sequence: int, *seed: int) -> None:
        self.file, self.sequence, self.seed = file, sequence, seed
        lengths = np.diff(file.documents)
        self.lengths = np.minimum(lengths, sequence + 1)
        self.cut = int(np.sum(lengths > sequence + 1))
        self._packed = functools.lru_cache(maxsize=2)(self._pack)

    def _pack(self, epoch: int) -> list[list[int]]:
        order = np.random.default_rng((*self.seed, epoch)).permutation(len(self.lengths))
        samples: list[list[int]] = [[]]
        room = self.sequence + 1
        for document in order.tolist():
            length = int(self.lengths[document])
            if length > room:
                samples.append([])
                room = self.sequence + 1
            samples[-1].append(document)
            room -= length
        return samples

    def size(self, epoch: int) -> int:
        """Returns the number of samples of an epoch."""
        return len(self._packed(epoch))

    def sample(self, epoch: int, index: int) -> Sample:
        """Returns a sample of an epoch."""
        tokens, segments, counts = [], [], []
        for number, document in enumerate(self._packed(epoch)[index], 1):
            begin = int(self.file.documents[document])
            end = begin + int(self.lengths[document])
            tokens.append(self.file.tokens[begin:end])
            segments.append(np.full(end - begin, number))
            trained = self.file.trained
            counts.append(np.ones(end - begin) if trained is None else trained[begin:end])
        joined = (np.concatenate(tokens), np.concatenate(segments), np.concatenate(counts))
        return _sample(*joined, self.sequence)


@dataclasses.dataclass(frozen=True)
class Pick:
    """One sample: its source, and its epoch and index there."""

    source: int
    epoch: int
    index: int


class Blend:
    """Samples of several sources by their weights.

    A position in the data is an int64 array [sources, 3]: samples taken from each source, its
    epoch, and the next index there. It belongs in a checkpoint.
    """

    def __init__(self, sources: Sequence[Source], packing: str, sequence: int, seed: int) -> None:
        """Opens the sources.

        Raises:
            OSError: a file cannot be read.
            ValueError: a file is no file of tokens, or has too few.
        """
        kind = Stream if packing == "stream" else Documents
        self.sources: list[Stream | Documents] = [
            kind(TokenFile(source.path), sequence, seed, number)
            for number, source in enumerate(sources)
        ]
        self.weights = [source.weight for source in sources]
        self.sequence, self.packing, self.seed = sequence, packing, seed

    @property
    def vocabulary(self) -> int:
        """The largest vocabulary of the sources."""
        return max(source.file.vocabulary for source in self.sources)

    @property
    def order(self) -> NDArray[np.int64]:
        """The order to which positions belong: sequence, packing, seed; sources and digests."""
        files = [number for one in self.sources for number in (len(one.file), one.file.digest)]
        return np.array([self.sequence, _PACKINGS.index(self.packing), self.seed, *files], np.int64)

    def check_order(self, before: NDArray[np.int64]) -> None:
        """Checks that positions mean here what they meant where `order` was `before`.

        Raises:
            ValueError: names the key of the configuration, or the file, that has changed.
        """
        count = (len(before) - 3) // 2
        if count != len(self.sources):
            raise ValueError(f"data.train has {len(self.sources)} files, and had {count}")
        sequence, packing, seed, *files = before.tolist()
        if self.sequence != sequence:
            raise ValueError(f"data.sequence is {self.sequence}, and was {sequence}")
        if self.packing != _PACKINGS[packing]:
            raise ValueError(f"data.packing is '{self.packing}', and was '{_PACKINGS[packing]}'")
        if self.seed != seed:
            raise ValueError(f"train.seed is {self.seed}, and was {seed}")
        for source, tokens, digest in zip(self.sources, files[::2], files[1::2], strict=True):
            if len(source.file) != tokens:
                found = f"has {len(source.file):,} tokens, and had {tokens:,}"
                raise ValueError(f"'{source.file.path}' {found}")
            if source.file.digest != digest:
                raise ValueError(
                    f"'{source.file.path}' has other tokens, or documents, than it had"
                )

    def start(self) -> NDArray[np.int64]:
        """Returns the position of the first sample."""
        return np.zeros((len(self.sources), 3), np.int64)

    def take(
        self, position: NDArray[np.int64], samples: int
    ) -> tuple[list[Pick], NDArray[np.int64]]:
        """Returns the next samples after a position, and the position after them."""
        position = position.copy()
        picks = []
        for number in blend(self.weights, position[:, 0], samples):
            _, epoch, index = position[number].tolist()
            picks.append(Pick(number, epoch, index))
            is_last = index + 1 == self.sources[number].size(epoch)
            position[number, 1:] = (epoch + 1, 0) if is_last else (epoch, index + 1)
        return picks, position

    def read(self, picks: Sequence[Pick]) -> Sample:
        """Returns the samples, each field [samples, sequence]."""
        samples = [self.sources[one.source].sample(one.epoch, one.index) for one in picks]
        return {name: np.stack([sample[name] for sample in samples]) for name in FIELDS}
