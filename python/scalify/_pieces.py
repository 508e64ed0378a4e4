"""A rank's shard of an array, as blocks that are contiguous in its memory or its file.

Layouts of state differ between meshes; blocks of the whole array convert between two of them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator

from scalify.mesh import Owned, Parts, Shares

__all__ = ["Block", "Layout", "blocks_of", "writers"]

# None is a replicated array.
Layout = Parts | Shares | Owned | None
_Place = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class Block:
    """A contiguous block.

    Attributes:
        place: start and stop per dimension of the whole array.
        offset: of its first element in the memory that holds it, in elements.
    """

    place: _Place
    offset: int

    @property
    def extents(self) -> tuple[int, ...]:
        """The block's shape."""
        return tuple(stop - start for start, stop in self.place)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.extents)

    def meet(self, other: Block) -> _Place | None:
        """Returns the intersection of two blocks; None if it is empty."""
        place = tuple(
            (max(mine[0], theirs[0]), min(mine[1], theirs[1]))
            for mine, theirs in zip(self.place, other.place, strict=True)
        )
        return None if any(start >= stop for start, stop in place) else place

    def within(self, place: _Place) -> tuple[slice, ...]:
        """Returns the slices of this block at a place of the whole array."""
        return tuple(
            slice(start - mine[0], stop - mine[0])
            for (start, stop), mine in zip(place, self.place, strict=True)
        )


def _row_blocks(place: _Place, start: int, stop: int, offset: int) -> Iterator[Block]:
    """Yields the elements [start, stop) of a place, in row-major order, as blocks."""
    if start >= stop:
        return
    if not place:
        yield Block((), offset)
        return
    (begin, _), *rest = place
    inner = math.prod(last - first for first, last in rest)
    at = start // inner
    if start % inner == 0 and stop - start >= inner:
        end = stop // inner
        yield Block(((begin + at, begin + end), *rest), offset)
        yield from _row_blocks(place, end * inner, stop, offset + end * inner - start)
        return
    end = min(stop, (at + 1) * inner)
    for block in _row_blocks(tuple(rest), start - at * inner, end - at * inner, offset):
        yield Block(((begin + at, begin + at + 1), *block.place), block.offset)
    yield from _row_blocks(place, end, stop, offset + end - start)


def blocks_of(layout: Layout, shape: tuple[int, ...], rank: int) -> list[Block]:
    """Returns the blocks of an array of this shape that a rank holds, without padding."""
    if layout is None:
        return [Block(tuple((0, extent) for extent in shape), 0)]
    if isinstance(layout, Owned):
        if rank not in layout.owners:
            return []
        return blocks_of(layout.parts, shape, rank - layout.owners.start)
    if isinstance(layout, Parts):
        return [Block(_bounds(layout.place(rank)), 0)]
    share = layout.row.place(rank)[-1]
    places = [_bounds(place) for place in layout.whole.places()]
    length = layout.row.shape[-1] // len(places)
    slices = math.prod(layout.slices)
    blocks: list[Block] = []
    for number in range(slices):
        before = number * (share.stop - share.start) - share.start
        for index, place in enumerate(places):
            begin = index * length
            size = math.prod(stop - start for start, stop in place) // slices
            low, high = max(share.start, begin), min(share.stop, begin + size)
            first = number * size - begin
            blocks += _row_blocks(place, first + low, first + high, before + low)
    return blocks


def writers(layout: Layout, ranks: int, index: int) -> list[int]:
    """Returns the ranks that write an array, one for each distinct part.

    Args:
        layout: of the array.
        ranks: the number of ranks.
        index: the array's index, which distributes the arrays over ranks with the same part.
    """
    return [group[index % len(group)] for group in _groups(layout, ranks)]


@functools.lru_cache(maxsize=1024)
def _groups(layout: Layout, ranks: int) -> tuple[tuple[int, ...], ...]:
    """Returns for each distinct part the ranks that have it."""
    if layout is None:
        return (tuple(range(ranks)),)
    if isinstance(layout, Owned):
        inner = _groups(layout.parts, layout.ranks)
        return tuple(tuple(layout.owners[rank] for rank in group) for group in inner)
    parts = layout if isinstance(layout, Parts) else layout.row
    groups: dict[_Place, list[int]] = {}
    for rank in range(ranks):
        groups.setdefault(_bounds(parts.place(rank)), []).append(rank)
    return tuple(map(tuple, groups.values()))


def _bounds(place: tuple[slice, ...]) -> _Place:
    return tuple((part.start, part.stop) for part in place)
