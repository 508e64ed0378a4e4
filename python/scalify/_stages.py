"""Pipelines: a step cut into stages, each with its own layers, program and ranks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import jax
import numpy as np
from jax.sharding import PartitionSpec

from scalify._dtypes import to_numpy
from scalify._executable import Executable, build
from scalify._saved import Saved
from scalify._scaled_array import ScaledArray, Storage
from scalify.mesh import Mesh, Owned, Parts, Shard, Shares, layout_of

__all__ = ["Pipeline", "build_stages", "cut", "layouts", "own", "wrap"]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """How a step is cut into stages over one axis of a mesh.

    The model is cut at its `scalify.lax.stage_border`s into `virtual` chunks per stage; chunk c is
    on stage c modulo the number of stages. Micro-batches are the iterations of a loop around
    forward and backward. A stage's idle time is (stages - 1) / (virtual * micro-batches) of its
    compute time (Narayanan et al., 2021).

    The mesh's other axes are those of each stage: `make_mesh(pipe=2, data=4)` has two stages of
    four ranks, rank 4 * stage + i, which partition their stage's program as a mesh without stages
    would.

    Attributes:
        axis: the mesh's first axis, whose size is the number of stages.
        schedule: "1f1b", or "interleaved" for more than one chunk a stage.
        virtual: chunks of the model on each stage.
    """

    axis: str = "pipe"
    schedule: Literal["1f1b", "interleaved"] = "1f1b"
    virtual: int = 1

    def __post_init__(self) -> None:
        if self.schedule not in ("1f1b", "interleaved"):
            raise ValueError(f"unknown schedule '{self.schedule}': expected 1f1b or interleaved")
        if (self.schedule == "interleaved") != (self.virtual > 1) or self.virtual < 1:
            raise ValueError(
                f"schedule '{self.schedule}' with virtual={self.virtual}: 1f1b has one chunk of "
                "the model on each stage, interleaved two or more"
            )

    def check(self, mesh: Mesh | None, shardings: Any, zero: int) -> None:
        """Checks that a mesh has the stages, and that shardings and ZeRO are compatible with them.

        Raises:
            ValueError: there is no mesh, or its first axis is not that of the stages; shardings
                name that axis, or there is no other one for shardings and `zero`.
        """
        if mesh is None or self.axis not in mesh.axes:
            raise ValueError(
                f"pipeline= needs a mesh with its axis: mesh=scalify.make_mesh({self.axis}=4)"
            )
        first = next(iter(mesh.axes))
        if first != self.axis:
            raise ValueError(
                f"axis '{self.axis}' of the stages comes after '{first}' in {mesh.axes}: ranks of "
                f"a stage are consecutive, so write scalify.make_mesh({self.axis}=..., {first}=...)"
            )
        specs = [one for one in jax.tree.leaves(shardings) if isinstance(one, PartitionSpec)]
        if (specs or zero) and len(mesh.axes) == 1:
            raise ValueError(
                f"shardings and zero= are over the ranks of a stage, and in {mesh.axes} a stage "
                f"has one: write scalify.make_mesh({self.axis}=..., data=...)"
            )
        for spec in specs:
            if self.axis in jax.tree.leaves(tuple(spec)):
                raise ValueError(
                    f"{spec} names the axis '{self.axis}' of the stages, each of which has the "
                    "state of its layers: shard over the other axes"
                )

    def inner(self, mesh: Mesh) -> Mesh:
        """Returns the mesh of one stage's ranks: the other axes, over which shardings are."""
        return Mesh({name: size for name, size in mesh.axes.items() if name != self.axis})

    def options(self, mesh: Mesh) -> dict[str, Any]:
        """Returns the compiler's options for the stages, without the stage's number."""
        return {"pipelineStages": mesh.axes[self.axis], "pipelineVirtual": self.virtual}


def build_stages(
    text: str, options: Mapping[str, Any]
) -> tuple[list[bytes], list[list[dict[str, Any]]]]:
    """Returns the artefact and the diagnostics of each stage.

    Args:
        text: StableHLO of the whole step, or of the whole step partitioned for a rank of a stage.
        options: with `pipelineStages` and `pipelineVirtual`.
    """
    stages = range(options["pipelineStages"])
    built = [build(text, {**options, "pipelineStage": stage}) for stage in stages]
    return [artefact for artefact, _ in built], [said for _, said in built]


def pack(artefacts: Sequence[bytes]) -> bytes:
    """Returns several artefacts as one string of bytes."""
    return b"".join(len(one).to_bytes(8, "little") + one for one in artefacts)


def unpack(content: bytes, index: int) -> bytes:
    """Returns the artefact with this index of those that `pack` was given."""
    at = 0
    while True:
        size = int.from_bytes(content[at : at + 8], "little")
        if index == 0:
            return content[at + 8 : at + 8 + size]
        at, index = at + 8 + size, index - 1


