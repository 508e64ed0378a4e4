"""What all ranks must pass alike to a step: its types, and the values that several ranks read."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from scalify import _runtime, _stages
from scalify._diagnostics import warn
from scalify._entry import Entry
from scalify._lowering import to_physical
from scalify._saved import Saved
from scalify._scaled_array import ScaledArray
from scalify._views import host_view
from scalify.mesh import Owned, Parts, Shard, Shares, layout_of

__all__ = ["agreed"]

# Of a larger array as many evenly spaced bytes are compared, in blocks.
_MOST, _BLOCK = 1 << 24, 1 << 20


def agreed(entry: Entry, leaves: Sequence[Any], with_values: bool) -> Entry:
    """Returns a step, marked as one that all ranks call alike; one rank always does.

    After an error the step is as before, with the state that was restored for it, and is checked
    again at its next call.

    Args:
        entry: of this rank.
        leaves: its flat arguments.
        with_values: whether to compare the arguments' values too.

    Raises:
        ValueError: on every rank, if ranks call different steps, or pass arguments of other types,
            or other values to ranks that read the same part of an argument.
    """
    if entry.mesh is not None and entry.mesh.comm is not None:
        _check_types(entry)
        if with_values:
            _check_values(entry, leaves)
    return dataclasses.replace(entry, is_agreed=True)


def _check_types(entry: Entry) -> None:
    assert entry.mesh is not None
    lowered = entry.lowered
    types = dict(zip(lowered.in_names, map(_type, lowered.in_avals), strict=True))
    results = list(map(_type, lowered.out_avals))
    content = json.dumps([lowered.name, types, results]).encode()
    first, *others = map(json.loads, entry.mesh.gather_bytes(content))
    for rank, other in enumerate(others, 1):
        if other != first:
            raise ValueError(_difference(first, other, rank))


def _difference(first: Any, other: Any, rank: int) -> str:
    """Returns an error's text for [name, types of arguments, types of results] of two ranks."""
    if other[0] != first[0]:
        return (
            f"rank {rank} calls '{other[0]}', and rank 0 '{first[0]}': all ranks make the same "
            "calls, in one order"
        )
    if other[1] == first[1]:
        return f"'{first[0]}' has other results on rank {rank} than on rank 0"
    names = [*first[1], *other[1]]
    name = next(name for name in names if first[1].get(name) != other[1].get(name))
    here, there = (types.get(name, "nothing") for types in (other[1], first[1]))
    return (
        f"rank {rank} calls '{first[0]}' with {here} as {name}, and rank 0 with {there}: the whole "
        "array has one type on all ranks; mesh.array(shape, spec, part) makes an argument of a "
        "rank's own rows"
    )


def _type(aval: Any) -> str:
    return f"{aval.dtype.name}{list(aval.shape)}"


def _check_values(entry: Entry, leaves: Sequence[Any]) -> None:
    assert entry.mesh is not None
    layouts = _layouts(entry)[: len(leaves)]
    digests = [
        _digests(leaf, aval, layout, entry.mesh.rank)
        for leaf, aval, layout in zip(leaves, entry.lowered.in_avals, layouts, strict=True)
    ]
    by_rank = list(map(json.loads, entry.mesh.gather_bytes(json.dumps(digests).encode())))
    split = []
    for name, layout, *each in zip(entry.lowered.in_names, layouts, *by_rank, strict=True):
        wholes, parts = zip(*each, strict=True)
        if (pair := _other(parts, layout)) is not None:
            raise ValueError(
                f"{name} of '{entry.lowered.name}' has other values on rank {pair[1]} than on rank "
                f"{pair[0]}, which read the same part of it: make it alike on all ranks (one seed, "
                "one file, a checkpoint)"
            )
        if None not in wholes and len(set(wholes)) > 1:
            split.append(name)
    if split:
        more = f" and {len(split) - 1} more" if len(split) > 1 else ""
        warn(
            f"ranks pass other values as {split[0]}{more} to '{entry.lowered.name}': it is the "
            "whole array of all ranks, of which each reads only its own part; "
            "mesh.array(shape, spec, part) makes an argument of a rank's own rows",
        )


def _layouts(entry: Entry) -> list[Any]:
    manifest = entry.executable.manifest
    if "pipeline" in manifest:
        return _stages.layouts(manifest, "arg")
    return [layout_of(argument) for argument in manifest["args"]]


def _other(parts: Sequence[int | None], layout: Any) -> tuple[int, int] | None:
    """Returns two ranks that read the same part of an argument, and have other values there."""
    first: dict[Hashable, int] = {}
    for rank, part in enumerate(parts):
        if part is not None:
            before = first.setdefault(_place(layout, rank), rank)
            if parts[before] != part:
                return before, rank
    return None


def _place(layout: Parts | Shares | Owned | None, rank: int) -> Hashable:
    """Returns what ranks that read the same part of an array have in common."""
    if isinstance(layout, Owned):
        return rank in layout.owners, _place(layout.parts, rank - layout.owners.start)
    if layout is None:
        return ()
    row = layout.row if isinstance(layout, Shares) else layout
    return tuple((one.start, one.stop) for one in row.place(rank))


def _digests(leaf: Any, aval: Any, layout: Any, rank: int) -> tuple[int | None, int | None]:
    """Returns digests of a whole array, and of the part that a rank reads; None if it has none."""
    is_other_stage = isinstance(layout, Owned) and rank not in layout.owners
    has_values = not isinstance(leaf, (Saved, jax.ShapeDtypeStruct))
    if is_other_stage or not has_values or aval.dtype == jax.dtypes.float0:
        return None, None
    if isinstance(leaf, Shard):  # of another layout: an error of its own
        return None, _digest(leaf.data) if leaf.layout == layout else None
    leaf = leaf if isinstance(leaf, ScaledArray) else _on_host(leaf, aval.dtype)
    whole = _digest(leaf)
    is_whole = layout is None or (isinstance(layout, Owned) and layout.parts is None)
    return whole, whole if is_whole else _digest(_stages.part_of(leaf, layout, rank))


def _on_host(leaf: Any, dtype: Any = None) -> NDArray[Any]:
    """Returns a leaf as the step reads it: a number or an array of 64 bits in the step's type."""
    leaf = host_view(to_physical(leaf))
    if not hasattr(leaf, "__array__") and hasattr(leaf, "__dlpack__"):
        leaf = _runtime.array(leaf)
    return np.asarray(leaf, dtype)


def _digest(leaf: Any) -> int:
    if isinstance(leaf, ScaledArray):
        return zlib.crc32(str(leaf.storage).encode(), _digest(leaf.data))
    content = np.ascontiguousarray(_on_host(leaf)).reshape(-1).view(np.uint8)
    if content.size <= _MOST:
        return zlib.crc32(content.data)
    found = 0
    for start in np.linspace(0, content.size - _BLOCK, _MOST // _BLOCK, dtype=np.int64):
        found = zlib.crc32(content[start : start + _BLOCK].data, found)
    return found
