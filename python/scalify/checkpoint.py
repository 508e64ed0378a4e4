"""Checkpoints: a training run's state in files, from which it resumes bit for bit.

    if checkpoint.latest("run", jit=step):
        start, (params, opt) = checkpoint.load("run", (params, opt), jit=step)
    ...
    checkpoint.save("run", (params, opt), index + 1, jit=step, keep=3)

Each rank writes its shards and reads only those that it needs. The number of ranks that load may
differ from the number that saved.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from scalify import _folders
from scalify._dtypes import from_numpy
from scalify._jit import Jit
from scalify._jit_state import COUNTERS, JitState
from scalify._lowering import key_impl, to_logical, to_physical
from scalify._pieces import Layout, writers
from scalify._saved import Reader, Saved, describe_layout
from scalify._scaled_array import ScaledArray
from scalify._tensor_file import DamagedError, is_storable, write
from scalify._views import host_view
from scalify.mesh import Mesh, Owned, Parts, Shard

__all__ = ["DamagedError", "Loaded", "Saved", "latest", "load", "save"]

# Replicated arrays of at most this many bytes are compared between ranks when they are saved, and
# read immediately when they are loaded.
SMALL = 1 << 16
_JIT = "jit:"
_NOT_PRUNED = "step {} was saved, and older ones were not removed"


class Loaded(NamedTuple):
    """The result of `load`.

    Attributes:
        step: the saved step number.
        tree: `like` with the saved leaves; without `like` a dictionary by name.
    """

    step: int
    tree: Any


@dataclasses.dataclass(frozen=True)
class _Leaf:
    """A leaf's data in the file, and its entry in the manifest."""

    entry: dict[str, Any]
    data: Any
    layout: Layout

    @staticmethod
    def of(name: str, leaf: Any) -> _Leaf:
        entry: dict[str, Any] = {"name": name, "stored": None}
        if isinstance(leaf, (bool, int, float)) and not isinstance(leaf, np.generic):
            entry["scalar"] = type(leaf).__name__
        layout = leaf.layout if isinstance(leaf, Shard) else None
        data = leaf.data if isinstance(leaf, Shard) else leaf
        if isinstance(data, Saved):
            data = data.part(None, 0)
        if isinstance(data, ScaledArray):
            storage = dataclasses.replace(data.storage, scale_index=None)
            entry["stored"] = dataclasses.asdict(storage)
            data = data.data
        if (impl := key_impl(data)) is not None:
            entry["key"] = impl
            data = to_physical(data)
        try:
            data = np.asarray(host_view(data))
        except ValueError as error:
            raise ValueError(f"leaf '{name}' cannot be saved: {error}") from None
        except RuntimeError as error:
            raise ValueError(
                f"leaf '{name}' cannot be saved: {error} It was donated to a step: save its result"
            ) from None
        if not is_storable(data.dtype):
            raise ValueError(
                f"leaf '{name}' of type {type(leaf).__name__} is {data.dtype}, which no checkpoint "
                "holds: save an array of numbers in its place"
            )
        entry["shape"] = list(data.shape if layout is None else layout.shape)
        entry["dtype"] = from_numpy(data.dtype)
        entry["layout"] = describe_layout(layout)
        return _Leaf(entry, data, layout)

    def digest(self) -> bytes:
        """Returns a digest that is equal on all ranks that save an equal leaf."""
        said = hashlib.sha256(json.dumps(self.entry).encode())
        if self.layout is None and self.data.nbytes <= SMALL:
            said.update(np.asarray(self.data, order="C").tobytes())
        return said.digest()[:16]


def _leaves(tree: Any, state: JitState | None, mesh: Mesh) -> list[_Leaf]:
    """Returns the leaves of a tree, followed by the arrays that a step keeps.

    Raises:
        ValueError: a leaf is not an array, or was donated.
    """
    paths = jax.tree_util.tree_leaves_with_path(tree)
    arrays = {} if state is None else state.arrays
    named = [(jax.tree_util.keystr(path) or "value", leaf) for path, leaf in paths]
    named += [(_JIT + name, _own(name, array, mesh)) for name, array in arrays.items()]
    return [_Leaf.of(name, leaf) for name, leaf in named]