def compile_stages(
    pipeline: Pipeline, mesh: Mesh, local: Callable[[], str], options: Mapping[str, Any]
) -> tuple[bytes, list[dict[str, Any]]]:
    """Returns the artefact of this rank's stage, and on the first rank its diagnostics.

    Args:
        pipeline: see above.
        mesh: all ranks, of which the first compiles for all stages.
        local: makes the StableHLO of the whole step, partitioned for a rank of a stage's mesh.
        options: of the compiler.
    """
    said: list[list[dict[str, Any]]] = []

    def first() -> bytes:
        artefacts, found = build_stages(local(), {**options, **pipeline.options(mesh)})
        said.extend(found)
        return pack(artefacts)

    content = mesh.on_first_rank(first)
    stage = mesh.rank // pipeline.inner(mesh).size
    return unpack(content, stage), said[0] if said else []


def own(
    manifest: Mapping[str, Any], which: Literal["args", "results"], whole: Sequence[T]
) -> list[T]:
    """Returns a stage's arguments or results, given those of the whole step.

    Args:
        manifest: of any artefact; without stages, all are returned.
        which: "args" or "results".
        whole: one entry each, without those that an executable keeps for its caller.
    """
    pipeline = manifest.get("pipeline")
    if pipeline is None:
        return list(whole)
    return [whole[index] for index in pipeline[which] if index < len(whole)]


def layouts(manifest: Mapping[str, Any], which: Literal["arg", "result"]) -> list[Any]:
    """Returns the layouts of all arguments or results of the step over all ranks."""
    pipeline = manifest["pipeline"]
    found: list[Any] = []
    for entry, owner in zip(pipeline[f"{which}_types"], pipeline[f"{which}_owners"], strict=True):
        parts = layout_of(entry)
        shape = tuple(entry["shape"]) if parts is None else parts.shape
        # A value on every stage has the same layout on each: a stage's strides hold for all ranks.
        found.append(parts if owner < 0 else Owned(shape, owner, pipeline["ranks"], parts))
    return found


def cut(executable: Executable, mesh: Mesh, arrays: Sequence[Any]) -> list[Any]:
    """Returns this stage's arguments, given those of the whole step; of a Shard, its data.

    A value of one element, such as a gate, may belong to another stage under another recipe; it is
    gathered. The executable adopts the storage scales of the state of all stages.

    Raises:
        ValueError: a Shard has another layout than the step takes, such as another stage's.
        RuntimeError: an array of a checkpoint cannot be read, by this stage or another one.
    """
    executable.stored.adopt([_storage_of(array) for array in arrays])
    manifest = executable.manifest
    of_args = layouts(manifest, "arg")[: len(arrays)]
    arrays = list(arrays)
    for index, (array, layout) in enumerate(zip(arrays, of_args, strict=True)):
        if isinstance(array, Shard) and array.layout != layout:
            if math.prod(array.shape) == 1:
                arrays[index] = array.gather()  # all ranks see the same layouts
                continue
            raise ValueError(
                f"{array} does not have the layout that the step takes: pass it as a step of the "
                "same pipeline and shardings returned it, or pass .gather()"
            )

    def mine() -> list[Any]:
        taken = own(manifest, "args", list(zip(arrays, of_args, strict=True)))
        return [_take(array, layout, mesh.rank) for array, layout in taken]

    if any(isinstance(array, Saved) for array in arrays):
        return mesh.together("a checkpoint was not read", mine)
    return mine()


def _storage_of(array: Any) -> Storage | None:
    data = array.data if isinstance(array, Shard) else array
    return data.storage if isinstance(data, (ScaledArray, Saved)) else None


def _take(array: Any, layout: Parts | Shares | Owned | None, rank: int) -> Any:
    if isinstance(array, Saved):
        return array.part(layout, rank)
    if isinstance(array, Shard):
        return array.data
    if layout is None or (isinstance(layout, Owned) and layout.parts is None):
        return array
    return part_of(array, layout, rank)


def part_of(array: Any, layout: Parts | Shares | Owned, rank: int) -> Any:
    """Returns a rank's part of a whole array, in the array's storage."""
    if isinstance(array, ScaledArray):
        return ScaledArray(layout.cut(np.asarray(array.data), rank), array.storage)
    return layout.cut(np.asarray(array), rank)


def wrap(executable: Executable, mesh: Mesh, results: Sequence[Any], count: int) -> list[Any]:
    """Returns all results of the step: a stage's own as Shards, which are empty on other stages.

    Args:
        executable: of the stage.
        mesh: the ranks of all stages.
        results: those that this stage's executable returned.
        count: the number of results that the whole step returns to its caller.
    """
    pipeline = executable.manifest["pipeline"]
    of_results = layouts(executable.manifest, "result")[:count]
    found = dict(zip(pipeline["results"], results, strict=False))

    def nothing(index: int) -> Any:
        data = np.empty(0, to_numpy(pipeline["result_types"][index]["dtype"]))
        storage = executable.stored.of_result(index)
        return data if storage is None else ScaledArray(data, storage)

    def wrapped(index: int, layout: Any) -> Any:
        if isinstance(layout, Owned):
            return Shard(found[index] if index in found else nothing(index), layout, mesh)
        return found[index] if layout is None else Shard(found[index], layout, mesh)

    return [wrapped(index, layout) for index, layout in enumerate(of_results)]
