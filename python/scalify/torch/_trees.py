"""Trees of PyTorch's whose tensors a step takes and returns as arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import torch
from torch.utils import _pytree as torch_pytree

from scalify.torch._memory import as_argument

__all__ = ["Inputs", "Outputs"]


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The static part of a call's arguments.

    Attributes:
        tree: their structure.
        values: the leaves that are no tensors; None for tensors.
        places: which leaves are tensors.
    """

    tree: Any
    values: tuple[Any, ...]
    places: tuple[bool, ...]

    @staticmethod
    def of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Inputs, list[Any]]:
        """Returns the static part, and arrays for the tensors.

        Raises:
            ValueError: a step cannot read a tensor.
        """
        leaves, tree = torch_pytree.tree_flatten((args, dict(kwargs)))
        places = tuple(isinstance(leaf, torch.Tensor) for leaf in leaves)
        arrays = [
            as_argument(leaf, f"tensor {place} of the arguments")
            for place, leaf in enumerate(leaves)
            if places[place]
        ]
        values = (
            None if is_tensor else leaf for leaf, is_tensor in zip(leaves, places, strict=True)
        )
        return Inputs(tree, tuple(values), places), arrays

    def filled(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments with these arrays in place of tensors."""
        rest = iter(arrays)
        leaves = [
            next(rest) if is_tensor else value
            for value, is_tensor in zip(self.values, self.places, strict=True)
        ]
        args, kwargs = torch_pytree.tree_unflatten(leaves, self.tree)
        return args, kwargs


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The outputs of a trace without their arrays.

    Attributes:
        values: the leaves that are no arrays, each in a tuple; None for arrays.
        tree: their structure.
    """

    values: list[tuple[Any] | None]
    tree: Any

    @staticmethod
    def of(outputs: Any) -> tuple[Outputs, list[Any]]:
        """Returns the static part of a tree of outputs, and its arrays."""
        leaves, tree = torch_pytree.tree_flatten(outputs)
        values = [None if isinstance(leaf, jax.Array) else (_plain(leaf),) for leaf in leaves]
        return Outputs(values, tree), [leaf for leaf in leaves if isinstance(leaf, jax.Array)]

    def filled(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Returns the outputs with these tensors."""
        rest = iter(tensors)
        leaves = [next(rest) if value is None else value[0] for value in self.values]
        return torch_pytree.tree_unflatten(leaves, self.tree)


def _plain(leaf: Any) -> Any:
    """Returns an output that is no tensor; None for an object that may hold tensors of a trace."""
    return leaf if isinstance(leaf, (bool, int, float, complex, str, bytes)) else None