def _own(name: str, array: NDArray[Any], mesh: Mesh) -> Any:
    """Returns an array that a step keeps; counters, which differ between ranks, as a Shard."""
    ranks = _ranks(mesh)
    if name != COUNTERS or ranks == 1:
        return array
    digits = (((1, ranks),), *((),) * (array.ndim - 1))
    return Shard(array, Parts((ranks * array.shape[0], *array.shape[1:]), digits), mesh)


def _kept(saved: Saved, mesh: Mesh, ranks: int) -> NDArray[Any] | None:
    """Inverts `_own`; None for counters that another number of ranks saved."""
    if saved.layout is None or isinstance(saved.layout, Owned):
        return np.asarray(saved)
    return np.asarray(saved.part(saved.layout, mesh.rank)) if ranks == _ranks(mesh) else None


def _mesh_of(mesh: Mesh | None, jit: Jit | None, tree: Any) -> Mesh:
    """Returns the given mesh, or that of the step or of a Shard; else a mesh of one rank."""
    if mesh is not None:
        return mesh
    if jit is not None and jit.mesh is not None:
        return jit.mesh
    shards = (leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, Shard))
    return next((shard.mesh for shard in shards), None) or Mesh({"data": 1})


def _compare(mesh: Mesh, leaves: Sequence[_Leaf]) -> None:
    """Checks that all ranks save the same tree.

    Raises:
        ValueError: trees differ; names the first leaf that does.
    """
    digests = [leaf.digest() for leaf in leaves]
    for rank, other in enumerate(mesh.gather_bytes(b"".join(digests))):
        theirs = [other[at : at + 16] for at in range(0, len(other), 16)]
        if len(theirs) != len(digests):
            raise ValueError(f"ranks save trees of {len(digests)} and {len(theirs)} leaves")
        for leaf, mine, their in zip(leaves, digests, theirs, strict=True):
            if mine != their:
                raise ValueError(
                    f"leaf '{leaf.entry['name']}' is not the same on rank {mesh.rank} and rank "
                    f"{rank}: save values that differ between ranks as a scalify.Shard"
                )


def save(
    folder: str | os.PathLike[str],
    tree: Any,
    step: int,
    *,
    jit: Jit | None = None,
    mesh: Mesh | None = None,
    keep: int | None = None,
) -> pathlib.Path:
    """Writes a checkpoint; when this returns, it is on the disk and has its name.

    If the process is killed before, earlier checkpoints stay intact. On several ranks the call is
    collective, and all ranks must see the folder on a shared file system. Each rank writes its own
    shards, and one rank writes each replicated array. Replicated arrays must be equal on all ranks,
    which is checked for those of up to 64 KiB.

    Args:
        folder: of the run; it contains a folder for each checkpoint.
        tree: a pytree of arrays, `scalify.Shard`s, `scalify.ScaledArray`s, random keys, numbers.
        step: the number of steps done; a later checkpoint has a larger one.
        jit: the step that computed the tree, whose kept state (scales, histories of amaxes,
            factors, counters) is saved too.
        mesh: whose ranks save; by default that of `jit` or of a Shard.
        keep: the number of checkpoints to keep: this one, then the newest intact ones of earlier
            steps; None for all. Those of later steps stay, with a warning.

    Returns:
        The checkpoint's own folder.

    Raises:
        ValueError: a leaf is not an array, was donated, or is not the same on all ranks.
        OSError: the files cannot be written, or older ones not removed; the text says which.
        RuntimeError: another rank failed; names the rank and its error.
    """
    if step < 0 or (keep is not None and keep < 1):
        raise ValueError(f"step {step}, keep {keep}: expected 0 or more, and 1 or more")
    base = pathlib.Path(folder)
    mesh = _mesh_of(mesh, jit, tree)
    what = f"step {step} was not saved"
    state = None if jit is None else jit.state()
    leaves = mesh.together(what, lambda: _leaves(tree, state, mesh))
    _compare(mesh, leaves)
    begun = mesh.together(
        what, lambda: _folders.Saving.begin(base, step) if mesh.rank == 0 else None
    )
    name = mesh.gather_bytes(b"" if begun is None else begun.folder.name.encode())[0].decode()
    file = mesh.together(what, lambda: _write(base / name, leaves, mesh))
    files = [json.loads(entry) for entry in mesh.gather_bytes(json.dumps(file).encode())]

    def finish() -> str:
        if begun is None:
            return ""
        content = {
            "step": step,
            "mesh": mesh.axes,
            "files": files,
            "leaves": [leaf.entry for leaf in leaves],
            # A step that has not run yet keeps no state.
            "jit": None if jit is None else state.describe() if state is not None else {},
        }
        return begun.finish(step, content).name

    named = mesh.together(what, finish)
    done = base / mesh.gather_bytes(named.encode())[0].decode()
    newest = mesh.together(_NOT_PRUNED.format(step), lambda: _prune_older(done, step, keep, mesh))
    if newest != done:
        warnings.warn(
            f"'{base}' has checkpoints of later steps, as '{newest.name}', which `load` prefers to "
            "the one saved now unless they are damaged: remove them, or save elsewhere",
            stacklevel=2,
        )
    return done


