"""Names of a step's arguments, also where a framework gives `jax.jit` flat lists of arrays."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Sequence
from typing import Any

import jax

from scalify._lowering import Arguments, Signature

__all__ = ["grouped", "names_of"]


def names_of(signature: Signature, arguments: Arguments) -> tuple[str, ...]:
    """Returns the name of each leaf of the arguments, as `params['w']`."""
    names = _with_nnx_paths(signature._names(arguments), arguments)
    return tuple(_with_equinox_paths(names, arguments))


def _with_nnx_paths(names: list[str], arguments: Arguments) -> list[str]:
    """Returns the names with the paths of Flax NNX's variables.

    `flax.nnx.jit` compiles a function of lists of arrays, which their module gives paths to.
    """

    def is_split(node: Any) -> bool:
        return hasattr(node, "_graphdef") and hasattr(node, "states")

    tree = jax.tree.unflatten(arguments.tree, arguments.leaves)
    found: list[str] = []
    for node in jax.tree.leaves(tree, is_leaf=is_split):
        leaves = jax.tree.leaves(node)
        own = names[len(found) : len(found) + len(leaves)]
        paths = _nnx_paths(node) if is_split(node) else {}
        for name, leaf in zip(own, leaves, strict=True):
            path = paths.get(id(leaf))
            found.append(name if path is None else f"{name.partition('.states')[0]}{path}")
    return found


def _nnx_paths(node: Any) -> dict[int, str]:
    """Returns the path of each array of a split module by its id; none if it cannot be merged."""
    try:
        from flax import nnx

        state = nnx.to_flat_state(nnx.state(nnx.merge(node._graphdef, *node.states)))
    except (ImportError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {
        id(leaf): "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path)
        for path, variable in state
        for leaf in jax.tree.leaves(variable)
    }


def _with_equinox_paths(names: list[str], arguments: Arguments) -> list[str]:
    """Returns the names with the paths of Equinox's modules.

    `equinox.filter_jit` compiles a function of lists of arrays; the trees are a static argument.
    """
    for _, static in arguments.statics:
        try:
            (own, _), (first, first_tree), (rest, rest_tree) = static
        except (TypeError, ValueError):
            continue
        if not all(isinstance(one, jax.tree_util.PyTreeDef) for one in (first_tree, rest_tree)):
            continue
        known = _parameters(next(filter(callable, own), None))
        paths = {
            "first": [_rest(f"[0][-1]{path}", known) for path in _paths(first_tree)],
            "rest": [_rest(path, known) for path in _paths(rest_tree)],
        }
        sizes = {"first": len(first), "rest": len(rest)}

        def renamed(name: str, paths: Any = paths, sizes: Any = sizes) -> str:
            match = re.search(r"\['(first|rest)'\]\[(\d+)\]$", name)
            if match is None or int(match[2]) >= sizes[match[1]]:
                return name
            return str(paths[match[1]][int(match[2])])

        return [renamed(name) for name in names]
    return names


def _paths(tree: Any) -> list[str]:
    whole = jax.tree.unflatten(tree, range(tree.num_leaves))
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(whole)]


def _parameters(fn: Any) -> list[str]:
    """Returns the names of a function's parameters; none if they are not known."""
    try:
        return list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return []


def _rest(path: str, known: list[str]) -> str:
    """Returns the name of a path in (arguments after the first, arguments by name)."""
    if match := re.match(r"\[0\]\[(-?\d+)\](.*)", path):
        place = int(match[1]) + 1
        return f"{known[place] if place < len(known) else f'arg{place}'}{match[2]}"
    if match := re.match(r"\[1\]\['(\w+)'\](.*)", path):
        return f"{match[1]}{match[2]}"
    return path


class _Path:
    """The key of a leaf, which names it after the argument that it is in."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


class _Named:
    """Leaves with names of their own."""

    def __init__(self, paths: tuple[str, ...], leaves: tuple[Any, ...]) -> None:
        self.paths, self.leaves = paths, leaves


jax.tree_util.register_pytree_with_keys(
    _Named,
    lambda node: (list(zip(map(_Path, node.paths), node.leaves, strict=True)), node.paths),
    lambda paths, leaves: _Named(paths, tuple(leaves)),
    lambda node: (node.leaves, node.paths),
)


def grouped(
    names: Sequence[str], leaves: Sequence[Any], donated: Sequence[bool]
) -> tuple[tuple[Any, ...], list[str]]:
    """Returns the leaves as arguments that give them these names, and the arguments' names.

    The order is kept, and the leaves of an argument are donated alike.
    """
    args: list[Any] = []
    heads: list[str] = []
    keys = [
        (re.match(r"\w*", name)[0], is_donated)  # type: ignore[index]
        for name, is_donated in zip(names, donated, strict=True)
    ]
    for (head, _), group in itertools.groupby(range(len(leaves)), key=keys.__getitem__):
        places = list(group)
        args.append(
            _Named(tuple(names[i][len(head) :] for i in places), tuple(leaves[i] for i in places))
        )
        heads.append(head or f"arg{len(heads)}")
    return tuple(args), heads
