"""State of a compiled step between calls beside its caller's arrays, for checkpoints."""

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

__all__ = ["COUNTERS", "JitState", "KeptRows", "carry_over", "describe_arguments"]

# Counters of the last step's casts, per rank.
COUNTERS = "counters"
# Separates the name of a cast from its format and place in a label.
_AT = " to "


def describe_arguments(arguments: Arguments) -> list[Any]:
    """Returns what a compilation depends on, for JSON: names, shapes, dtypes, statics."""
    types = []
    for path, leaf in zip(arguments.paths(), arguments.leaves, strict=True):
        shape, dtype, _ = abstract(leaf)
        types.append([jax.tree_util.keystr(path), list(shape), str(dtype)])
    # Addresses in a value's repr differ between processes.
    statics = [[name, re.sub(r" at 0x\w+", "", repr(value))] for name, value in arguments.statics]
    return [types, statics]


@dataclasses.dataclass(frozen=True)
class JitState:
    """State of a step for arguments of one structure.

    Attributes:
        arguments: their description by `describe_arguments`.
        recipe: of the compilation.
        scales: the measured scales; None where they were given, or the recipe needs none.
        wide: the casts that were left wide.
        widened: the casts that the next compilation leaves wide.
        unhealthy: how often in a row a health policy has found each cast unhealthy.
        steps: the number of steps run, from which health policies know when a check is due.
        labels: for each kept array, the label of each row.
        arrays: the kept arrays by name, and the counters of the last step. For a pipeline there are
            no counters, and the array of one stage is a Shard.
        adapts: whether the next compilation has scales that move.
        renewed: whether the next compilation has other formats than the one of these arrays.
        correction: log2 of that of the model for sensitive dots, from measured gradients.
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
    renewed: bool = False
    correction: int = 0

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
        renewed: bool = False,
        correction: int = 0,
    ) -> JitState:
        """Returns the state of a step that has run; collective over the ranks of a pipeline."""
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
            renewed,
            correction,
        )

    def describe(self) -> dict[str, Any]:
        """Returns all fields but the arrays, for JSON."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del fields["arrays"]
        fields["scales"] = None if self.scales is None else dataclasses.asdict(self.scales)
        for key in ("wide", "widened"):
            fields[key] = [dataclasses.asdict(cast) for cast in fields[key]]
        return fields

    @staticmethod
    def of(content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any] | None]) -> JitState:
        """Returns the state from the result of `describe` and its arrays; None omits an array."""
        scales = content["scales"]
        casts = {
            key: tuple(WideCast(**cast) for cast in content[key]) for key in ("wide", "widened")
        }
        # Checkpoints of version 0.1 call the field "sick".
        renamed = {{"sick": "unhealthy"}.get(key, key): value for key, value in content.items()}
        fields = {
            **renamed,
            **casts,
            "scales": None if scales is None else Scales.of(scales),
            "arrays": {name: array for name, array in arrays.items() if array is not None},
        }
        return JitState(**fields)

    def apply(self, executable: Executable, name: str) -> None:
        """Restores the saved state in a newly compiled step.

        Rows are matched by their labels where another mesh or recipe orders them otherwise. Warns
        of state that cannot be restored.

        Args:
            executable: the step.
            name: of the function, for warnings.
        """
        labels, own = _labels(executable), executable.kept
        saved = dict(self.arrays)
        saved.pop(COUNTERS, None)
        self.show_counters(executable)
        # Saved arrays that a stage of a pipeline does not keep are another stage's.
        others = set() if "pipeline" in executable.manifest else saved.keys()
        for key in own.keys() | others:
            if key == CAST_SCALES and self.adapts and key not in saved:
                continue  # they start to move here
            if (key not in own or key not in saved) and self.renewed:
                continue  # other formats have no such casts
            if key not in own or key not in saved:
                what = (
                    f"drops '{key}' of the checkpoint"
                    if key in saved
                    else f"starts '{key}' anew, which is not in the checkpoint"
                )
                warn(f"'{name}' {what}: it was saved by recipe '{self.recipe}' on its own mesh")
                continue
            array = saved[key]
            missing: list[str] = []
            if labels.get(key) != self.labels.get(key) or array.shape != own[key].shape:
                array, missing = _match_rows(own[key], labels.get(key), array, self.labels.get(key))
            if missing and not self.renewed:
                warn(
                    f"'{name}' starts {len(missing)} rows of '{key}' anew, which are not in the "
                    f"checkpoint, as '{missing[0]}': it is compiled for another mesh, or is "
                    "another program"
                )
            executable.kept = {key: array}

    def carry_to(self, executable: Executable) -> None:
        """Sets kept state of the same program, compiled with other formats of its casts."""
        _carry_over(self.labels, self.arrays, executable)

    def show_counters(self, executable: Executable) -> None:
        """Sets the counters of a step with as many casts to the saved ones, matched by name.

        Two compilations may number the casts differently. Checkpoints of version 0.1 have no names:
        rows are then matched by number.
        """
        saved, own = self.arrays.get(COUNTERS), executable.counters
        if saved is None or saved.shape != own.shape:
            return
        theirs = self.labels.get(COUNTERS)
        names = theirs and _labels(executable)[COUNTERS]
        executable.counters = _match_rows(own, names, saved, theirs)[0] if names else saved


