"""The result of scalify.jit: a JAX function, compiled by Scalify and run by its runtime."""

from __future__ import annotations

import functools
import pickle
import types
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import numpy as np

from scalify._agreement import agreed
from scalify._aot import LoweredStep, TracedStep
from scalify._corrections import Corrections
from scalify._diagnostics import warn
from scalify._entry import Entry
from scalify._executable import Executable
from scalify._first_batch import calibrate_on
from scalify._jax_api import trace_context
from scalify._jit_state import JitState, KeptRows, carry_over, describe_arguments
from scalify._last_call import LastCall
from scalify._lowering import (
    Arguments,
    Lowered,
    Signature,
    describe_changed_type,
    scales_key,
    type_of,
    types_of,
)
from scalify._nested import is_traced
from scalify._ranks import compile_on
from scalify._renewal import may_narrow
from scalify._saved import Saved
from scalify._settings import Settings
from scalify._views import host_view
from scalify._watch import Watch, advice_for, carries, may_adapt
from scalify._wrapper import pickle_name
from scalify.calibration import WideCast, WidenTracker, wide_option
from scalify.mesh import Mesh, Shard
from scalify.ranges import violated_assumptions
from scalify.recipe import Recipe
from scalify.report import Report
from scalify.scales import Scales, ScalesLike, argument_options, measure, range_option

__all__ = ["Jit"]


