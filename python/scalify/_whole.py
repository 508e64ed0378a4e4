"""Pytrees as single nodes that JAX takes apart without calling constructors of their classes.

JAX describes a lowered function's arguments and results by trees of placeholders. A pytree class
whose constructor converts or checks its fields, which JAX's documentation discourages, refuses
them, although `jax.jit` itself only gives it arrays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax

__all__ = ["Whole"]


@dataclasses.dataclass(frozen=True)
class _Path:
    """The path of a leaf in a tree, as one key of JAX; it reads as the path itself."""

    keys: tuple[Any, ...]

    def __str__(self) -> str:
        return jax.tree_util.keystr(self.keys)


class Whole:
    """A tree's leaves with their paths, and its structure.

    Attributes:
        tree: the structure.
        paths: the path of each leaf.
        leaves: the leaves.
    """

    def __init__(self, tree: Any, paths: Sequence[Any], leaves: Sequence[Any]) -> None:
        self.tree, self.paths, self.leaves = tree, tuple(paths), tuple(leaves)


def _flatten(whole: Whole) -> tuple[Any, Any]:
    return whole.leaves, (whole.tree, whole.paths)


def _flatten_with_keys(whole: Whole) -> tuple[Any, Any]:
    keys = map(_Path, whole.paths)
    return list(zip(keys, whole.leaves, strict=True)), (whole.tree, whole.paths)


def _unflatten(static: Any, leaves: Any) -> Whole:
    tree, paths = static
    return Whole(tree, paths, leaves)


jax.tree_util.register_pytree_with_keys(Whole, _flatten_with_keys, _unflatten, _flatten)