def _prune_older(done: pathlib.Path, step: int, keep: int | None, mesh: Mesh) -> pathlib.Path:
    """Removes older checkpoints on the first rank, by `keep`; returns the newest one."""
    if mesh.rank != 0:
        return done
    try:
        if keep is not None:
            _folders.prune(done, keep)
        return _folders.checkpoints(done.parent)[0]
    except OSError as error:
        raise OSError(f"{_NOT_PRUNED.format(step)}: {error}") from error


def _write(folder: pathlib.Path, leaves: Sequence[_Leaf], mesh: Mesh) -> tuple[int, int]:
    """Writes this rank's file."""
    ranks = _ranks(mesh)
    mine: dict[str, NDArray[Any]] = {
        leaf.entry["name"]: leaf.data
        for index, leaf in enumerate(leaves)
        if mesh.rank in writers(leaf.layout, ranks, index)
    }
    return write(folder / _folders.file_name(mesh.rank, ranks), mine)


def _ranks(mesh: Mesh) -> int:
    """Returns the number of processes that save or load."""
    return 1 if mesh.comm is None else mesh.size


def latest(
    folder: str | os.PathLike[str], *, jit: Jit | None = None, mesh: Mesh | None = None
) -> pathlib.Path | None:
    """Returns the newest intact checkpoint of a run, or None.

    Skips damaged ones with a warning: files that are missing or have another size, and headers or a
    manifest that are not as written. `load` checks all bytes.

    Args:
        folder: of the run.
        jit: the step that will resume; its mesh is used.
        mesh: the call is collective over its ranks, and all get the first rank's result. Without
            `jit` and `mesh` each process checks by itself, and results may differ.

    Raises:
        OSError: files cannot be read.
        RuntimeError: the first rank failed.
    """
    base = pathlib.Path(folder)
    if jit is not None or mesh is not None:
        mesh = _mesh_of(mesh, jit, None)
        return _newest_of_first(base, mesh)
    newest, damaged = _newest(base)
    for candidate, problem in damaged:
        _warn_of_damage(candidate, problem)
    return newest


def _newest_of_first(base: pathlib.Path, mesh: Mesh) -> pathlib.Path | None:
    """Returns on all ranks the checkpoint that the first one finds."""
    newest, damaged = mesh.together(
        f"nothing was found in '{base}'", lambda: _newest(base) if mesh.rank == 0 else (None, [])
    )
    for candidate, problem in damaged:
        _warn_of_damage(candidate, problem, stacklevel=4)
    said = mesh.gather_bytes(b"" if newest is None else newest.name.encode())[0].decode()
    return base / said if said else None


def _newest(base: pathlib.Path) -> tuple[pathlib.Path | None, list[tuple[pathlib.Path, str]]]:
    """Returns the newest intact checkpoint, and the newer damaged ones with their damage."""
    damaged = []
    for candidate in _folders.checkpoints(base):
        try:
            _folders.check(candidate)
        except DamagedError as error:
            damaged.append((candidate, str(error)))
        else:
            return candidate, damaged
    return None, damaged


