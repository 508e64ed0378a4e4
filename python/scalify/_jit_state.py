"""What a compiled step keeps between calls besides its caller's arrays, to resume from."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from scalify._diagnostics import warn
from scalify._executable import Executable
from scalify._kept import CAST_SCALES, STATE_AMAX, STATE_SCALES
from scalify._lowering import Arguments, abstract
from scalify.calibration import WideCast, WidenTracker, names_of
from scalify.mesh import Mesh, Owned, Shard
from scalify.scales import Scales

__all__ = ["COUNTERS", "JitState", "carry_over", "describe_arguments"]

# What casts of the last step counted; each rank has counted its own.
COUNTERS = "counters"
# Between the name of a cast and what it casts.
_AT = " to "


def describe_arguments(arguments: Arguments) -> list[Any]:
    """Returns what a compilation depends on, as JSON has it: names, shapes, dtypes, statics."""
    tree = jax.tree.unflatten(arguments.tree, arguments.leaves)
    types = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        shape, dtype, _ = abstract(leaf)
        types.append([jax.tree_util.keystr(path), list(shape), str(dtype)])
    # Where a value prints its address, another process has another one.
    statics = [[name, re.sub(r" at 0x\w+", "", repr(value))] for name, value in arguments.statics]
    return [types, statics]


@dataclasses.dataclass(frozen=True)
class JitState:
    """State of a step for arguments of one structure.

    Attributes:
        arguments: which ones, by `describe_arguments`.
        recipe: by which it was compiled.
        scales: that were measured; None where they were given, or the recipe needs none.
        wide: the casts that were left wide.
        widened: those that its next compilation leaves wide.
        unhealthy: how often in a row a health policy has found each cast unhealthy.
        steps: how many it has run, by which health policies are due.
        labels: of each array that it keeps, what its rows stand for.
        arrays: what it keeps, by name, and the counters of its last step. Of a pipeline without
            these, and what one stage keeps is a Shard.
        adapts: whether the next compilation has scales that move.
    """

    arguments: list[Any]
    recipe: str
    scales: Scales | None
    wide: tuple[WideCast, ...]
    widened: tuple[WideCast, ...]
    unhealthy: dict[str, int]
    steps: int
    labels: dict[str, list[str]]
    arrays: dict[str, Any]
    adapts: bool = False

    @staticmethod
    def of_executable(
        executable: Executable,
        arguments: list[Any],
        recipe: str,
        scales: Any,
        wide: Sequence[WideCast],
        tracker: WidenTracker | None,
        steps: int,
        mesh: Mesh | None = None,
        adapts: bool = False,
    ) -> JitState:
        """Returns the state of a step that has run; of a pipeline all ranks have to ask."""
        labels, arrays = _kept(executable, mesh)
        return JitState(
            arguments,
            recipe,
            scales if isinstance(scales, Scales) else None,
            tuple(wide),
            () if tracker is None else tuple(tracker.widened),
            {} if tracker is None else dict(tracker.unhealthy),
            steps,
            labels,
            arrays,
            adapts,
        )

    def describe(self) -> dict[str, Any]:
        """Returns all but the arrays, as JSON has it."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del fields["arrays"]
        fields["scales"] = None if self.scales is None else dataclasses.asdict(self.scales)
        for key in ("wide", "widened"):
            fields[key] = [dataclasses.asdict(cast) for cast in fields[key]]
        return fields

    @staticmethod
    def of(content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any] | None]) -> JitState:
        """Returns what `describe` has told of, with its arrays; None for one that is left out."""
        scales = content["scales"]
        casts = {
            key: tuple(WideCast(**cast) for cast in content[key]) for key in ("wide", "widened")
        }
        # Checkpoints of 0.1 say "sick".
        renamed = {{"sick": "unhealthy"}.get(key, key): value for key, value in content.items()}
        fields = {
            **renamed,
            **casts,
            "scales": None if scales is None else Scales.of(scales),
            "arrays": {name: array for name, array in arrays.items() if array is not None},
        }
        return JitState(**fields)

    def apply(self, executable: Executable, name: str) -> None:
        """Gives a step that was compiled anew what the saved one kept.

        What another mesh or recipe keeps in other rows goes by what the rows stand for. Warns of
        what does not go over.

        Args:
            executable: the step.
            name: of the function, for warnings.
        """
        labels, own = _labels(executable), executable.kept
        saved = dict(self.arrays)
        saved.pop(COUNTERS, None)
        self.show_counters(executable)
        # What a stage of a pipeline does not keep is another one's.
        others = set() if "pipeline" in executable.manifest else saved.keys()
        for key in own.keys() | others:
            if key == CAST_SCALES and self.adapts and key not in saved:
                continue  # they start to move here
            if key not in own or key not in saved:
                what = (
                    f"drops '{key}' of the checkpoint"
                    if key in saved
                    else f"starts '{key}' anew, which the checkpoint has not"
                )
                warn(f"'{name}' {what}: it was saved by recipe '{self.recipe}' on its own mesh")
                continue
            array = saved[key]
            missing: list[str] = []
            if labels.get(key) != self.labels.get(key) or array.shape != own[key].shape:
                array, missing = _by_rows(own[key], labels.get(key), array, self.labels.get(key))
            if missing:
                warn(
                    f"'{name}' starts {len(missing)} rows of '{key}' anew, which the checkpoint "
                    f"has not, as '{missing[0]}': it is compiled for another mesh, or is another "
                    "program"
                )
            executable.kept = {key: array}

    def show_counters(self, executable: Executable) -> None:
        """Lets a step that has as many casts show what this one's counted last, by their names.

        Two compilations may number the casts differently. Where names are not saved (0.1), rows go
        by their numbers.
        """
        saved, own = self.arrays.get(COUNTERS), executable.counters
        if saved is None or saved.shape != own.shape:
            return
        theirs = self.labels.get(COUNTERS)
        names = theirs and _labels(executable)[COUNTERS]
        executable.counters = _by_rows(own, names, saved, theirs)[0] if names else saved


