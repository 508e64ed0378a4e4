"""One compiled shape of a step: from the caller's flat arrays to the runtime's, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from scalify import _runtime
from scalify._executable import Executable
from scalify._lowering import Lowered, to_logical, to_physical
from scalify._ranks import cut, wrap
from scalify._saved import Saved
from scalify._scaled_array import ScaledArray
from scalify._stages import own
from scalify.calibration import WideCast
from scalify.mesh import Mesh, Shard

__all__ = ["Entry"]

# Assumptions of an artefact, and the arrays that they are of.
Assumed = tuple[list[dict[str, Any]], list[Any]]


@dataclasses.dataclass(frozen=True)
class Entry:
    """One compiled shape: the executable, and the trees of its results."""

    lowered: Lowered
    executable: Executable
    mesh: Mesh | None = None
    wide: tuple[WideCast, ...] = ()

    def run(self, leaves: list[Any]) -> list[Any]:
        """Runs one step on the flat arguments and returns the flat results."""
        if self.mesh is None:
            leaves = [one.part(None, 0) if isinstance(one, Saved) else one for one in leaves]
        inputs = [
            _prepare(leaf, aval) for leaf, aval in zip(leaves, self.lowered.in_avals, strict=True)
        ]
        if self.mesh is not None:
            inputs = cut(self.executable, self.mesh, inputs)
        outputs = self.executable(*inputs)
        platforms = {
            next(iter(leaf.devices())).platform for leaf in leaves if isinstance(leaf, jax.Array)
        }
        results = [
            _finish(output, impl, result["alias_arg"] is not None, platforms)
            for output, impl, result in zip(
                outputs,
                own(self.executable.manifest, "results", self.lowered.out_keys),
                self.executable.results,
                strict=True,
            )
        ]
        if self.mesh is None:
            return results
        return wrap(self.executable, self.mesh, results, len(self.lowered.out_keys))

    def assumed(self, leaves: Sequence[Any]) -> Assumed:
        """Returns what is assumed of this rank's arguments, and these, of all arguments.

        Raises:
            ValueError: there are not as many as the step takes.
        """
        if len(leaves) != len(self.lowered.in_avals):
            raise ValueError(
                f"the step takes {len(self.lowered.in_avals)} arguments, not {len(leaves)}: their "
                "assumptions are by position"
            )
        return self._assumed(own(self.executable.manifest, "args", leaves))

    def assumed_after(self, leaves: Sequence[Any], results: Sequence[Any]) -> Assumed:
        """Returns the same of arguments as a step leaves them: donated ones are results now."""
        leaves = own(self.executable.manifest, "args", leaves)
        results = own(self.executable.manifest, "results", results)
        aliases = [argument["alias_result"] for argument in self.executable.args]
        return self._assumed(
            [
                leaf if alias is None else results[alias]
                for leaf, alias in zip(leaves, aliases, strict=True)
            ]
        )

    def _assumed(self, mine: Sequence[Any]) -> Assumed:
        # A part is held to the whole's bounds; a share is a row of elements, without axes.
        flat = [isinstance(one, Shard) and one.is_flat for one in mine]
        assumptions = [
            {key: value for key, value in entry.items() if key != "norms"}
            if flat[entry["index"]]
            else entry
            for entry in self.executable.assumptions
        ]
        return assumptions, [one.data if isinstance(one, Shard) else one for one in mine]


def _prepare(leaf: Any, aval: Any) -> Any:
    """Returns what the runtime takes for a leaf of the type that was compiled for."""
    if isinstance(leaf, (_runtime.Array, ScaledArray, Shard, Saved)):
        return leaf
    leaf = to_physical(leaf)
    if isinstance(leaf, np.ndarray):
        return leaf if leaf.dtype == aval.dtype else np.asarray(leaf, dtype=aval.dtype)
    if hasattr(leaf, "__dlpack_device__"):
        return leaf  # where it lies the runtime sees
    # Python numbers and numpy's, of which JAX narrows those of 64 bits unless told otherwise.
    return np.asarray(leaf, dtype=aval.dtype)


def _finish(output: Any, impl: str | None, is_donated: bool, platforms: set[str]) -> Any:
    """Returns what the caller gets for a result, given where JAX arrays among arguments lie."""
    if impl is not None:
        return to_logical(np.asarray(output), impl)
    if is_donated or isinstance(output, ScaledArray) or not platforms:
        return output
    is_on_gpu = isinstance(output, _runtime.Array)
    if is_on_gpu and "gpu" in platforms and jax.dlpack.is_supported_dtype(output.dtype):
        return jax.dlpack.from_dlpack(output)
    return jax.numpy.asarray(np.asarray(output))