def _warn_of_damage(folder: pathlib.Path, problem: str, stacklevel: int = 3) -> None:
    warnings.warn(
        f"checkpoint '{folder}' is damaged and skipped: {problem}",
        UserWarning,
        stacklevel=stacklevel,
    )


def load(
    folder: str | os.PathLike[str],
    like: Any = None,
    *,
    step: int | None = None,
    jit: Jit | None = None,
    mesh: Mesh | None = None,
    partial: bool = False,
) -> Loaded:
    """Reads a checkpoint, on any number of ranks.

    Skips a damaged checkpoint with a warning and tries the one before it.

    Args:
        folder: of the run, or of one of its checkpoints.
        like: a tree like the saved one, of arrays with the same shapes and dtypes, or of
            `jax.ShapeDtypeStruct`s. Their shapes may have None for extents that grow with the run,
            such as the losses so far. Without `like` the arrays are returned by name.
        step: of the checkpoint, which is an error if damaged; by default the newest intact one.
        jit: the step that resumes: its next call compiles it as before, with its saved state.
            Without saved state in the checkpoint it starts anew, with a warning.
        mesh: whose ranks load; by default that of `jit` or of a Shard in `like`.
        partial: allow `like` to leave out saved leaves.

    Returns:
        The step, and the tree. If `like` has a Shard, the leaf is this rank's shard by its layout.
        On several ranks a large array that is not a Shard in `like` is a `Saved`: a step reads its
        rank's shard at its first call, and the files must exist until then. Other leaves are numpy
        arrays, or `scalify.ScaledArray`s if these were saved.

    Raises:
        FileNotFoundError: there is no checkpoint.
        OSError: files cannot be read.
        ValueError: names, shapes or dtypes are not those of `like`, or `folder` is a checkpoint of
            another step.
        DamagedError: the requested checkpoint, or every one, is damaged.
        RuntimeError: another rank failed; names the rank and its error.
    """
    mesh = _mesh_of(mesh, jit, like)
    reader = _open(pathlib.Path(folder), step, mesh)
    what = f"'{reader.folder}' was not loaded"

    def read() -> Any:
        saved = {leaf.name: leaf for leaf in reader.leaves()}
        kept = {name: saved.pop(name) for name in list(saved) if name.startswith(_JIT)}
        described = reader.manifest["jit"]
        state = None
        if jit is not None and described:
            arrays = {
                name.removeprefix(_JIT): _kept(leaf, mesh, reader.ranks)
                for name, leaf in kept.items()
            }
            state = JitState.of(described, arrays)
        if like is None:
            return {name: _value(leaf, None, mesh) for name, leaf in saved.items()}, state
        return _fill(like, saved, mesh, partial, reader.folder), state

    tree, state = mesh.together(what, read)
    if jit is not None:
        if reader.manifest["jit"] is None:
            name = getattr(jit, "__name__", "the step")
            warnings.warn(
                f"checkpoint '{reader.folder}' has no state of a step, so '{name}' starts anew: "
                "histories, scales and counters as before its first call; give jit= to save, too",
                stacklevel=2,
            )
        jit.restore(state)
    return Loaded(int(reader.manifest["step"]), tree)


def _open(base: pathlib.Path, step: int | None, mesh: Mesh) -> Reader:
    """Returns the newest intact checkpoint, the same on all ranks, with all bytes checked."""

    def names() -> str:
        if mesh.rank != 0:
            return ""
        found = _folders.candidates(base, step)
        if not found:
            which = "no checkpoint" if step is None else f"no checkpoint of step {step}"
            raise FileNotFoundError(f"there is {which} in '{base}'")
        return json.dumps([str(one) for one in found])

    said = mesh.together(f"nothing was loaded from '{base}'", names)
    found = [pathlib.Path(one) for one in json.loads(mesh.gather_bytes(said.encode())[0])]
    problems = []
    for folder in found:
        look = functools.partial(_check_files, folder, mesh)
        reader, problem = mesh.together(f"'{folder}' was not loaded", look)
        problems = [text.decode() for text in mesh.gather_bytes(problem.encode()) if text]
        if reader is not None and not problems:
            return reader
        if folder != found[-1]:
            _warn_of_damage(folder, problems[0], stacklevel=4)
    raise DamagedError(f"checkpoint '{found[-1]}' is damaged: {problems[0]}")


