"""The groups of options that `jit`, `compile` and `transform` take, and the options' old names.

Until the next release, a function also takes an option of a group by its old name, as an argument
of its own, with a warning that shows the new spelling.
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

# The group of each option that used to be an argument of its own.
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

# Options of jax.jit that have no counterpart here, and what to do instead.
_OF_JAX = {
    "backend": "leave it out on the CPU; target= compiles for a GPU",
    "device": "leave it out on the CPU; target= compiles for a GPU",
    "compiler_options": "leave it out, since XLA does not compile the step",
    "abstracted_axes": "leave it out; a step is compiled for each shape",
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
    """Returns the option groups that a function was given, and its arguments by their new names.

    Args:
        function: its name in `scalify`.
        arguments: its `locals()`: the groups that it takes, of `distribution`, `numerics` and
            `gpu`, and `deprecated`, its other keyword arguments.
        heeds: the fields that it supports; None for all fields of its groups.

    Raises:
        TypeError: a keyword argument is unknown, or set in its group too; a group has the wrong
            type, or sets a field that the function does not support.
    """
    given = dict(arguments)
    old = given.pop("deprecated")
    names = [name for name in _TYPES if name in given]
    known = [name for name in _OLD if _OLD[name] in names and (heeds is None or name in heeds)]
    for name, value in old.items():
        # jax.jit's own device= is an object.
        if name not in known or (name == "device" and not isinstance(value, str | None)):
            raise TypeError(_describe_unknown_argument(function, name, [*given, *known]))
    for group in names:
        given[group] = _made(group, given[group])
        if heeds is not None:
            _check_supported_fields(function, given[group], heeds)
        own = {name: value for name, value in old.items() if _OLD[name] == group}
        given[group] = _joined(function, given[group], own)
    if old:
        warn(f"scalify.{function}({_list(old)}) is deprecated: {_new(old)}", DeprecationWarning)
    groups = {name: given[name] if name in given else made() for name, made in _TYPES.items()}
    return Groups(**groups), given


def _made(group: str, given: Any) -> Any:
    """Returns a group as its dataclass.

    Raises:
        TypeError: it has another type.
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
        TypeError: the group sets one of them itself.
    """
    for name in own:
        if name in _set(group):
            raise TypeError(
                f"scalify.{function}({name}=...) beside {_format_options([name])}, which sets it "
                "too: leave out the former"
            )
    return dataclasses.replace(group, **own) if own else group


def _check_supported_fields(function: str, group: Any, heeds: Collection[str]) -> None:
    """Checks that a function supports all fields that a group sets.

    Raises:
        TypeError: it does not.
    """
    for name in _set(group):
        if name not in heeds:
            taken = [field.name for field in dataclasses.fields(group) if field.name in heeds]
            raise TypeError(
                f"scalify.{function} does not take {_format_options([name])}: of this group it "
                f"takes {', '.join(taken)}"
            )


def _set(group: Any) -> list[str]:
    """Returns the names of a group's fields that differ from their defaults."""
    return [
        field.name
        for field in dataclasses.fields(group)
        if not _is_default(getattr(group, field.name), field.default)
    ]


def _is_default(value: Any, default: Any) -> bool:
    # Comparing arrays yields no single truth value; defaults are never arrays.
    return value is default or (type(value) is type(default) and bool(value == default))


def _describe_unknown_argument(function: str, name: str, known: Collection[str]) -> str:
    text = f"scalify.{function}() got an unexpected keyword argument '{name}'"
    if name in _OF_JAX:
        if function == "transform":
            return f"{text}: give it to the jax.jit around the transformed function"
        return f"{text} of jax.jit: {_OF_JAX[name]}"
    if name in _OLD:
        return f"{text}: scalify.jit has this option, as {_format_options([name])}"
    near = difflib.get_close_matches(name, known, 1)
    if not near:
        return text
    return f"{text}. Did you mean {_format_options(near) if near[0] in _OLD else f'{near[0]}=...'}?"


def _new(old: Collection[str]) -> str:
    groups = [[name for name in old if _OLD[name] == group] for group in _TYPES]
    return "write " + ", ".join(_format_options(names) for names in groups if names)


def _format_options(names: Collection[str]) -> str:
    """Returns the spelling of options of one group in a call."""
    group = _OLD[next(iter(names))]
    return f"{group}=scalify.{_TYPES[group].__name__}({_list(names)})"


def _list(names: Collection[str]) -> str:
    return ", ".join(f"{name}=..." for name in names)
