"""Meshes of ranks: layouts of sharded arrays, and exchanges between ranks.

A script with `mesh = scalify.make_mesh(data=8)` runs unchanged under `mpirun -n 8`, or alone: then
one process simulates the eight ranks, bit for bit.
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

# Exchanges between ranks go in pieces of this size: in bytes, or in elements of an array.
CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True)
class Parts:
    """The layout of a value that is sharded over the ranks of a mesh.

    Attributes:
        shape: of the whole value.
        digits: per dimension, (stride, size) of each mesh axis that shards it, major to minor. A
            rank's index along the dimension has the mixed-radix digits rank // stride % size.
    """

    shape: tuple[int, ...]
    digits: tuple[tuple[tuple[int, int], ...], ...]

    @staticmethod
    def read(entry: Mapping[str, Any]) -> Parts:
        """Returns the layout from a manifest's entry."""
        digits = (tuple(zip(dim[::2], dim[1::2], strict=True)) for dim in entry["parts"])
        return Parts(tuple(entry["shape"]), tuple(digits))

    def place(self, rank: int) -> tuple[slice, ...]:
        """Returns the slices of a rank's shard in the whole value."""
        slices = []
        for extent, digits in zip(self.shape, self.digits, strict=True):
            index, count = 0, 1
            for stride, size in digits:
                index, count = index * size + rank // stride % size, count * size
            slices.append(slice(index * (extent // count), (index + 1) * (extent // count)))
        return tuple(slices)

    def places(self) -> list[tuple[slice, ...]]:
        """Returns the slices of all distinct shards in row-major order."""
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
        """Returns a rank's shard of the whole value."""
        return np.asarray(whole[self.place(rank)], order="C")

    def join(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Returns the whole value from all ranks' shards."""
        whole = np.empty(self.shape, parts[0].dtype)
        for rank, part in enumerate(parts):
            whole[self.place(rank)] = part
        return whole

    def part_shape(self, rank: int) -> tuple[int, ...]:
        """Returns the shape of a rank's shard."""
        return tuple(place.stop - place.start for place in self.place(rank))


@dataclasses.dataclass(frozen=True)
class Shares:
    """The layout of a value that ranks keep in flat shares (ZeRO).

    Attributes:
        whole: the layout without ZeRO, in which several ranks would have equal shards.
        row: the layout of the flat row. The row concatenates the distinct shards of `whole`, each
            flattened and padded with zeros, and each rank has a share of it. For a stack each slice
            has such a row, and the slices are leading dimensions.
    """

    whole: Parts
    row: Parts

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole value."""
        return self.whole.shape

    @property
    def slices(self) -> tuple[int, ...]:
        """The leading dimensions of a stack; () for a value that is cut as a whole."""
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
        """Returns the whole value from all ranks' shares."""
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
    """The layout of a value that only one stage of a pipeline has, such as its state.

    Attributes:
        shape: of the value.
        owner: the stage. Shards of other stages' ranks have no elements.
        ranks: the number of ranks per stage; ranks are numbered stage by stage.
        parts: the layout over the stage's ranks; None if it is replicated on them.
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
        """Returns a rank's shard, which is empty on other stages."""
        if rank not in self.owners:
            return np.empty(0, whole.dtype)
        if self.parts is None:
            return np.asarray(whole, order="C")
        return self.parts.cut(whole, rank - self.owners.start)

    def join(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Returns the value from all ranks' shards."""
        own = [parts[rank] for rank in self.owners]
        if self.parts is None:
            return np.asarray(own[0]).reshape(self.shape)
        return self.parts.join(own)

    def part_shape(self, rank: int) -> tuple[int, ...]:
        """Returns the shape of a rank's shard."""
        if rank not in self.owners:
            return (0,)
        return self.shape if self.parts is None else self.parts.part_shape(rank - self.owners.start)


def layout_of(entry: Mapping[str, Any]) -> Parts | Shares | None:
    """Returns the layout of a manifest's argument or result; None if it is replicated."""
    whole, flat = entry.get("whole"), entry.get("flat")
    if flat is not None:
        # One process that simulates all ranks has their shares concatenated.
        shape = tuple(entry["shape"])
        row = Parts(shape, ((),) * len(shape)) if whole is None else Parts.read(whole)
        return Shares(Parts.read(flat), row)
    return Parts.read(whole) if whole is not None and any(whole["parts"]) else None


class Shard:
    """This rank's shard of an array: a leaf of pytrees that a step takes as an argument.

    Attributes:
        data: the shard, an array of the type that a step on one rank returns.
        layout: of the whole array.
        mesh: the ranks that have the other shards.
    """

    def __init__(self, data: Any, layout: Parts | Shares | Owned, mesh: Mesh) -> None:
        """Wraps a shard's data.

        Raises:
            ValueError: the data does not have the shape of this rank's shard.
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
        """The shape of the whole array."""
        return self.layout.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return np.dtype(self.data.dtype)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def is_flat(self) -> bool:
        """Whether the shard is a flat share, not a block of the whole array."""
        layout = self.layout.parts if isinstance(self.layout, Owned) else self.layout
        return isinstance(layout, Shares)

    def gather(self) -> NDArray[Any]:
        """Returns the whole array; collective over all ranks."""
        if isinstance(self.layout, Owned):
            return self._from_owner(self.layout)
        return self.layout.join(self.mesh.all_gather(np.asarray(host_view(self.data))))

    def _from_owner(self, layout: Owned) -> NDArray[Any]:
        """Returns the array of one stage; other stages' data is gathered and ignored."""
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
    """Ranks in a grid of named axes, numbered in row-major order."""

    def __init__(self, axes: Mapping[str, int]) -> None:
        for name, size in axes.items():
            if size < 1:
                raise ValueError(f"axis '{name}' of a mesh has {size} ranks; it needs one or more")
        self.axes = dict(axes)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return math.prod(self.axes.values())

    @functools.cached_property
    def abstract(self) -> jax.sharding.AbstractMesh:
        """JAX's abstract mesh of the same axes, for `NamedSharding` in a step."""
        return jax.sharding.AbstractMesh(tuple(self.axes.values()), tuple(self.axes))

    @functools.cached_property
    def comm(self) -> _runtime.Communicator | None:
        """The communicator of this process; None if it runs alone.

        Raises:
            ValueError: the number of launched processes is not that of the mesh's ranks.
            RuntimeError: the ranks do not find each other.
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
        """The rank of this process; 0 if it runs alone."""
        return 0 if self.comm is None else self.comm.rank

    def parts(self, shape: Sequence[int], spec: jax.sharding.PartitionSpec) -> Parts:
        """Returns the layout of an array by a `PartitionSpec`.

        Raises:
            ValueError: the spec is longer than the shape, names an axis twice or one that the mesh
                does not have, or a dimension is not a multiple of its ranks.
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
            # An axis of one rank shards nothing.
            split = [(strides[name], self.axes[name]) for name in entry if self.axes[name] > 1]
            count = math.prod(size for _, size in split)
            if extent % count:
                raise ValueError(
                    f"{what}: {extent} elements are not a multiple of {count} ranks; leave the "
                    "dimension unsharded, or pad it"
                )
            digits.append(tuple(split))
        return Parts(tuple(shape), tuple(digits))

    def array(
        self,
        shape: Sequence[int],
        spec: jax.sharding.PartitionSpec,
        part: Callable[[tuple[slice, ...]], Any],
    ) -> Shard | NDArray[Any]:
        """Returns an array, such as a batch, of which each rank makes or reads only its shard.

        It is the counterpart of `jax.make_array_from_callback` for ranks. A process that runs alone
        gets the whole array, and so does every rank if nothing is sharded.

        Args:
            shape: of the whole array.
            spec: the argument's entry of the step's `in_shardings`.
            part: returns the elements in the given slices of the whole array.

        Raises:
            ValueError: the spec is invalid (see `parts`), or a shard has another shape than its
                slices.
        """
        layout = self.parts(shape, spec)

        def made(place: tuple[slice, ...]) -> NDArray[Any]:
            found = np.asarray(part(place), order="C")
            wanted = tuple(one.stop - one.start for one in place)
            if found.shape != wanted:
                raise ValueError(f"a part of shape {found.shape} for {place} of shape {wanted}")
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
        """Returns rank 0's `content`; the other ranks pass None."""
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
        """Returns every rank's `content`, of any lengths, in the order of ranks."""
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
        """Returns the result of `make()` on this rank, once it has returned on all ranks.

        Raises:
            RuntimeError: `make` raised on another rank; names `what`, the rank and its error. A
                rank on which `make` raised reraises its own exception.
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

    def on_first_rank(self, make: Any) -> bytes:
        """Returns on all ranks the result of `make()` on the first.

        Raises:
            CompileError: `make` raised it there.
            RuntimeError: `make` raised another exception, which the first rank reraises.
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

    No JAX devices are needed. Without axes the mesh has one axis "data" of all launched ranks. A
    process that runs alone simulates all ranks of the mesh.

    Raises:
        ValueError: an axis has less than one rank.
    """
    return Mesh(axes or {"data": _runtime.launched()[1]})