@dataclasses.dataclass(frozen=True)
class KeptRows:
    """Kept state of an executable that is dropped.

    Attributes:
        labels: for each array, the label of each row.
        arrays: by name.
    """

    labels: dict[str, list[str]]
    arrays: dict[str, NDArray[Any]]

    @staticmethod
    def of(executable: Executable) -> KeptRows:
        """Returns the state of a step that has run."""
        return KeptRows(_labels(executable), executable.kept)

    def carry_to(self, executable: Executable) -> tuple[int, int]:
        """Copies it to another executable of the same program; returns what `carry_over` does."""
        return _carry_over(self.labels, self.arrays, executable)


def carry_over(before: Executable, after: Executable) -> tuple[int, int]:
    """Copies kept state between two executables of the same program, rows matched by label.

    Returns:
        The number of rows that `after` has in arrays that both keep, and the number of these rows
        that `before` does not have.
    """
    return KeptRows.of(before).carry_to(after)


def _carry_over(
    theirs: Mapping[str, list[str]], saved: Mapping[str, NDArray[Any]], after: Executable
) -> tuple[int, int]:
    """Does the same from labels and arrays."""
    own = after.kept
    if not own.keys() & saved.keys():
        return 0, 0
    names = _labels(after)
    rows, anew = 0, 0
    for key in own.keys() & saved.keys():
        array, missing = saved[key], list[str]()
        if names.get(key) != theirs.get(key) or array.shape != own[key].shape:
            array, missing = _match_rows(own[key], names.get(key), array, theirs.get(key))
        rows, anew = rows + len(names.get(key, [""])), anew + len(missing)
        after.kept = {key: array}
    return rows, anew


def _kept(executable: Executable, mesh: Mesh | None) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Returns the row labels of kept arrays, and the arrays, for all stages of a pipeline."""
    labels, arrays = _labels(executable), executable.kept
    pipeline = executable.manifest.get("pipeline")
    if pipeline is None or mesh is None:
        return labels, {**arrays, COUNTERS: executable.counters}
    types = {name: [list(array.shape), array.dtype.name] for name, array in arrays.items()}
    said = mesh.gather_bytes(json.dumps([labels, types]).encode())
    # All ranks of a stage keep the same state.
    stages = [json.loads(text) for text in said[:: pipeline["ranks"]]]
    every: dict[str, Any] = {}
    for stage, (_, theirs) in enumerate(stages):
        for name, (shape, dtype) in theirs.items():
            layout = Owned(tuple(shape), stage, pipeline["ranks"])
            mine = arrays[name] if mesh.rank in layout.owners else np.empty(0, dtype)
            every.setdefault(name, Shard(mine, layout, mesh))
    return {name: rows for named, _ in stages for name, rows in named.items()}, every


def _labels(executable: Executable) -> dict[str, list[str]]:
    """Returns the labels of the rows of a step's kept arrays, identical for any mesh.

    Labels contain no numbers of casts and no lines of files. Casts with one name and place are
    numbered in their order.
    """
    casts = {row["cast"]: row for row in executable.manifest.get("report", []) if "cast" in row}
    rows = {COUNTERS: [row["cast"] for row in executable.health()]}
    rows |= {arg["name"]: arg["casts"] for arg in executable.manifest["args"] if "casts" in arg}
    labels: dict[str, list[str]] = {}
    for array, numbered in rows.items():
        names = [_label(casts.get(cast, {}), cast) for cast in numbered]
        labels[array] = [f"{name} #{names[:row].count(name)}" for row, name in enumerate(names)]
    # Each stage of a pipeline has the scales of all stages.
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
    """Returns the format and JAX's names in a label; "" if it has no names."""
    _, _, place = label.partition(_AT)
    place, _, _ = place.rpartition(" #")
    return place if place.partition(" ")[2] else ""


def _match_rows(
    own: NDArray[Any], names: list[str] | None, saved: NDArray[Any], theirs: list[str] | None
) -> tuple[NDArray[Any], list[str]]:
    """Returns `own` with the matching saved rows, and the names of the rows without a match.

    Rows with equal names match. The rest match by place in the user's program and by format, if
    both sides have equally many: one mesh casts a parameter directly, another gathers it first.
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