class Jit:
    """A compiled function of pytrees; one executable per shape, structure and static value.

    Attributes:
        made_by: the function and arguments that recreate this object, for `pickle`.
    """

    def __init__(self, signature: Signature, settings: Settings) -> None:
        self._signature = signature
        self._settings = settings
        self._given = settings.scales
        self._options = settings.options
        self._mesh = settings.distribution.mesh
        self._pipeline = settings.distribution.pipeline
        self._measured: dict[Hashable, Scales] = {}
        self._entries: dict[Hashable, Entry] = {}
        self._last: Entry | None = None
        self._call: LastCall | None = None
        self.made_by: tuple[Any, ...] | None = None
        self._trackers: dict[Hashable, WidenTracker] = {}
        self._kept: dict[Hashable, KeptRows] = {}
        # Of steps that the next call compiles for other sizes: these, and the state until now.
        self._renewed: dict[Hashable, Scales] = {}
        self._left_of: dict[Hashable, JitState | None] = {}
        self._corrections = Corrections(settings.threads, settings.distribution)
        self._last_key: Any = None
        self._last_arguments: list[Any] = []
        self._restored: JitState | None = None
        self._watch = self._make_watch()
        self._has_adapted = False
        self._left: JitState | None = None
        functools.update_wrapper(self, signature.fn, updated=())

    def _make_watch(self) -> Watch:
        """Returns the watch that checks the steps of a run."""

        def advice() -> str:
            return advice_for(self._options, self._pipeline is not None)

        return Watch(self._settings.policy, self._signature.name, advice, carries(self._options))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one step: pytrees in, pytrees out.

        Results are JAX arrays where an argument is one or is donated, else numpy arrays; on a GPU
        they are `scalify.Array`s in its memory. State that a recipe stores narrow is a
        `scalify.ScaledArray`. While JAX or another Scalify step traces the caller, the function is
        inlined there and compiled under the outer recipe. Under `jax.disable_jit` it runs op by op.

        Raises:
            scalify.CompileError: at the first call of a shape, the step does not compile.
            RuntimeError: an array was deleted, as an earlier step deletes donated ones.
            Warning: of a step that has run, if the filter of `warnings` makes it an error; its
                attribute `results` has what the step returns.
        """
        if is_traced():
            return self._signature.inline(args, kwargs)
        if self._mesh is None and jax.config.jax_disable_jit:
            return self._signature.plain(*args, **kwargs)
        return self._run(self._signature.bind(args, kwargs), in_place=False)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one step under its own recipe, within `jax.jit` and `jax.lax.scan` too.

        There the step is one custom call that Scalify's runtime computes in XLA's memory: donated
        arguments are overwritten, unless the program reads them later. Each run takes over the
        state that the last one left (scales, amaxes). Health policies need a Python call to act, so
        they do not; `health` shows the last run.

        A first call within a trace has no values: each step then measures the scales of arguments,
        unless `Numerics(scales=)` gives them or the step has run before.

        Raises:
            NotImplementedError: the step cannot be a part of an XLA program (it is for a GPU, calls
                back, or stores state narrow), or JAX differentiates or batches it.
            TypeError: the step runs on several ranks.
        """
        if not is_traced():
            return self(*args, **kwargs)
        if self._mesh is not None:
            raise TypeError(f"'{self._signature.name}' runs on several ranks: call it outside JAX")
        arguments = self._signature.bind(args, kwargs)
        key = self._key(arguments)
        types = arguments.typed(map(type_of, arguments.leaves))
        entry = self._entry(types, key)
        self._last, self._last_key, self._call = entry, key, None
        self._last_arguments = describe_arguments(types)
        return jax.tree.unflatten(entry.lowered.out_tree, entry.traced(arguments.leaves))

    def update(self, *args: Any) -> Any:
        """Runs one step on numpy arrays, and overwrites donated ones with their results.

        Donated arguments must be dense and writable. Their memory stays the caller's: it may be
        viewed by others, who see the new values. A step that is interrupted leaves it half written.

        Args:
            *args: pytrees of numpy arrays, the step's arguments.

        Returns:
            As a call; results of donated arguments are `scalify.Array`s over the caller's memory.

        Raises:
            ValueError: a donated array is not dense or not writable.
        """
        return self._run(self._signature.bind(args, {}), in_place=True)

    def _run(self, arguments: Arguments, in_place: bool) -> Any:
        entry = None if self._call is None else self._call.finds(arguments)
        if entry is None:
            entry = self._found(arguments)
        leaves = arguments.leaves
        results = entry.update(leaves) if in_place else entry.run(leaves)
        try:
            self._look(entry, leaves, results)
        except Warning as warning:
            # A filter makes it an error, and donated arguments are gone.
            warning.results = jax.tree.unflatten(entry.lowered.out_tree, results)  # type: ignore[attr-defined]
            warning.add_note("The step has run: `results` of this exception has what it returns.")
            raise
        return jax.tree.unflatten(entry.lowered.out_tree, results)

    def _found(self, arguments: Arguments) -> Entry:
        """Returns the entry for a call's arguments, and compiles it if there is none."""
        key = self._key(arguments)
        before = None if key == self._last_key else self._last
        is_same_program = before is not None and self._last_key[:2] == key[:2]
        is_new = key not in self._entries
        entry = self._entry(arguments, key)
        if entry is not self._last:
            self._last, self._last_key = entry, key
            self._last_arguments = describe_arguments(arguments)
        if before is not None and is_same_program:
            self._carry_over_kept_state(before, entry, is_new)
        if self._settings.calibrates:
            calibrate_on(entry, arguments.leaves)
        kinds, types = set(map(type, arguments.leaves)), types_of(arguments.leaves)
        statics = (arguments.statics, arguments.static_types())
        self._call = LastCall(arguments.tree, *statics, kinds, types, trace_context(), entry)
        return entry

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        # Binds as a function in a class does: the instance becomes the first argument.
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickles the function and its options: the loaded copy compiles anew.

        Measured scales and kept state are not pickled; `state` has them, for checkpoints.
        """
        if self.made_by is None:
            raise pickle.PicklingError("only a Jit that scalify.jit has made can be pickled")
        return pickle_name(self) or self.made_by

    @property
    def mesh(self) -> Mesh | None:
        """The ranks that the step runs on, None without a mesh."""
        return self._mesh

    @property
    def recipe(self) -> str:
        """The recipe under which the step is compiled, a name or a text: see `Recipe.of`."""
        return str(self._options["recipe"])

    def rescale(self) -> int:
        """Moves the scales of casts by the counts of the last step; see `Executable.rescale`."""
        return self.executable().rescale()

    def widened(self) -> tuple[WideCast, ...]:
        """Returns the casts that the policy "widen" found, for the arguments of the last call.

        The next compilation leaves them wide: after `recompile`, or in another process that gets
        them as `scalify.Numerics(wide=)`.
        """
        tracker = self._trackers.get(self._last_key)
        return () if tracker is None else tuple(tracker.widened)

    def recompile(self) -> None:
        """Drops compiled code: the next call compiles, and leaves the casts of `widened` wide.

        State that executables keep is carried over: scales and amaxes by the names of their casts.
        """
        for key, entry in self._entries.items():
            if not entry.executable.has_initial_state:
                self._kept[key] = KeptRows.of(entry.executable)
        self._entries.clear()
        self._corrections.drop_programs()
        self._call = None

    def clear_cache(self) -> None:
        """Drops compiled code, as `recompile` does."""
        self.recompile()

    def state(self) -> JitState | None:
        """Returns the state kept besides the caller's arrays, for arguments of the last call.

        `scalify.checkpoint` saves it. None before the first call.
        """
        if self._last is None:
            return self._left if self._restored is None else self._restored
        return JitState.of_executable(
            self._last.executable,
            self._last_arguments,
            self.recipe,
            self._renewed.get(self._last_key, self._last.scales),
            self._last.wide if self._last_key in self._entries else self.widened(),
            self._trackers.get(self._last_key),
            self._watch.steps.get(self._last_key, 0),
            self._mesh,
            self._has_adapted,
            self._last_key in self._renewed,
            self._corrections.of(self._last_key),
        )

    def restore(self, state: JitState | None) -> None:
        """Makes the next call with a state's arguments continue from that state.

        It compiles as before: with the measured scales, unless `Numerics` gives others, and with
        the same casts left wide. The state kept until now is dropped; with None the next call
        starts anew.
        """
        self._restored, self._last, self._left, self._call = state, None, None, None
        self._watch, self._has_adapted = self._make_watch(), False
        self._entries.clear()
        for kept in (
            self._measured,
            self._trackers,
            self._kept,
            self._renewed,
            self._left_of,
            self._corrections,
        ):
            kept.clear()
        is_alike = state is not None and state.adapts and state.recipe == self.recipe
        if is_alike and self._watch.policy is not None and self._watch.policy.action == "adapt":
            self._adapt()

    def _resume(self, arguments: Arguments, key: Hashable) -> Entry | None:
        """Returns the entry that continues a restored state; None if it is of other arguments."""
        state = self._restored
        if state is None:
            return None
        if state.arguments != describe_arguments(arguments):
            warn(
                f"'{self._signature.name}' starts anew for these arguments, since the checkpoint "
                "is of a step of others: the state that it keeps besides them is ignored",
            )
            return None
        if state.scales is not None:
            self._measured[scales_key(key)] = state.scales
        self._trackers[key] = WidenTracker(state.widened, state.unhealthy)
        self._watch.steps[key] = state.steps
        self._corrections.set(key, state.correction)
        lowered = self._signature.lower(arguments)
        scales = self._scales_for(arguments)
        executable = self._compile(lowered, scales, state.wide, state.correction)
        state.apply(executable, self._signature.name)
        self._restored = None
        return self._compiled(lowered, executable, state.wide, scales, state.correction)

    def _look(self, entry: Entry, leaves: Sequence[Any], results: Sequence[Any]) -> None:
        """Applies the health policy to the step that has just run, and renews decisions."""
        key, executable = self._last_key, entry.executable
        if self._watch.is_due(key) or self._needs_check_now(executable):
            self._check(entry, leaves, results)
        policy, steps = self._watch.policy, self._watch.steps[key]
        if policy is None or not self._settings.renews:
            return
        first = executable if self._settings.is_alone else None
        if self._corrections.is_due(key, steps, policy.every, first) and key in self._entries:
            self._renew(entry, leaves, results, may_narrow(steps, policy.every))

    def _check(self, entry: Entry, leaves: Sequence[Any], results: Sequence[Any]) -> None:
        """Applies the health policy to the step that has just run."""
        watch, executable = self._watch, entry.executable

        def state() -> tuple[Sequence[Any], Sequence[Any]]:
            return entry.assumptions_after_step(leaves, results)

        action = watch.policy.action if watch.policy is not None else None
        tracker = WidenTracker()
        if action == "widen":
            tracker = self._trackers.setdefault(self._last_key, tracker)
        # Ranks must change casts identically, so they decide by the counts of all ranks.
        is_shared = self._pipeline is None and action in ("adapt", "widen")
        health = executable.health_of_all() if is_shared else executable.health()
        is_packed = any(argument["storage"] is not None for argument in executable.args)
        if watch.look(health, state, tracker, self._may_adapt() and not is_packed):
            self._adapt()
            self.recompile()
        elif (
            action == "rescale" and executable.cast_scales is not None and not executable.rescale()
        ):
            watch.stuck(health)

    def _renew(
        self, entry: Entry, leaves: Sequence[Any], results: Sequence[Any], narrows: bool
    ) -> None:
        """Lets the next call compile with the formats that scales and gradients call for now."""
        if entry.scales is None:
            return
        key = self._last_key

        def options(scales: Scales, correction: int) -> dict[str, Any]:
            return self._compile_options(entry.lowered, scales, entry.wide, correction)

        try:
            found = self._corrections.renewal(key, entry, options, (leaves, results), narrows)
        except Exception as error:
            # The step has run and may have taken over its arguments: its results must not be lost.
            self._watch.warn_not_renewed(error)
            return
        # Another thread may have called the step and done the same.
        if found is None or self._entries.get(key) is not entry:
            return
        self._corrections.set(key, found.correction)
        self._measured[scales_key(key)] = self._renewed[key] = found.scales
        self._left_of[key] = self.state()
        self._entries.pop(key, None)
        self._call = None
        self._watch.warn_renewed(found.changed, found.dots)

    def _needs_check_now(self, executable: Executable) -> bool:
        """Whether to check the step that has just run although no check is due."""
        policy = self._watch.policy
        if policy is None or policy.action == "widen" or policy.at_once >= 1:
            return False
        # All ranks check at the same steps, and so does a process that simulates them.
        return self._settings.is_alone and executable.is_lost(policy.at_once)

    def _may_adapt(self) -> bool:
        return self._pipeline is None and not self._has_adapted and may_adapt(self._options)

    def _adapt(self) -> None:
        """Makes later compilations use scales that move."""
        if self._may_adapt():
            self._has_adapted = True
            self._watch.adapt()

    def trace(self, *args: Any, **kwargs: Any) -> TracedStep:
        """Traces the step for arguments of these types, as `jax.jit(f).trace` does."""
        arguments = self._signature.bind(args, kwargs)
        scales = self._scales_for(arguments)

        def compiled(lowered: Lowered) -> Entry:
            executable = self._compile(lowered, scales, stays=True)
            return Entry(lowered, executable, self._mesh, calibrates=self._settings.calibrates)

        return TracedStep(self._signature, arguments, self._key(arguments), compiled)

    def lower(self, *args: Any, **kwargs: Any) -> LoweredStep:
        """Lowers the step for arguments of these types; `.compile()` compiles it."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Returns shapes and dtypes of the results, as a tree; compiles nothing."""
        return self._signature.eval_shape(args, kwargs)

    def executable(self, *args: Any, **kwargs: Any) -> Executable:
        """Returns the executable for arguments of these types; without any, that of the last call.

        Raises:
            RuntimeError: there are no arguments, and no call yet.
        """
        if args or kwargs:
            arguments = self._signature.bind(args, kwargs)
            return self._entry(arguments, self._key(arguments)).executable
        if self._last is None:
            raise RuntimeError(f"'{self._signature.name}' has not been called yet")
        return self._last.executable

    def memory(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns the bytes of the step's plan, as `Executable.memory`; called like `executable`.

        A step that is not compiled yet is planned without kernels, which take most of the time of
        a compilation.
        """
        if not args and not kwargs:
            return self.executable().memory
        arguments = self._signature.bind(args, kwargs)
        key = self._key(arguments)
        if key in self._entries:
            return self._entries[key].executable.memory
        lowered = self._signature.lower(arguments)
        given = self._scales_for(arguments), self._widened(key), self._corrections.of(key)
        return self._compile(lowered, *given, plan_only=True).memory

    def report(self, *args: Any, **kwargs: Any) -> Report:
        """Returns the scale and format of each value, and why; called like `executable`."""
        return self.executable(*args, **kwargs).report()

    def health(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """Returns the counts of each cast in the last step.

        Args:
            *args: none, or the step's current arguments: then a row follows for each assumption of
                proofs that they violate, as in `Executable.health`. A rank checks its own part of a
                Shard.
            **kwargs: arguments given by name.
        """
        rows = self.executable().health()
        if self._last is not None and (args or kwargs):
            leaves = self._signature.bind(args, kwargs).leaves
            rows += violated_assumptions(*self._last.assumed(leaves))
        return rows

    def scales(self, *args: Any, **kwargs: Any) -> Scales:
        """Returns the scales of the arguments, to save with a checkpoint; called like `executable`.

        Give them to `scalify.jit` as `Numerics(scales=)` when training resumes: the step then
        compiles as before.

        Raises:
            ValueError: a stage of a pipeline has neither measured scales nor given ones.
        """
        executable = self.executable(*args, **kwargs)
        if "pipeline" not in executable.manifest:
            return executable.scales
        # A stage has only its own arguments.
        if self._measured:
            return next(reversed(self._measured.values()))
        if isinstance(self._given, Scales):
            return self._given
        raise ValueError("a stage of a pipeline has only its own scales: keep those given to jit")

    def _key(self, arguments: Arguments) -> tuple[Any, ...]:
        """Returns the key of a compilation.

        Raises:
            TypeError: a leaf is not an array, or a static value has no hash; the message names it.
        """
        return self._signature.key(arguments)

    def _carry_over_kept_state(self, before: Entry, entry: Entry, is_new: bool) -> None:
        """Lets a step of other shapes continue with the kept state of the last one, by name."""
        rows, anew = carry_over(before.executable, entry.executable)
        if not rows or not is_new:
            return
        lost = f"; {anew} of them start anew" if anew else ""
        warn(
            f"'{self._signature.name}' is compiled once more, for "
            f"{describe_changed_type(before.lowered, entry.lowered)}: {rows} rows of its kept "
            f"state (scales, amaxes) are carried over by name{lost}"
        )

    def _entry(self, arguments: Arguments, key: Hashable) -> Entry:
        entry = self._entries.get(key)
        if entry is None:
            left = self._release_last_executable(key)
            try:
                entry = self._resume(arguments, key) or self._made(arguments, key)
            except BaseException:
                self._left = left
                raise
            self._entries[key] = entry
            if left is not None:
                left.show_counters(entry.executable)
                self._last = entry
        if not entry.is_agreed:
            entry = self._entries[key] = agreed(entry, arguments.leaves, self._last is None)
        return entry

    def _release_last_executable(self, key: Hashable) -> JitState | None:
        """Frees the last call's executable before compiling its replacement; returns its state."""
        if self._last is None or key != self._last_key or self._pipeline is not None:
            return None
        left = self.state()
        self._last = self._call = None
        return left

    def _made(self, arguments: Arguments, key: Hashable) -> Entry:
        lowered = self._signature.lower(arguments)
        wide = self._widened(key)
        measured = self._scales_for(arguments)
        correction = self._corrections.of(key)
        executable = self._compile(lowered, measured, wide, correction)
        if (kept := self._kept.pop(key, None)) is not None:
            kept.carry_to(executable)
        self._renewed.pop(key, None)
        if (state := self._left_of.pop(key, None)) is not None:
            state.carry_to(executable)
        return self._compiled(lowered, executable, wide, measured, correction)

    def _compiled(
        self,
        lowered: Lowered,
        executable: Executable,
        wide: tuple[WideCast, ...],
        scales: ScalesLike,
        correction: int,
    ) -> Entry:
        measured = scales if self._given is None and isinstance(scales, Scales) else None
        return Entry(lowered, executable, self._mesh, wide, scales=measured, correction=correction)

    def _widened(self, key: Hashable) -> tuple[WideCast, ...]:
        return tuple(self._trackers.get(key, WidenTracker()).widened)

    def _scales_for(self, arguments: Arguments) -> ScalesLike:
        """Returns the given scales, or those measured at the first call of this structure."""
        if self._given is not None or not Recipe.of(self.recipe).casts:
            return self._given
        key = scales_key(arguments.key())
        if key not in self._measured:
            if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in arguments.leaves):
                return None
            # Whole arrays, so that all ranks measure the same scales.
            whole = [one.gather() if isinstance(one, Shard) else one for one in arguments.leaves]
            whole = [np.asarray(one) if isinstance(one, Saved) else host_view(one) for one in whole]
            self._measured[key] = measure(whole)
        return self._measured[key]

    def _compile_options(
        self,
        lowered: Lowered,
        scales: ScalesLike,
        widened: Sequence[WideCast] = (),
        correction: int = 0,
        stays: bool = False,
    ) -> dict[str, Any]:
        """Returns the compiler's options; `stays`: the formats are not chosen again."""
        count = len(lowered.in_avals)
        options = {**self._options, **argument_options(scales, count)}
        # Without values, as within a trace, nothing is measured, and nothing to compare with.
        if self._given is None and (stays or scales is None):
            options["formatsStay"] = True
        if correction:
            options["noiseExponent"] = correction
        if self._has_adapted:
            options |= {"adaptScales": True, "packState": False}
        if widened:
            options["wide"] = [*options.get("wide", []), *wide_option(widened)]
        if (ranges := range_option(scales, self._settings.ranges, count)) is not None:
            options["ranges"] = ranges
        return options

    def _compile(
        self,
        lowered: Lowered,
        scales: ScalesLike,
        widened: Sequence[WideCast] = (),
        correction: int = 0,
        plan_only: bool = False,
        stays: bool = False,
    ) -> Executable:
        options = self._compile_options(lowered, scales, widened, correction, stays)
        if plan_only:
            options["planOnly"] = True
        run = (options, self._settings.threads, "null" if plan_only else self._settings.device)
        executable = compile_on(self._settings.distribution, lowered.text, *run)
        executable.bind_callbacks(lowered.callbacks)
        return executable
