"""One compiled shape of a step: converts the caller's flat arrays to the runtime's, and back."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from scalify import _runtime
from scalify._executable import Executable
from scalify._jax_api import weakly_typed
from scalify._lowering import Lowered, key_impl, to_logical, to_physical
from scalify._ranks import cut, wrap
from scalify._saved import Saved
from scalify._scaled_array import ScaledArray
from scalify._stages import own
from scalify._views import host_view, is_jax_type
from scalify._xla_call import SeveralDevicesError, StepInXla
from scalify.calibration import WideCast
from scalify.mesh import Mesh, Shard
from scalify.scales import Scales

__all__ = ["Entry"]

# Assumptions of an artefact, and the arrays to check them on.
Assumed = tuple[list[dict[str, Any]], list[Any]]


@dataclasses.dataclass(frozen=True, eq=False)
class Entry:
    """One compiled shape: the executable, and the trees of its results.

    `scales` are the measured ones with which it was compiled, `correction` is log2 of that of the
    model for sensitive dots. `is_agreed` says that all ranks call it alike.
    """

    lowered: Lowered
    executable: Executable
    mesh: Mesh | None = None
    wide: tuple[WideCast, ...] = ()
    calibrates: bool = False
    scales: Scales | None = None
    correction: int = 0
    is_agreed: bool = False

    def run(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Runs one step on the flat arguments and returns the flat results.

        Raises:
            FloatingPointError: a result has a NaN under `jax_debug_nans`, or an infinity under
                `jax_debug_infs`.
        """
        results = self._checked(self._run, leaves)
        if not self._float0_results:
            return results
        results = list(results)
        for place, shape in self._float0_results:
            results[place] = np.zeros(shape, jax.dtypes.float0)
        return results

    def _checked(
        self, run: Callable[[Sequence[Any]], Sequence[Any]], leaves: Sequence[Any]
    ) -> Sequence[Any]:
        if not (jax.config.jax_debug_nans or jax.config.jax_debug_infs):
            return run(leaves)
        checks = [
            (jax.config.jax_debug_nans, jax.numpy.isnan, "nan"),
            (jax.config.jax_debug_infs, jax.numpy.isinf, "inf"),
        ]
        # JAX would run the step again to find the op, with arguments that it has given away.
        with jax.debug_nans(False), jax.debug_infs(False):
            results = run(leaves)
            local = [one.data if isinstance(one, Shard) else one for one in results]
            floats = [one for one in local if jax.numpy.issubdtype(one.dtype, jax.numpy.inexact)]
            found = [
                what
                for is_on, is_bad, what in checks
                if is_on and any(bool(is_bad(np.asarray(one)).any()) for one in floats)
            ]
        if self.mesh is not None:  # an error of one rank is one of all
            said = self.mesh.gather_bytes(" ".join(found).encode())
            found = [what for each in said for what in each.decode().split()]
        if found:
            name = self.lowered.name
            raise FloatingPointError(f"invalid value ({found[0]}) encountered in jit({name})")
        return results

    def update(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Runs one step on numpy arrays, and overwrites donated ones with their results.

        Raises:
            FloatingPointError: see `run`.
        """
        assert self.mesh is None
        run = functools.partial(self.executable.run, in_place=True)
        return self._checked(run, self.inputs(leaves))

    def traced(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Returns the results of the step as a part of the function that JAX traces."""
        given = [
            _without_values(leaf) if aval.dtype == jax.dtypes.float0 else leaf
            for leaf, aval in zip(leaves, self._own_avals, strict=True)
        ]
        results = list(self.executable.traced(self._step_within, given))
        for place, shape in self._float0_results:
            results[place] = np.zeros(shape, jax.dtypes.float0)
        return results

    @functools.cached_property
    def _float0_results(self) -> list[tuple[int, tuple[int, ...]]]:
        """Places and shapes of float0 results, which have no values; in the text they are i1."""
        return [
            (place, aval.shape)
            for place, aval in enumerate(self.lowered.out_avals)
            if aval.dtype == jax.dtypes.float0
        ]

    def _run(self, leaves: Sequence[Any]) -> Sequence[Any]:
        kinds = set(map(type, leaves))
        if self.mesh is None and self._xla_step is not None and all(map(is_jax_type, kinds)):
            return self._wrap_stored_results(self._run_on_jax_arrays(leaves))
        if self.mesh is None:
            leaves = [one.part(None, 0) if isinstance(one, Saved) else one for one in leaves]
        inputs = leaves if self.mesh is None else cut(self.executable, self.mesh, leaves)
        results = self._wrap_stored_results(
            self._run_on_jax_arrays(inputs)
            if self._returns_jax_arrays(inputs)
            else self._run_on_any_arrays(inputs)
        )
        if self.mesh is None:
            return results
        return wrap(self.executable, self.mesh, results, len(self.lowered.out_keys))

    @functools.cached_property
    def _own_avals(self) -> list[Any]:
        return own(self.executable.manifest, "args", self.lowered.in_avals)

    @functools.cached_property
    def _donates(self) -> bool:
        return any(result["alias_arg"] is not None for result in self.executable.results)

    @functools.cached_property
    def _xla_step(self) -> StepInXla | None:
        """The step as an XLA computation; None unless it and JAX run on the CPU and it has results.

        None too if the step calls this process: JAX computations in a callback or a fallback would
        wait for the XLA computation that runs the step.
        """
        return self._step_within if self.executable.is_on_host else None

    @functools.cached_property
    def _step_within(self) -> StepInXla | None:
        """The same, also for a GPU: there only functions that JAX traces contain it."""
        executable, lowered = self.executable, self.lowered
        if not executable.is_where_xla_is or executable.calls_back or not executable.results:
            return None
        manifest = executable.manifest
        return executable.in_xla(
            own(manifest, "args", lowered.donated),
            (own(manifest, "args", lowered.in_keys), self._own_keys),
            own(manifest, "results", lowered.out_weak),
            lowered.name,
        )

    def _returns_jax_arrays(self, inputs: Sequence[Any]) -> bool:
        """Whether results are arrays of JAX: an argument is one, or one is donated."""
        if self._xla_step is None:
            return False
        return self._donates or any(is_jax_type(type(_data(one))) for one in inputs)

    def _run_on_jax_arrays(self, inputs: Sequence[Any]) -> Sequence[Any]:
        assert self._xla_step is not None
        taken = self.executable.stored.take(inputs)
        if not all(map(is_jax_type, set(map(type, taken)))):
            taken = [
                # State that is stored narrow already has its type.
                _operand(leaf, aval if leaf is given else leaf)
                for leaf, given, aval in zip(taken, inputs, self._own_avals, strict=True)
            ]
        try:
            return self._xla_step(taken)
        except SeveralDevicesError:
            # The host runs the step, on whole arrays.
            return self._xla_step([_gathered(one) for one in taken])

    def _wrap_stored_results(self, results: Sequence[Any]) -> list[Any]:
        return self.executable.stored.give(results)

    def _run_on_any_arrays(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Runs the step in place on arrays of numpy, of a GPU, and of any DLPack producer."""
        executable = self.executable
        prepared = [
            _prepare(leaf, aval) for leaf, aval in zip(inputs, self._own_avals, strict=True)
        ]
        platforms = {
            next(iter(leaf.devices())).platform
            for leaf in map(_data, inputs)
            if is_jax_type(type(leaf))
        }
        if executable.is_on_host and self._donates:
            platforms.add(jax.default_backend())
        outputs = executable.run(prepared)
        if executable.is_on_host:
            # Deletes donated arrays as JAX does, although the step has worked on copies.
            for leaf, argument in zip(inputs, executable.args, strict=True):
                if argument["alias_result"] is not None and is_jax_type(type(_data(leaf))):
                    _data(leaf).delete()
        else:
            return [
                _finish_on_gpu(output, impl, result["alias_arg"] is not None, platforms)
                for output, impl, result in zip(
                    outputs, self._own_keys, executable.results, strict=True
                )
            ]
        weak = own(executable.manifest, "results", self.lowered.out_weak)
        return [
            _finish(output, impl, is_weak, bool(platforms))
            for output, impl, is_weak in zip(outputs, self._own_keys, weak, strict=True)
        ]

    def inputs(self, leaves: Sequence[Any]) -> list[Any]:
        """Returns the flat arguments as `executable` takes them."""
        if self.mesh is None:
            leaves = [one.part(None, 0) if isinstance(one, Saved) else one for one in leaves]
        else:
            leaves = cut(self.executable, self.mesh, leaves)
        return [
            _prepare(_gathered(leaf), aval)
            for leaf, aval in zip(leaves, self._own_avals, strict=True)
        ]

    def inputs_after_step(self, leaves: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """Returns the arguments of this rank's next step, with donated ones replaced by results."""
        return self.inputs(self._after_step(leaves, results))

    def _after_step(self, leaves: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        leaves = own(self.executable.manifest, "args", leaves)
        results = own(self.executable.manifest, "results", results)
        aliases = [argument["alias_result"] for argument in self.executable.args]
        return [
            leaf if alias is None else results[alias]
            for leaf, alias in zip(leaves, aliases, strict=True)
        ]

    @functools.cached_property
    def _own_keys(self) -> list[str | None]:
        return own(self.executable.manifest, "results", self.lowered.out_keys)

    def assumed(self, leaves: Sequence[Any]) -> Assumed:
        """Returns the assumptions on this rank's arguments, and these, given all arguments.

        Raises:
            ValueError: the number of arguments differs from the step's.
        """
        if len(leaves) != len(self.lowered.in_avals):
            raise ValueError(
                f"the step takes {len(self.lowered.in_avals)} arguments, not {len(leaves)}: their "
                "assumptions are by position"
            )
        return self._assumed(own(self.executable.manifest, "args", leaves))

    def assumptions_after_step(self, leaves: Sequence[Any], results: Sequence[Any]) -> Assumed:
        """Returns the same for arguments after a step: donated ones are replaced by results."""
        return self._assumed(self._after_step(leaves, results))

    def _assumed(self, mine: Sequence[Any]) -> Assumed:
        # The whole array's bounds hold for a shard. A flat share has no axes for the norms.
        flat = [isinstance(one, Shard) and one.is_flat for one in mine]
        assumptions = [
            {key: value for key, value in entry.items() if key != "norms"}
            if flat[entry["index"]]
            else entry
            for entry in self.executable.assumptions
        ]
        arrays = [one.data if isinstance(one, Shard) else one for one in mine]
        return assumptions, [host_view(one) for one in arrays]


def _data(leaf: Any) -> Any:
    return leaf.data if isinstance(leaf, ScaledArray) else leaf


def _without_values(leaf: Any) -> np.ndarray:
    """Returns the argument for a float0, the type of gradients of integers: i1 in JAX's text."""
    return np.zeros(leaf.shape, np.bool_)


def _operand(leaf: Any, aval: Any) -> Any:
    """Returns the argument that JAX takes for a leaf, of the compiled type."""
    if is_jax_type(type(leaf)):
        return leaf
    if aval.dtype == jax.dtypes.float0:
        return _without_values(leaf)
    if isinstance(leaf, (bool, int, float, complex)) and aval.weak_type:
        return leaf
    if isinstance(leaf, np.ndarray):
        return leaf if leaf.dtype == aval.dtype else np.asarray(leaf, dtype=aval.dtype)
    if hasattr(leaf, "__array__") or not hasattr(leaf, "__dlpack__"):
        return np.asarray(leaf, dtype=None if hasattr(leaf, "dtype") else aval.dtype)
    return np.asarray(_runtime.array(leaf))


def _gathered(leaf: Any) -> Any:
    """Returns an array that is on several devices as one host array."""
    is_wide = isinstance(leaf, jax.Array) and len(leaf.sharding.device_set) > 1
    if not is_wide:
        return leaf
    # Random keys have no form in NumPy.
    return to_logical(np.asarray(to_physical(leaf)), key_impl(leaf))


def _prepare(leaf: Any, aval: Any) -> Any:
    """Returns the argument that the runtime takes for a leaf, of the compiled type."""
    if isinstance(leaf, (_runtime.Array, ScaledArray, Shard, Saved)):
        return leaf
    if aval.dtype == jax.dtypes.float0:
        return _without_values(leaf)
    leaf = to_physical(leaf)
    if isinstance(leaf, np.ndarray):
        return leaf if leaf.dtype == aval.dtype else np.asarray(leaf, dtype=aval.dtype)
    if hasattr(leaf, "__dlpack_device__"):
        return leaf  # the runtime detects its device
    # Python's and numpy's scalars; JAX narrows those of 64 bits unless x64 is enabled.
    return np.asarray(leaf, dtype=aval.dtype)


def _finish(output: Any, impl: str | None, is_weak: bool, is_jax: bool) -> Any:
    """Returns the caller's result for an output in the host's memory."""
    if impl is not None:
        return to_logical(np.asarray(output), impl)
    if is_weak and (is_jax or not output.shape):
        # numpy has no weak types.
        return weakly_typed(np.asarray(output))
    return jax.numpy.asarray(np.asarray(output)) if is_jax else output


def _finish_on_gpu(output: Any, impl: str | None, is_donated: bool, platforms: set[str]) -> Any:
    """Returns the caller's result for an output on a GPU; JAX's arguments are on `platforms`."""
    if impl is not None:
        return to_logical(np.asarray(output), impl)
    if is_donated or not platforms:
        return output
    if "gpu" in platforms and jax.dlpack.is_supported_dtype(output.dtype):
        return jax.dlpack.from_dlpack(output)
    return jax.numpy.asarray(np.asarray(output))
