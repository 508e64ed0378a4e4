"""The order of samples: which source and which of its samples is next, at any position."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Permutation", "blend"]

_ROUNDS = 4


class Permutation:
    """A random permutation of range(size) that needs no memory: `of(index)` for any index.

    A balanced Feistel network on the next even number of bits, walked until it is within the range
    (Black and Rogaway 2002, "Ciphers with arbitrary finite domains", section 5).
    """

    def __init__(self, size: int, *seed: int) -> None:
        """Chooses the permutation that belongs to the numbers of `seed`."""
        if size < 1:
            raise ValueError(f"a permutation of {size} elements")
        self.size = size
        self.half = max(1, ((size - 1).bit_length() + 1) // 2)
        self.mask = (1 << self.half) - 1
        self.seed = ",".join(map(str, seed)).encode()

    def of(self, index: int) -> int:
        """Returns the image of an index."""
        value = index
        while True:
            left, right = value >> self.half, value & self.mask
            for number in range(_ROUNDS):
                left, right = right, left ^ self._mix(number, right)
            value = left << self.half | right
            if value < self.size:
                return value

    def _mix(self, number: int, value: int) -> int:
        text = b"%s,%d,%d" % (self.seed, number, value)
        digest = hashlib.blake2b(text, digest_size=8).digest()
        return int.from_bytes(digest, "little") & self.mask


def blend(weights: Sequence[float], counts: NDArray[np.int64], samples: int) -> list[int]:
    """Returns the sources of the next samples, and adds them to `counts`.

    Each sample is from the source that is furthest behind its share, so that after n samples a
    source has its share of n to less than the number of sources.

    Args:
        weights: of the sources, relative to one another.
        counts: samples taken so far from each source; updated.
        samples: how many sources to return.
    """
    shares = np.asarray(weights, np.float64) / np.sum(weights)
    chosen = []
    for _ in range(samples):
        behind = shares * (counts.sum() + 1) - counts
        source = int(np.argmax(behind))
        counts[source] += 1
        chosen.append(source)
    return chosen
