"""The example on a mesh of ranks: its shardings, and its steps compiled for them.

The same command runs under mpirun with one rank per process, or alone: then one process computes
the results of all ranks, bit for bit.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import PartitionSpec as P

import scalify
from scalify.mesh import Mesh, make_mesh

__all__ = ["Ranks", "bits", "gathered", "parse"]

AXES = ("data", "tensor")
# Megatron's sharding: columns of the first matrix, rows of the second, the vocabulary.
COLUMNS = re.compile(r"'(wq|wk|wv|w_gate|w_up|head)'")
ROWS = re.compile(r"'(wo|w_down|embed)'")


def parse(text: str) -> dict[str, int]:
    """Returns the axes of "data=4,tensor=2", sizes by names.

    Raises:
        ValueError: an unknown axis, an axis twice, or a size that is no number of ranks.
    """
    axes: dict[str, int] = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if name not in AXES or name in axes or not size.isdigit() or int(size) < 1:
            raise ValueError(f"'{part}' in '{text}': expected data=N, tensor=N, or both")
        axes[name] = int(size)
    return axes


@dataclasses.dataclass(frozen=True)
class Ranks:
    """The ranks of one run.

    Attributes:
        mesh: with axes "data" and "tensor".
        zero: ZeRO level, the state that data-parallel ranks shard.
    """

    mesh: Mesh
    zero: Literal[0, 1, 2, 3]

    @staticmethod
    def of(axes: dict[str, int], zero: Literal[0, 1, 2, 3]) -> Ranks:
        """Returns the ranks of a mesh with these axes."""
        return Ranks(make_mesh(**axes), zero)

    @property
    def batch(self) -> P:
        """The sharding of a batch: each data-parallel rank has its own rows."""
        return P("data") if "data" in self.mesh.axes else P()

    def specs(self, tree: Any) -> Any:
        """Returns the shardings of parameters or moments, as a tree of the same structure."""

        def spec(path: Any, leaf: Any) -> P:
            name = jax.tree_util.keystr(path)
            if "tensor" not in self.mesh.axes or np.ndim(leaf) != 2:
                return P()
            if COLUMNS.search(name):
                return P(None, "tensor")
            return P("tensor", None) if ROWS.search(name) else P()

        return jax.tree_util.tree_map_with_path(spec, tree)

    def step(self, fn: Callable[..., Any], recipe: str, params: Any, state: Any) -> Any:
        """Returns `fn(params, state, batch) -> (params, state, loss)` compiled for the ranks."""
        placed = (self.specs(params), self.specs(state))
        return scalify.jit(
            fn,
            recipe,
            distribution=scalify.Distribution(mesh=self.mesh, zero=self.zero),
            in_shardings=(*placed, self.batch),
            out_shardings=(*placed, P()),
            donate_argnums=(0, 1),
        )

    def loss(self, fn: Callable[..., Any], recipe: str, params: Any) -> Any:
        """Returns `fn(params, batch) -> loss` compiled for the ranks; it takes whole arrays."""
        specs = (self.specs(params), self.batch)
        return scalify.jit(
            fn, recipe, distribution=self.mesh, in_shardings=specs, out_shardings=P()
        )


def gathered(tree: Any) -> Any:
    """Returns the tree with whole arrays; every rank must call it."""

    def whole(leaf: Any) -> Any:
        return np.asarray(leaf.gather() if isinstance(leaf, scalify.Shard) else leaf)

    return jax.tree.map(whole, tree)


def bits(tree: Any) -> str:
    """Returns a digest of all bits of whole arrays."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype.name}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]
