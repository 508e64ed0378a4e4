"""Frameworks' modules among arguments, and the adapter that a step of them needs."""

from __future__ import annotations

import sys
from typing import Any

import jax

__all__ = ["WatchedModules", "advice_for", "is_ref", "ref_advice"]


def _is_nnx(value: Any) -> bool:
    """Whether it is a module, an optimizer or a variable of Flax NNX; Flax is not imported."""
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and bool(nnx.graph.is_graph_node(value))


def is_ref(value: Any) -> bool:
    """Whether a value is a mutable reference of `jax.new_ref`."""
    aval = getattr(value, "aval", None)
    return aval is not None and not isinstance(aval, jax.core.ShapedArray)


def ref_advice(ref: Any) -> str:
    """Returns advice for a reference that a step takes or closes over."""
    return (
        f"a mutable {ref.aval} (jax.new_ref), which a step cannot change: pass its value ref[...], "
        "return the new one, and write it outside the step; a ref made within the step works"
    )


def advice_for(leaf: Any) -> str:
    """Returns advice for a leaf that is not an array."""
    if _is_nnx(leaf):
        return "use scalify.nnx.jit for steps of NNX modules"
    if callable(leaf):
        return (
            "use scalify.filter_jit for trees with such leaves, as Equinox's modules are, or mark "
            "the argument as static"
        )
    return "mark the argument as static"


class WatchedModules:
    """NNX modules among the arguments of a function that is traced.

    The function gets copies of the caller's modules, built from their arrays. Updates are lost
    unless the function returns them.
    """

    def __init__(self, tree: Any) -> None:
        self._found: list[tuple[Any, Any, list[Any]]] = []
        if "flax.nnx" in sys.modules:
            for path, value in jax.tree_util.tree_leaves_with_path(tree, is_leaf=_is_nnx):
                if _is_nnx(value):
                    self._found.append((path, value, jax.tree.leaves(value)))

    def check(self, outputs: Any, name: str) -> None:
        """Checks that the updates of the function `name` are among its `outputs`.

        Raises:
            TypeError: a module has values that are not among the outputs.
        """
        if not self._found:
            return
        kept = {id(leaf) for leaf in jax.tree.leaves(outputs)}
        for path, module, before in self._found:
            known = kept | {id(leaf) for leaf in before}
            if all(id(leaf) in known for leaf in jax.tree.leaves(module)):
                continue
            where = jax.tree_util.keystr(path[1:])
            raise TypeError(
                f"'{name}' updates the {type(module).__name__} at {where} of its arguments, a "
                "copy of the caller's, and does not return it: use scalify.nnx.jit "
                "(scalify.nnx.transform under flax.nnx.jit), which updates the caller's module"
            )
