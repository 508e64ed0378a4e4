"""A step traced, lowered and compiled ahead of time, as with `jax.jit(f)`."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from scalify._dtypes import to_numpy
from scalify._entry import Entry
from scalify._first_batch import calibrate_on
from scalify._lowering import Arguments, Lowered, Signature

__all__ = ["CompiledStep", "LoweredStep", "TracedStep"]

_Compile = Callable[[Lowered], Entry]


@dataclasses.dataclass(frozen=True)
class MemoryStats:
    """Bytes of a step on one device, with the names of `jax.stages.Compiled.memory_analysis`.

    Attributes:
        argument_size_in_bytes: of the arguments.
        output_size_in_bytes: of the results, including those that alias arguments.
        alias_size_in_bytes: of the results that alias arguments.
        temp_size_in_bytes: of the arena of temporaries.
        peak_memory_in_bytes: of all these at their peak.
        generated_code_size_in_bytes: 0, not known.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    peak_memory_in_bytes: int
    generated_code_size_in_bytes: int = 0


def _bytes_of(argument: Mapping[str, Any]) -> int:
    return math.prod(argument["shape"]) * to_numpy(argument["dtype"]).itemsize


class TracedStep:
    """A traced step. Other attributes are those of JAX's own `jax.stages.Traced`."""

    def __init__(
        self, signature: Signature, arguments: Arguments, key: tuple[Any, ...], compiled: _Compile
    ) -> None:
        self._signature, self._arguments, self._key = signature, arguments, key
        self._compiled = compiled
        self._traced = signature.trace(arguments)

    def lower(
        self, *, lowering_platforms: Sequence[str] | None = None, **private: Any
    ) -> LoweredStep:
        """Lowers the step to StableHLO.

        Args:
            lowering_platforms: None or ("cpu",): the text does not depend on the target.
            private: what `jax.export` asks of JAX's own lowering.

        Raises:
            TypeError: called by `jax.export`.
            ValueError: `lowering_platforms` names another platform.
        """
        name = self._signature.name
        if private:
            raise TypeError(
                f"jax.export cannot export '{name}', which XLA does not run: export "
                "jax.jit(scalify.transform(f, recipe=...)), or save the compiled step by "
                ".lower(...).compile().save(path)"
            )
        if lowering_platforms is not None and tuple(lowering_platforms) != ("cpu",):
            raise ValueError(
                f"lowering_platforms {tuple(lowering_platforms)} of '{name}': scalify.jit's option "
                "target= chooses the device"
            )
        lowered = self._signature.lower(self._arguments)
        return LoweredStep(self._signature, lowered, self._key, self._compiled, self._traced)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._traced, name)


class LoweredStep:
    """A lowered step. Other attributes are those of JAX's own `jax.stages.Lowered`."""

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

    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> CompiledStep:
        """Compiles the step.

        Args:
            compiler_options: XLA's options; must be None or empty.

        Raises:
            scalify.CompileError: the program or the recipe cannot be compiled.
            ValueError: `compiler_options` is not empty.
        """
        if compiler_options:
            raise ValueError(
                f"compiler_options {', '.join(compiler_options)} of '{self._signature.name}' are "
                "XLA's, which does not compile this step: give scalify.jit its own options"
            )
        entry = self._compiled(self._lowered)
        return CompiledStep(self._signature, entry, self._key, self)


class CompiledStep:
    """A step for arguments of one structure and types: pytrees in, pytrees out.

    Other attributes are those of its `scalify.Executable`: `report`, `health`, `save`.

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
        """Returns XLA's cost estimates of the lowered step: "flops" and others."""
        return self._lowered.cost_analysis()

    def memory_analysis(self) -> MemoryStats:
        """Returns the memory use of a step under JAX's names."""
        memory = self.executable.memory
        arguments = sum(memory["arguments"].values())
        manifest = self.executable.manifest
        shared = [one["alias_arg"] for one in manifest["results"] if one["alias_arg"] is not None]
        alias = sum(_bytes_of(manifest["args"][place]) for place in shared)
        return MemoryStats(
            argument_size_in_bytes=arguments,
            output_size_in_bytes=memory["results"] + alias,
            alias_size_in_bytes=alias,
            temp_size_in_bytes=memory["arena"],
            peak_memory_in_bytes=memory["peak"],
        )

    def as_text(self) -> str:
        """Returns the StableHLO text that the step was compiled from."""
        return self._lowered.as_text()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the step; static arguments are left out, as in JAX.

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
        if self._entry.calibrates:
            calibrate_on(self._entry, leaves)
        return jax.tree.unflatten(self.out_tree, self._entry.run(leaves))

    def __getattr__(self, name: str) -> Any:
        if name in ("executable", "_entry", "_key", "_lowered", "_signature"):
            raise AttributeError(name)
        return getattr(self.executable, name)