def carry_over(before: Executable, after: Executable) -> tuple[int, int]:
    """Lets a step go on with what another one of the same program keeps, by what rows stand for.

    Returns:
        How many rows the later one keeps of arrays that both have, and how many of them the first
        has not.
    """
    own, saved = after.kept, before.kept
    if not own.keys() & saved.keys():
        return 0, 0
    names, theirs = _labels(after), _labels(before)
    rows, anew = 0, 0
    for key in own.keys() & saved.keys():
        array, missing = saved[key], list[str]()
        if names.get(key) != theirs.get(key) or array.shape != own[key].shape:
            array, missing = _by_rows(own[key], names.get(key), array, theirs.get(key))
        rows, anew = rows + len(names.get(key, [""])), anew + len(missing)
        after.kept = {key: array}
    return rows, anew


def _kept(executable: Executable, mesh: Mesh | None) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Returns what rows of kept arrays stand for, and the arrays: those of all stages."""
    labels, arrays = _labels(executable), executable.kept
    pipeline = executable.manifest.get("pipeline")
    if pipeline is None or mesh is None:
        return labels, {**arrays, COUNTERS: executable.counters}
    types = {name: [list(array.shape), array.dtype.name] for name, array in arrays.items()}
    said = mesh.gather_bytes(json.dumps([labels, types]).encode())
    # The ranks of a stage keep the same.
    stages = [json.loads(text) for text in said[:: pipeline["ranks"]]]
    every: dict[str, Any] = {}
    for stage, (_, theirs) in enumerate(stages):
        for name, (shape, dtype) in theirs.items():
            layout = Owned(tuple(shape), stage, pipeline["ranks"])
            mine = arrays[name] if mesh.rank in layout.owners else np.empty(0, dtype)
            every.setdefault(name, Shard(mine, layout, mesh))
    return {name: rows for named, _ in stages for name, rows in named.items()}, every


def _labels(executable: Executable) -> dict[str, list[str]]:
    """Returns what rows stand for of arrays that a step keeps, alike for any mesh.

    Numbers of casts and lines of files count for nothing: of casts of one name and place the first
    is the first.
    """
    casts = {row["cast"]: row for row in executable.manifest.get("report", []) if "cast" in row}
    rows = {COUNTERS: [row["cast"] for row in executable.health()]}
    rows |= {arg["name"]: arg["casts"] for arg in executable.manifest["args"] if "casts" in arg}
    labels: dict[str, list[str]] = {}
    for array, numbered in rows.items():
        names = [_label(casts.get(cast, {}), cast) for cast in numbered]
        labels[array] = [f"{name} #{names[:row].count(name)}" for row, name in enumerate(names)]
    # All stages of a pipeline have the scales of all.
    pipeline = executable.manifest.get("pipeline")
    args = executable.manifest["args"] if pipeline is None else pipeline["arg_types"]
    storages = zip(executable.stored.arguments, args, strict=False)
    stored = {
        one.scale_index: arg["name"]
        for one, arg in storages
        if one is not None and one.scale_index is not None
    }
    if stored:
        labels[STATE_SCALES] = labels[STATE_AMAX] = [stored[row] for row in sorted(stored)]
    return labels


def _label(row: Mapping[str, Any], cast: str) -> str:
    _, _, name = cast.partition(": ")
    return f"{name or cast}{_AT}{row.get('format', '')} {names_of(row.get('loc', ''))}"


def _place(label: str) -> str:
    """Returns format and JAX's names of a label; nothing where there are none."""
    _, _, place = label.partition(_AT)
    place, _, _ = place.rpartition(" #")
    return place if place.partition(" ")[2] else ""


def _by_rows(
    own: NDArray[Any], names: list[str] | None, saved: NDArray[Any], theirs: list[str] | None
) -> tuple[NDArray[Any], list[str]]:
    """Returns `own` with the rows that were saved for the same, and names of those without one.

    Rows of equal names go together. Of those that are left so do casts at one place of the user's
    program to one format, where both sides have as many: a parameter is cast as it is, or gathered
    first.
    """
    if names is None or theirs is None or own.shape[1:] != saved.shape[1:]:
        return own, ["row 0"]
    source = {name: row for row, name in enumerate(theirs)}
    rest = [name for name in names if name not in source]
    others = [name for name in theirs if name not in names]
    for place in {_place(name) for name in rest} - {""}:
        mine, their = ([name for name in side if _place(name) == place] for side in (rest, others))
        if len(mine) == len(their):
            source |= {name: source[other] for name, other in zip(mine, their, strict=True)}
    array = own.copy()
    for row, name in enumerate(names):
        if name in source:
            array[row] = saved[source[name]]
    return array, [name for name in rest if name not in source]
