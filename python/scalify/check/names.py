"""Names of a step's arguments, also where a framework gives `jax.jit` flat lists of arrays."""

from __future__ import annotations

import re
from typing import Any

import jax

from scalify._lowering import Arguments, Signature

__all__ = ["names_of"]


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
            found.append(name if path is None else f"{name.partition('.states')[0]}.{path}")
    return found


def _nnx_paths(node: Any) -> dict[int, str]:
    """Returns the path of each array of a split module by its id; none if it cannot be merged."""
    try:
        from flax import nnx

        state = nnx.to_flat_state(nnx.state(nnx.merge(node._graphdef, *node.states)))
    except (ImportError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {
        id(leaf): ".".join(map(str, path))
        for path, variable in state
        for leaf in jax.tree.leaves(variable)
    }


def _with_equinox_paths(names: list[str], arguments: Arguments) -> list[str]:
    """Returns the names with the paths of Equinox's modules.

    `equinox.filter_jit` compiles a function of lists of arrays; the trees are a static argument.
    """
    for _, static in arguments.statics:
        try:
            _, (first, first_tree), (rest, rest_tree) = static
        except (TypeError, ValueError):
            continue
        if not all(isinstance(one, jax.tree_util.PyTreeDef) for one in (first_tree, rest_tree)):
            continue
        paths = {
            "first": [f"arg0{path}" for path in _paths(first_tree)],
            "rest": [_rest(path) for path in _paths(rest_tree)],
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


def _rest(path: str) -> str:
    """Returns the name of a path in (arguments after the first, arguments by name)."""
    if match := re.match(r"\[0\]\[(\d+)\](.*)", path):
        return f"arg{int(match[1]) + 1}{match[2]}"
    if match := re.match(r"\[1\]\['(\w+)'\](.*)", path):
        return f"{match[1]}{match[2]}"
    return path
