"""A step traced, lowered and compiled ahead of its calls, as `jax.jit(f)` gives them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from scalify._entry import Entry
from scalify._lowering import Arguments, Lowered, Signature

__all__ = ["CompiledStep", "LoweredStep", "TracedStep"]

_Compile = Callable[[Lowered], Entry]


class TracedStep:
    """A traced step. What else it has is that of JAX's own `jax.stages.Traced`."""

    def __init__(
        self, signature: Signature, arguments: Arguments, key: tuple[Any, ...], compiled: _Compile
    ) -> None:
        self._signature, self._arguments, self._key = signature, arguments, key
        self._compiled = compiled
        self._traced = signature.trace(arguments)

    def lower(self) -> LoweredStep:
        """Lowers the step to StableHLO."""
        lowered = self._signature.lower(self._arguments)
        return LoweredStep(self._signature, lowered, self._key, self._compiled, self._traced)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._traced, name)


class LoweredStep:
    """A lowered step. What else it has is that of JAX's own `jax.stages.Lowered`."""

    def __init__(
        self,
        signature: Signature,
        lowered: Lowered,
        key: tuple[Any, ...],
        compiled: _Compile,
        traced: jax.stages.Traced,
    ) -> None:
        self._signature, self._lowered, self._key = signature, lowered, key
        self._compiled, self._traced = compiled, traced

    @functools.cached_property
    def _theirs(self) -> jax.stages.Lowered:
        return self._traced.lower()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._theirs, name)

    @property
    def in_tree(self) -> Any:
        """The structure of (positional, keyword) arguments, static ones left out."""
        return self._key[0]

    @property
    def out_tree(self) -> Any:
        """The structure of the results."""
        return self._lowered.out_tree

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results, as a tree."""
        return jax.tree.unflatten(self.out_tree, self._lowered.out_avals)

    def as_text(self) -> str:
        """Returns the StableHLO text, locations included."""
        return self._lowered.text

    def compile(self) -> CompiledStep:
        """Compiles the step.

        Raises:
            scalify.CompileError: the program or the recipe cannot be.
        """
        entry = self._compiled(self._lowered)
        return CompiledStep(self._signature, entry, self._key, self)


class CompiledStep:
    """A step for arguments of one structure and types: pytrees in, pytrees out.

    What else it has is that of its `scalify.Executable`: `report`, `health`, `save`.

    Attributes:
        executable: the step on flat arrays.
    """

    def __init__(
        self, signature: Signature, entry: Entry, key: tuple[Any, ...], lowered: LoweredStep
    ) -> None:
        self._signature, self._entry, self._key = signature, entry, key
        self._lowered = lowered
        self.executable = entry.executable

    @property
    def in_tree(self) -> Any:
        """The structure of (positional, keyword) arguments, static ones left out."""
        return self._key[0]

    @property
    def out_tree(self) -> Any:
        """The structure of the results."""
        return self._entry.lowered.out_tree

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results, as a tree."""
        return self._lowered.out_info

    @property
    def args_info(self) -> Any:
        """Shapes, dtypes and donation of the arguments, as a tree."""
        return self._lowered.args_info

    def cost_analysis(self) -> Any:
        """Returns what XLA estimates of the lowered step: its "flops" and others."""
        return self._lowered.cost_analysis()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the step; static arguments are left out, as JAX has it.

        Raises:
            TypeError: the arguments have another structure or other types.
        """
        leaves, tree = jax.tree.flatten((args, kwargs))
        arguments = Arguments(leaves, tree, self._key[1], len(args))
        if tree != self._key[0]:
            raise TypeError(
                f"'{self._signature.name}' was compiled for arguments of structure "
                f"{self._key[0]}, and is called with {tree}"
            )
        types = self._signature.key(arguments)[2]
        for name, found, wanted in zip(
            self._entry.lowered.in_names, types, self._key[2], strict=True
        ):
            if found[:2] != wanted[:2]:
                raise TypeError(
                    f"'{self._signature.name}' was compiled for {name} of type {wanted[1]}"
                    f"{list(wanted[0])}, and is called with {found[1]}{list(found[0])}"
                )
        return jax.tree.unflatten(self.out_tree, self._entry.run(leaves))

    def __getattr__(self, name: str) -> Any:
        if name in ("executable", "_entry", "_key", "_lowered", "_signature"):
            raise AttributeError(name)
        return getattr(self.executable, name)
