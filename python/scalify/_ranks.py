"""Steps on a mesh: partitioned, compiled once, and run on each rank's shards."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax

from scalify import _stages
from scalify._build import decide_formats
from scalify._executable import Executable, build, compile_text, explain
from scalify._saved import Saved
from scalify._within import Reduce, choose_reduce
from scalify.mesh import Mesh, Parts, Shard, Shares, layout_of
from scalify.options import Distribution

__all__ = ["abstract_mesh", "compile_on", "cut", "decide_on", "wrap"]


def abstract_mesh(
    mesh: Mesh | None, pipeline: _stages.Pipeline | None
) -> jax.sharding.AbstractMesh | None:
    """Returns JAX's mesh with the axes that shardings may name; None if there are none."""
    inner = mesh if mesh is None or pipeline is None else pipeline.inner(mesh)
    return inner.abstract if inner is not None and inner.axes else None


def _of_rank(
    distribution: Distribution, text: str, options: dict[str, Any], said: list[dict[str, Any]]
) -> tuple[Callable[[], str], dict[str, Any]]:
    """Returns a function that makes the program of one rank, and the options to compile it.

    Args:
        distribution: the ranks.
        text: of the step, with shardings.
        options: of the compiler.
        said: gets the diagnostics of partitioning.
    """
    mesh, zero, pipeline = distribution.mesh, distribution.zero, distribution.pipeline
    assert mesh is not None, "a step without a mesh has no ranks"
    inner = mesh if pipeline is None else pipeline.inner(mesh)
    of_rank = options
    if mesh.comm is None and inner.size > 1:
        # The limit is per rank, and this process holds the memory of all ranks.
        options = {**options, "simulateRanks": inner.size, "memoryLimit": None}

    # `partition` adds the conventions of names itself.
    roles = {pattern: role for pattern, role, *over in options.get("roles", ()) if not over}

    def program(how: Reduce) -> str:
        from scalify.partition import partition  # on demand, as in the package's __getattr__

        done = partition(text, zero=zero, reduce=how, roles=roles)
        if done.devices != inner.size:
            raise ValueError(
                f"the step's own mesh {done.mesh} has {done.devices} devices, and the mesh "
                f"{inner.axes} {inner.size} ranks"
            )
        said[:] = done.diagnostics
        return done.text

    def local() -> str:
        if inner.size == 1:
            return text
        is_free = distribution.reduce is None and zero > 0 and pipeline is None
        chosen = choose_reduce(program, of_rank) if is_free else distribution.reduce
        return program(chosen or "last")

    return local, options


def decide_on(
    distribution: Distribution, text: str, options: dict[str, Any], corrections: Sequence[int]
) -> list[list[str]]:
    """Returns `decide_formats` of a step with shardings, as `compile_on` would compile it.

    The first rank does it for all.
    """
    mesh = distribution.mesh
    assert mesh is not None, "a step without a mesh has no ranks"

    def found() -> bytes:
        local, own = _of_rank(distribution, text, options, [])
        return json.dumps(decide_formats(local(), own, corrections)).encode()

    return cast(list[list[str]], json.loads(mesh.on_first_rank(found)))


def compile_on(
    distribution: Distribution,
    text: str,
    options: dict[str, Any],
    threads: int,
    device: str | None,
    quiet: bool = False,
) -> Executable:
    """Compiles a step with shardings for the ranks of a mesh; the first rank does it for all.

    A process that runs alone gets a step that simulates all ranks; without a mesh it is a step of
    one process. With `quiet`, no warning is issued.

    Raises:
        CompileError: on every rank, if it was raised on the first.
    """
    mesh, pipeline = distribution.mesh, distribution.pipeline
    if mesh is None:
        return compile_text(text, options, threads, device, quiet)
    comm = mesh.comm  # raises if another number of ranks was launched
    inner = mesh if pipeline is None else pipeline.inner(mesh)
    said: list[dict[str, Any]] = []
    local, options = _of_rank(distribution, text, options, said)

    def full() -> dict[str, Any]:
        return explain(local(), options)()

    if pipeline is not None and comm is not None and mesh.size > inner.size:
        artefact, found = _stages.compile_stages(pipeline, mesh, local, options)
        said.extend(found)
    else:

        def make() -> bytes:
            made, found = build(local(), options, quiet)
            said.extend(found)
            return made

        artefact = mesh.on_first_rank(make)
    return Executable(artefact, threads, said, full, device, comm)


def cut(executable: Executable, mesh: Mesh, arrays: Sequence[Any]) -> list[Any]:
    """Returns this rank's shards of the arguments, which are whole arrays or already Shards.

    Raises:
        ValueError: a Shard has another layout than the step's argument.
        RuntimeError: this or another rank cannot read an array of a checkpoint.
    """
    if "pipeline" in executable.manifest:
        return _stages.cut(executable, mesh, arrays)
    layouts = [layout_of(entry) for entry in executable.manifest["args"]]

    def parts() -> list[Any]:
        return [_cut(array, one, mesh) for array, one in zip(arrays, layouts, strict=False)]

    if any(isinstance(array, Saved) for array in arrays):
        return mesh.together("a checkpoint was not read", parts)
    return parts()


def _cut(array: Any, layout: Parts | Shares | None, mesh: Mesh) -> Any:
    if isinstance(array, Saved):
        return array.part(layout, mesh.rank)
    if not isinstance(array, Shard):
        return array if layout is None else _stages.part_of(array, layout, mesh.rank)
    if array.layout != layout:
        if array.is_flat:
            raise ValueError(
                f"{array} is a share of state (ZeRO), and the step does not update that state: "
                "pass .gather() to it"
            )
        raise ValueError(
            f"{array} is sharded otherwise than the step takes it: give in_shardings like the "
            "out_shardings that it came from, or pass .gather()"
        )
    return array.data


def wrap(executable: Executable, mesh: Mesh, results: Sequence[Any], count: int) -> list[Any]:
    """Returns the caller's `count` results: sharded ones as Shards, replicated ones as they are."""
    if "pipeline" in executable.manifest:
        return _stages.wrap(executable, mesh, results, count)
    layouts = [layout_of(entry) for entry in executable.manifest["results"]]
    return [
        result if layout is None else Shard(result, layout, mesh)
        for result, layout in zip(results, layouts, strict=False)
    ]