def _check_files(folder: pathlib.Path, mesh: Mesh) -> tuple[Reader | None, str]:
    """Checks all bytes of a checkpoint, each rank some files; returns its reader and any damage.

    Raises:
        OSError: the files cannot be read, which does not imply damage.
    """
    try:
        reader = Reader(folder, _folders.read_manifest(folder))
        for index in range(mesh.rank, reader.ranks, _ranks(mesh)):
            reader.file(index).check_all()
    except DamagedError as error:
        return None, str(error)
    return reader, ""


def _value(saved: Saved, like: Any, mesh: Mesh) -> Any:
    """Returns a leaf of the result of `load`."""
    if isinstance(like, Shard):
        return Shard(saved.part(like.layout, mesh.rank), like.layout, mesh)
    # A step recognises random keys by their dtype, which a Saved does not have.
    if _ranks(mesh) > 1 and saved.nbytes > SMALL and "key" not in saved.entry:
        return saved
    array = saved.part(None, 0)
    if "scalar" in saved.entry:
        return array.item()
    return to_logical(array, saved.entry.get("key"))


def _fill(
    like: Any, saved: dict[str, Saved], mesh: Mesh, partial: bool, folder: pathlib.Path
) -> Any:
    """Returns a tree with the saved leaves.

    Raises:
        ValueError: names, shapes or dtypes of the leaves are not those of `like`.
    """
    paths, tree = jax.tree_util.tree_flatten_with_path(like)
    leaves = []
    for path, leaf in paths:
        name = jax.tree_util.keystr(path) or "value"
        if name not in saved:
            known = ", ".join(f"'{one}'" for one in list(saved)[:8])
            raise ValueError(
                f"'{folder}' has no leaf '{name}': it has {known or 'none left'}; give as `like` "
                "the tree that was saved"
            )
        if not hasattr(leaf, "dtype") and not isinstance(leaf, (bool, int, float)):
            raise ValueError(
                f"leaf '{name}' of `like` is a {type(leaf).__name__}: give an array, a "
                "jax.ShapeDtypeStruct or a number as it was saved"
            )
        found = saved.pop(name)
        if (wanted := _type(leaf)) != (has := _type(found)) and not _matches_open_shape(
            leaf, found
        ):
            raise ValueError(
                f"leaf '{name}' of '{folder}' is {has}, and {wanted} in `like`: load it with a "
                "tree of the shapes and dtypes that were saved, None for an extent that grows"
            )
        leaves.append(_value(found, leaf, mesh))
    if saved and not partial:
        raise ValueError(
            f"'{folder}' has {len(saved)} leaves that are not in `like`, as "
            f"'{next(iter(saved))}': give it the tree that was saved, or partial=True"
        )
    return jax.tree.unflatten(tree, leaves)


def _matches_open_shape(like: Any, saved: Saved) -> bool:
    """Whether `like` has extents of None, and otherwise the saved array's shape and dtype."""
    if not isinstance(like, jax.ShapeDtypeStruct) or None not in like.shape:
        return False
    is_array = not {"scalar", "key"} & saved.entry.keys() and saved.dtype == like.dtype
    return (
        is_array
        and len(like.shape) == len(saved.shape)
        and all(a in (None, b) for a, b in zip(like.shape, saved.shape, strict=True))
    )


def _type(leaf: Any) -> str:
    """Returns the shape and dtype of a leaf as text, for comparison and messages."""
    if isinstance(leaf, (bool, int, float)) and not isinstance(leaf, np.generic):
        return f"a Python {type(leaf).__name__}"
    if isinstance(leaf, Saved) and "scalar" in leaf.entry:
        return f"a Python {leaf.entry['scalar']}"
    impl = leaf.entry.get("key") if isinstance(leaf, Saved) else key_impl(leaf)
    if impl is not None:
        shape = leaf.shape[:-1] if isinstance(leaf, Saved) else leaf.shape
        return f"keys of {impl}{list(shape)}"
    return f"{np.dtype(leaf.dtype).name}{list(leaf.shape)}"
