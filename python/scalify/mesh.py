"""Ranks in a grid: where parts of arrays lie, and how ranks tell each other what they have.

A script that says `mesh = scalify.make_mesh(data=8)` runs as it is under `mpirun -n 8`, or alone:
then one process computes what the eight would, bit for bit.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import jax
import numpy as np
from numpy.typing import NDArray

from scalify import _runtime
from scalify._views import host_view
from scalify.errors import CompileError

__all__ = ["Mesh", "Owned", "Parts", "Shard", "Shares", "layout_of", "make_mesh"]

T = TypeVar("T")

# Of what one rank has and the others get, this much goes at a time.
CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True)
class Parts:
    """How a value lies on the ranks of a mesh.

    Attributes:
        shape: of the whole value.
        digits: per dimension (stride, size) of the axes that split it, the major one first: a
            rank's place along it is the number of digits rank // stride % size.
    """

    shape: tuple[int, ...]
    digits: tuple[tuple[tuple[int, int], ...], ...]

    @staticmethod
    def read(entry: Mapping[str, Any]) -> Parts:
        """Returns what a manifest says."""
        digits = (tuple(zip(dim[::2], dim[1::2], strict=True)) for dim in entry["parts"])
        return Parts(tuple(entry["shape"]), tuple(digits))

    def place(self, rank: int) -> tuple[slice, ...]:
        """Returns where a rank's part lies in the whole value."""
        slices = []
        for extent, digits in zip(self.shape, self.digits, strict=True):
            index, count = 0, 1
            for stride, size in digits:
                index, count = index * size + rank // stride % size, count * size
            slices.append(slice(index * (extent // count), (index + 1) * (extent // count)))
        return tuple(slices)

    def places(self) -> list[tuple[slice, ...]]:
        """Returns all different places, those of the first dimension's parts outermost."""
        counts = (math.prod(size for _, size in digits) for digits in self.digits)
        cuts = [
            [
                slice(index * (extent // count), (index + 1) * (extent // count))
                for index in range(count)
            ]
            for extent, count in zip(self.shape, counts, strict=True)
        ]
        return list(itertools.product(*cuts))

    def cut(self, whole: NDArray[Any], rank: int) -> NDArray[Any]:
        """Returns a rank's part."""
        return np.asarray(whole[self.place(rank)], order="C")

    def join(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Returns the whole value of all ranks' parts."""
        whole = np.empty(self.shape, parts[0].dtype)
        for rank, part in enumerate(parts):
            whole[self.place(rank)] = part
        return whole

    def part_shape(self, rank: int) -> tuple[int, ...]:
        """Returns the shape of a rank's part."""
        return tuple(place.stop - place.start for place in self.place(rank))


@dataclasses.dataclass(frozen=True)
class Shares:
    """How a value lies that ranks keep in shares (ZeRO).

    Attributes:
        whole: what it is, and the parts of it that some ranks would have alike.
        row: those parts one behind the other, each with its elements in a row and filled up with
            zeros; and which rank has which share of that. Of a stack this is so of each slice, and
            the slices are a first dimension.
    """

    whole: Parts
    row: Parts

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole value."""
        return self.whole.shape

    @property
    def slices(self) -> tuple[int, ...]:
        """How many slices a stack has; nothing for what is cut as a whole."""
        return self.row.shape[:-1]

    def cut(self, whole: NDArray[Any], rank: int) -> NDArray[Any]:
        """Returns a rank's share."""
        places, slices = self.whole.places(), self.slices
        rows = np.zeros((*slices, len(places), self.row.shape[-1] // len(places)), whole.dtype)
        for index, place in enumerate(places):
            elements = whole[place].reshape(*slices, -1)
            rows[..., index, : elements.shape[-1]] = elements
        return self.row.cut(rows.reshape(self.row.shape), rank)

    def join(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Returns the whole value of all ranks' shares."""
        whole = np.empty(self.shape, parts[0].dtype)
        places, slices = self.whole.places(), self.slices
        rows = self.row.join(parts).reshape(*slices, len(places), -1)
        for index, place in enumerate(places):
            size = whole[place].size // math.prod(slices)
            whole[place] = rows[..., index, :size].reshape(whole[place].shape)
        return whole

    def part_shape(self, rank: int) -> tuple[int, ...]:
        """Returns the shape of a rank's share."""
        return self.row.part_shape(rank)


@dataclasses.dataclass(frozen=True)
class Owned:
    """How a value lies that one stage of a pipeline has: its state.

    Attributes:
        shape: of the value.
        owner: the stage. The parts of other stages' ranks have no elements.
        ranks: of each stage, numbered one stage behind the other.
        parts: how the value lies on these; None if each of them has it whole.
    """

    shape: tuple[int, ...]
    owner: int
    ranks: int = 1
    parts: Parts | Shares | None = None

    @property
    def owners(self) -> range:
        """The ranks of the stage that has the value."""
        return range(self.owner * self.ranks, (self.owner + 1) * self.ranks)

    def cut(self, whole: NDArray[Any], rank: int) -> NDArray[Any]:
        """Returns a rank's part; nothing on another stage."""
        if rank not in self.owners:
            return np.empty(0, whole.dtype)
        if self.parts is None:
            return np.asarray(whole, order="C")
        return self.parts.cut(whole, rank - self.owners.start)

    def join(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Returns the value of all ranks' parts."""
        own = [parts[rank] for rank in self.owners]
        if self.parts is None:
            return np.asarray(own[0]).reshape(self.shape)
        return self.parts.join(own)

    def part_shape(self, rank: int) -> tuple[int, ...]:
        """Returns the shape of a rank's part."""
        if rank not in self.owners:
            return (0,)
        return self.shape if self.parts is None else self.parts.part_shape(rank - self.owners.start)


def layout_of(entry: Mapping[str, Any]) -> Parts | Shares | None:
    """Returns how an argument or result of a manifest lies; None if each rank has it whole."""
    whole, flat = entry.get("whole"), entry.get("flat")
    if flat is not None:
        # One process for all ranks has their shares one behind the other.
        shape = tuple(entry["shape"])
        row = Parts(shape, ((),) * len(shape)) if whole is None else Parts.read(whole)
        return Shares(Parts.read(flat), row)
    return Parts.read(whole) if whole is not None and any(whole["parts"]) else None


class Shard:
    """This rank's part of an array. It is a leaf of pytrees, and a step takes it as it is.

    Attributes:
        data: the part: what a step on one rank would have returned.
        layout: where it lies in the whole.
        mesh: whose ranks have the others.
    """

    def __init__(self, data: Any, layout: Parts | Shares | Owned, mesh: Mesh) -> None:
        """Wraps a part.

        Raises:
            ValueError: it is not as large as this rank's part.
        """
        wanted = layout.part_shape(mesh.rank)
        if tuple(data.shape) != wanted:
            raise ValueError(
                f"a part of shape {tuple(data.shape)}, where rank {mesh.rank} has {wanted} of "
                f"{layout.shape}"
            )
        self.data = data
        self.layout = layout
        self.mesh = mesh

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole array."""
        return self.layout.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the elements."""
        return np.dtype(self.data.dtype)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def is_flat(self) -> bool:
        """Whether the part is a share: elements in a row, not a block of the whole."""
        layout = self.layout.parts if isinstance(self.layout, Owned) else self.layout
        return isinstance(layout, Shares)

    def gather(self) -> NDArray[Any]:
        """Returns the whole array; every rank has to ask for it, in the same order."""
        if isinstance(self.layout, Owned):
            return self._from_owner(self.layout)
        return self.layout.join(self.mesh.all_gather(np.asarray(host_view(self.data))))

    def _from_owner(self, layout: Owned) -> NDArray[Any]:
        """Returns what one stage has: of what the others give nothing is read."""
        shape = layout.part_shape(layout.owners.start)
        mine = np.zeros(shape, self.dtype)
        if self.mesh.rank in layout.owners:
            mine = np.ascontiguousarray(self.data)
        flat = mine.reshape(-1)
        pieces = [
            self.mesh.all_gather(flat[start : start + CHUNK])
            for start in range(0, flat.size, CHUNK)
        ]
        parts = [
            np.concatenate([piece[rank] for piece in pieces] or [flat]).reshape(shape)
            for rank in range(self.mesh.size)
        ]
        return layout.join(parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        raise TypeError(
            "a Shard has this rank's part alone: .gather() on all ranks gives the whole array, "
            ".data the part"
        )

    def __repr__(self) -> str:
        return f"Shard({self.dtype.name}{list(self.shape)}, rank {self.mesh.rank})"


class Mesh:
    """Ranks in a grid of named axes, numbered row by row."""

    def __init__(self, axes: Mapping[str, int]) -> None:
        for name, size in axes.items():
            if size < 1:
                raise ValueError(f"axis '{name}' of a mesh has {size} ranks; it needs one or more")
        self.axes = dict(axes)

    @property
    def size(self) -> int:
        """How many ranks the mesh has."""
        return math.prod(self.axes.values())

    @functools.cached_property
    def abstract(self) -> jax.sharding.AbstractMesh:
        """JAX's mesh of the same axes, without devices, for `NamedSharding` in a step."""
        return jax.sharding.AbstractMesh(tuple(self.axes.values()), tuple(self.axes))

    @functools.cached_property
    def comm(self) -> _runtime.Communicator | None:
        """What connects this process to the other ranks; None if it runs alone.

        Raises:
            ValueError: other than as many processes were launched as the mesh has ranks.
            RuntimeError: they do not find each other.
        """
        _, launched = _runtime.launched()
        if launched == 1:
            return None
        if launched != self.size:
            raise ValueError(
                f"the mesh {self.axes} has {self.size} ranks, and {launched} were launched"
            )
        return _runtime.Communicator()

    @property
    def rank(self) -> int:
        """This process's number; 0 if it runs alone."""
        return 0 if self.comm is None else self.comm.rank

    def parts(self, shape: Sequence[int], spec: jax.sharding.PartitionSpec) -> Parts:
        """Returns how an array lies on the ranks by a `PartitionSpec`.

        Raises:
            ValueError: the spec is longer than the shape, names an axis twice or one that the mesh
                has not, or a dimension is no multiple of its ranks.
        """
        what = f"{spec} of an array of shape {tuple(shape)} on the mesh {self.axes}"
        entries: list[tuple[str, ...]] = [
            () if one is None else (one,) if isinstance(one, str) else tuple(one) for one in spec
        ]
        if len(entries) > len(shape):
            raise ValueError(f"{what}: it has more entries than the array has dimensions")
        named = [name for entry in entries for name in entry]
        for name in named:
            if name not in self.axes:
                raise ValueError(f"{what}: the mesh has no axis '{name}'")
            if named.count(name) > 1:
                raise ValueError(f"{what}: axis '{name}' splits it twice")
        sizes, strides = list(self.axes.values()), {}
        for place, name in enumerate(self.axes):
            strides[name] = math.prod(sizes[place + 1 :])
        digits: list[tuple[tuple[int, int], ...]] = []
        entries += [()] * (len(shape) - len(entries))
        for extent, entry in zip(shape, entries, strict=True):
            # An axis of one rank splits nothing.
            split = [(strides[name], self.axes[name]) for name in entry if self.axes[name] > 1]
            count = math.prod(size for _, size in split)
            if extent % count:
                raise ValueError(
                    f"{what}: {extent} elements are no multiple of {count} ranks; leave the "
                    "dimension whole, or fill it up"
                )
            digits.append(tuple(split))
        return Parts(tuple(shape), tuple(digits))

    def array(
        self,
        shape: Sequence[int],
        spec: jax.sharding.PartitionSpec,
        part: Callable[[tuple[slice, ...]], Any],
    ) -> Shard | NDArray[Any]:
        """Returns an array of which each rank makes or reads its part alone, as of a batch.

        It is what `jax.make_array_from_callback` is for devices. A process that runs alone gets the
        whole array of all parts, and so does every rank where nothing is split.

        Args:
            shape: of the whole array.
            spec: as the step's `in_shardings` has it for the argument.
            part: returns the elements in these slices of the whole array.

        Raises:
            ValueError: the spec cannot be (`parts`), or a part has another shape than its slices.
        """
        layout = self.parts(shape, spec)

        def made(place: tuple[slice, ...]) -> NDArray[Any]:
            found = np.asarray(part(place), order="C")
            wanted = tuple(one.stop - one.start for one in place)
            if found.shape != wanted:
                raise ValueError(f"a part of shape {found.shape} for {place}, which are {wanted}")
            return found

        if self.comm is not None and any(layout.digits):
            return Shard(made(layout.place(self.rank)), layout, self)
        pieces = [(place, made(place)) for place in layout.places()]
        whole = np.empty(layout.shape, pieces[0][1].dtype)
        for place, piece in pieces:
            whole[place] = piece
        return whole

    def all_gather(self, array: NDArray[Any]) -> list[NDArray[Any]]:
        """Returns every rank's array of this shape, in the order of ranks."""
        if self.comm is None:
            return [array]
        dense = np.ascontiguousarray(array)
        parts = self.comm.all_gather(dense.tobytes())
        return [np.frombuffer(part, dense.dtype).reshape(array.shape) for part in parts]

    def broadcast(self, content: bytes | None) -> bytes:
        """Returns what rank 0 gives; the others give None."""
        if self.comm is None:
            assert content is not None
            return content
        mine = b"" if content is None else content
        length = len(mine).to_bytes(8, "little")
        size = int.from_bytes(self.comm.all_gather(length)[0], "little")
        pieces = []
        for start in range(0, size, CHUNK):
            piece = mine[start : start + CHUNK].ljust(min(CHUNK, size - start), b"\0")
            pieces.append(self.comm.all_gather(piece)[0])
        return b"".join(pieces)

    def gather_bytes(self, content: bytes) -> list[bytes]:
        """Returns what every rank gives, of any lengths, in the order of ranks."""
        if self.comm is None:
            return [content]
        sizes = self.comm.all_gather(len(content).to_bytes(8, "little"))
        lengths = [int.from_bytes(size, "little") for size in sizes]
        found = [b""] * len(lengths)
        for start in range(0, max(lengths), CHUNK):
            piece = content[start : start + CHUNK].ljust(min(CHUNK, max(lengths) - start), b"\0")
            found = [a + b for a, b in zip(found, self.comm.all_gather(piece), strict=True)]
        return [whole[:length] for whole, length in zip(found, lengths, strict=True)]

    def together(self, what: str, make: Callable[[], T]) -> T:
        """Returns what `make()` returns on this rank, once it has returned on all.

        Raises:
            RuntimeError: it raised on another rank: `what`, which rank, and why. On a rank where
                it raised, that itself.
        """
        result, failure = None, None
        try:
            result = make()
        except Exception as error:
            failure = error
        said = "" if failure is None else f"{type(failure).__name__}: {failure}"
        texts = [text.decode() for text in self.gather_bytes(said.encode())]
        if failure is not None:
            raise failure
        for rank, text in enumerate(texts):
            if text:
                raise RuntimeError(f"{what}, since rank {rank} failed: {text}")
        return cast(T, result)

    def on_first(self, make: Any) -> bytes:
        """Returns on all ranks what `make()` returns on the first.

        Raises:
            CompileError: `make` raised it there.
            RuntimeError: it raised anything else; on the first rank that itself.
        """
        content: bytes | None = None
        failure: Exception | None = None
        said: dict[str, Any] = {}
        if self.rank == 0:
            try:
                content = make()
            except CompileError as error:
                failure, said = error, {"diagnostics": error.diagnostics}
            except Exception as error:
                failure, said = error, {"text": f"{type(error).__name__}: {error}"}
        said = json.loads(self.broadcast(None if self.rank else json.dumps(said).encode()))
        if failure is not None:
            raise failure
        if "diagnostics" in said:
            raise CompileError(said["diagnostics"])
        if "text" in said:
            raise RuntimeError(f"rank 0 could not compile: {said['text']}")
        return self.broadcast(content)


def make_mesh(**axes: int) -> Mesh:
    """Returns a mesh of ranks: `make_mesh(data=4, tensor=2)`.

    No device of JAX's is needed. Without axes it is one axis "data" of all ranks that were
    launched. A process that runs alone computes what all ranks of the mesh would.

    Raises:
        ValueError: an axis has no rank.
    """
    return Mesh(axes or {"data": _runtime.launched()[1]})
