"""What `jit`, `compile` and `transform` take as groups of options, and the names these had before.

Until the release after this one an option of a group is taken by its old name too, as an argument
of the function itself, with a warning that shows how it is written now.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Mapping
from typing import Any

from scalify._diagnostics import warn
from scalify.mesh import Mesh
from scalify.options import GPU, Distribution, Numerics

__all__ = ["Groups", "regroup"]

# The group of each option that was an argument of its own.
_OLD = {
    "mesh": "distribution",
    "zero": "distribution",
    "pipeline": "distribution",
    "reduce": "distribution",
    "memory_limit": "distribution",
    "overlap": "distribution",
    "bucket_bytes": "distribution",
    "sums": "distribution",
    "scales": "numerics",
    "cast_scales": "numerics",
    "roles": "numerics",
    "ranges": "numerics",
    "range_use": "numerics",
    "calibration": "numerics",
    "rescale": "numerics",
    "adaptive_scales": "numerics",
    "health": "numerics",
    "wide": "numerics",
    "pack_state": "numerics",
    "device": "gpu",
    "streams": "gpu",
    "library_attention": "gpu",
    "epilogues": "gpu",
}

_TYPES: dict[str, type[Any]] = {"distribution": Distribution, "numerics": Numerics, "gpu": GPU}


@dataclasses.dataclass(frozen=True)
class Groups:
    """The groups of options of one call."""

    distribution: Distribution
    numerics: Numerics
    gpu: GPU


def regroup(
    function: str, arguments: Mapping[str, Any], heeds: Collection[str] | None = None
) -> tuple[Groups, dict[str, Any]]:
    """Returns the groups that a function was given, and its arguments by their new names.

    Args:
        function: its name in `scalify`.
        arguments: its `locals()`: groups as `distribution`, `numerics` and `gpu`, as far as it has
            them, and `deprecated`, its other keyword arguments.
        heeds: the fields that it heeds; None for all of the groups that it has.

    Raises:
        TypeError: a keyword argument is unknown, or was given beside its group, which has it; a
            group is none, or says what the function does not heed.
    """
    given = dict(arguments)
    old = given.pop("deprecated")
    names = [name for name in _TYPES if name in given]
    known = [name for name in _OLD if _OLD[name] in names and (heeds is None or name in heeds)]
    for name in old:
        if name not in known:
            raise TypeError(_unknown(function, name, [*given, *known]))
    for group in names:
        given[group] = _made(group, given[group])
        if heeds is not None:
            _check_heeded(function, given[group], heeds)
        own = {name: value for name, value in old.items() if _OLD[name] == group}
        given[group] = _joined(function, given[group], own)
    if old:
        warn(f"scalify.{function}({_list(old)}) is deprecated: {_new(old)}", DeprecationWarning)
    groups = {name: given[name] if name in given else made() for name, made in _TYPES.items()}
    return Groups(**groups), given


def _made(group: str, given: Any) -> Any:
    """Returns a group as its dataclass.

    Raises:
        TypeError: it is none.
    """
    if given is None:
        return _TYPES[group]()
    if group == "distribution" and isinstance(given, Mesh):
        return Distribution(mesh=given)
    if not isinstance(given, _TYPES[group]):
        also = " or a scalify.Mesh" if group == "distribution" else ""
        wanted = f"a scalify.{_TYPES[group].__name__}{also}"
        raise TypeError(f"{group}={given!r}: expected {wanted}")
    return given


def _joined(function: str, group: Any, own: Mapping[str, Any]) -> Any:
    """Returns a group with the options that were given by their old names.

    Raises:
        TypeError: the group says one of them itself.
    """
    for name in own:
        if name in _set(group):
            raise TypeError(
                f"scalify.{function}({name}=...) beside {_spelled([name])}, which says it too: "
                "leave out the former"
            )
    return dataclasses.replace(group, **own) if own else group


def _check_heeded(function: str, group: Any, heeds: Collection[str]) -> None:
    """Looks whether a function heeds all that a group says.

    Raises:
        TypeError: it does not.
    """
    for name in _set(group):
        if name not in heeds:
            taken = [field.name for field in dataclasses.fields(group) if field.name in heeds]
            raise TypeError(
                f"scalify.{function} does not take {_spelled([name])}: of that it takes "
                f"{', '.join(taken)}"
            )


def _set(group: Any) -> list[str]:
    """Returns the names of a group's fields that are not as they are by default."""
    return [
        field.name
        for field in dataclasses.fields(group)
        if not _is_default(getattr(group, field.name), field.default)
    ]


def _is_default(value: Any, default: Any) -> bool:
    # Arrays among the values have no truth; those by default are plain.
    return value is default or (type(value) is type(default) and bool(value == default))


def _unknown(function: str, name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    text = f"scalify.{function}() got an unexpected keyword argument '{name}'"
    if not near:
        return text
    return f"{text}. Did you mean {_spelled(near) if near[0] in _OLD else f'{near[0]}=...'}?"


def _new(old: Collection[str]) -> str:
    groups = [[name for name in old if _OLD[name] == group] for group in _TYPES]
    return "write " + ", ".join(_spelled(names) for names in groups if names)


def _spelled(names: Collection[str]) -> str:
    """Returns how options of one group are written."""
    group = _OLD[next(iter(names))]
    return f"{group}=scalify.{_TYPES[group].__name__}({_list(names)})"


def _list(names: Collection[str]) -> str:
    return ", ".join(f"{name}=..." for name in names)
