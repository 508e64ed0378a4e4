"""scalify.jit: an unmodified JAX function, compiled by Scalify and run by its runtime."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import jax
import numpy as np

from scalify._entry import Entry
from scalify._executable import Executable, attention_option, compile_text
from scalify._jit_state import COUNTERS, JitState, describe_arguments
from scalify._kept import CAST_SCALES
from scalify._lowering import Arguments, Lowered, Signature
from scalify._ranks import abstract_mesh, compile_on
from scalify._saved import Saved
from scalify._stages import Pipeline
from scalify._watch import Health, Watch, advice_for, may_adapt, policy_of
from scalify.calibration import (
    Calibration,
    HealthPolicy,
    Patient,
    WideCast,
    scale_options,
    wide_option,
)
from scalify.mesh import Mesh, Shard
from scalify.ranges import RangesLike, broken_assumptions
from scalify.recipe import Recipe, RecipeLike
from scalify.report import Report
from scalify.scales import Scales, ScalesLike, measure, range_option, roles_option, to_option

__all__ = ["Jit", "LoweredStep", "jit"]


class LoweredStep:
    """A traced step, as `jax.jit(f).lower(...)` gives it."""

    def __init__(self, lowered: Lowered, compiled: Callable[[Lowered], Executable]) -> None:
        self._lowered = lowered
        self._compiled = compiled

    def as_text(self) -> str:
        """Returns the StableHLO text, locations included."""
        return self._lowered.text

    def compile(self) -> Executable:
        """Returns the executable on flat arrays.

        Raises:
            scalify.CompileError: the program or the recipe cannot be.
        """
        return self._compiled(self._lowered)


class Jit:
    """A compiled function of pytrees; one executable per shape, structure and static value."""

    def __init__(
        self,
        signature: Signature,
        options: dict[str, Any],
        scales: ScalesLike,
        threads: int,
        policy: HealthPolicy | None = None,
        ranges: RangesLike = None,
        device: str | None = None,
        mesh: Mesh | None = None,
        zero: int = 0,
        pipeline: Pipeline | None = None,
        reduce: Literal["last", "each"] | None = None,
    ) -> None:
        self._signature = signature
        self._given = scales
        self._ranges = ranges
        self._measured: dict[Hashable, Scales] = {}
        self._threads = threads
        self._device = device
        self._mesh = mesh
        self._zero = zero
        self._pipeline = pipeline
        self._reduce: Literal["last", "each"] | None = reduce
        self._entries: dict[Hashable, Entry] = {}
        self._last: Entry | None = None
        self._patients: dict[Hashable, Patient] = {}
        self._kept_scales: dict[Hashable, dict[str, float]] = {}
        self._kept_state: dict[Hashable, dict[str, Any]] = {}
        self._last_key: Hashable = None
        self._last_arguments: list[Any] = []
        self._restored: JitState | None = None
        self._options = options
        self._policy = policy
        self._watch = self._watched()
        self._has_adapted = False
        self._left: JitState | None = None
        functools.update_wrapper(self, signature.fn, updated=())

    def _watched(self) -> Watch:
        """Returns what looks at the steps of a run."""
        is_in_stages = self._pipeline is not None
        is_adaptive = bool(self._options.get("adaptScales"))

        def advice() -> str:
            return advice_for(self.recipe, is_in_stages, is_adaptive)

        return Watch(self._policy, self._signature.name, advice)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one step: pytrees in, pytrees out.

        Donated results are `scalify.Array`s, which the next call takes without a copy. Others
        are JAX arrays where an argument was one, else numpy arrays, or Arrays in a GPU's memory.

        Raises:
            scalify.CompileError: at the first call of a shape.
            ValueError: an Array that an earlier step has consumed.
        """
        arguments = self._signature.bind(args, kwargs)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in arguments.leaves):
            raise TypeError(
                f"'{self._signature.name}' runs on arrays, and is called while JAX traces "
                "(jax.jit, jax.grad, jax.vmap, jax.shard_map): use scalify.transform inside of "
                "these; its scales are constants or measured in the step"
            )
        key = arguments.key()
        entry = self._entry(arguments, key)
        if entry is not self._last:
            self._last, self._last_key = entry, key
            self._last_arguments = describe_arguments(arguments)
        results = entry.run(arguments.leaves)
        self._look(entry, arguments.leaves, results)
        return jax.tree.unflatten(entry.lowered.out_tree, results)

    @property
    def mesh(self) -> Mesh | None:
        """The ranks that the step runs on, None without a mesh."""
        return self._mesh

    @property
    def recipe(self) -> str:
        """The recipe by which the step is compiled, a name or a text: see `Recipe.of`."""
        return str(self._options["recipe"])

    def rescale(self) -> int:
        """Moves the scales of casts by what the last step counted; see `Executable.rescale`."""
        return self.executable().rescale()

    def widened(self) -> tuple[WideCast, ...]:
        """Returns the casts that the policy "widen" found, for the arguments of the last call.

        The next compilation leaves them wide: that after `recompile`, or one in another process
        that gets them as `scalify.jit(..., wide=)`.
        """
        patient = self._patients.get(self._last_key)
        return () if patient is None else tuple(patient.widened)

    def recompile(self) -> None:
        """Forgets compiled code: the next call compiles, with what `widened` lists left wide.

        Scales of casts that have moved stay where they are. So does what else executables keep,
        unless casts are left wide: rows of a history of amaxes are others then, and it starts
        anew.
        """
        for key, entry in self._entries.items():
            self._kept_state[key] = entry.executable.kept
            scales = self._kept_state[key].pop(CAST_SCALES, None)
            if scales is not None:
                casts = [row["cast"] for row in entry.executable.report().casts()]
                self._kept_scales[key] = dict(zip(casts, scales.tolist(), strict=True))
        self._entries.clear()

    def state(self) -> JitState | None:
        """Returns what it keeps besides the caller's arrays, for arguments of the last call.

        That is for `scalify.checkpoint`. None before the first call.
        """
        if self._last is None:
            return self._left if self._restored is None else self._restored
        tree, statics, _ = cast(tuple[Any, Any, Any], self._last_key)
        return JitState.of_executable(
            self._last.executable,
            self._last_arguments,
            self.recipe,
            self._measured.get((tree, statics)),
            self._last.wide if self._last_key in self._entries else self.widened(),
            self._patients.get(self._last_key),
            self._watch.steps.get(self._last_key, 0),
            self._mesh,
            self._has_adapted,
        )

    def restore(self, state: JitState | None) -> None:
        """Lets the next call with the arguments of a state go on where that was taken.

        It compiles as then: with the scales that were measured, unless `scales=` says others, and
        with the same casts left wide. What it kept is forgotten; with None it starts anew.
        """
        self._restored, self._last, self._left = state, None, None
        self._watch, self._has_adapted = self._watched(), False
        self._entries.clear()
        for kept in (self._measured, self._patients, self._kept_scales, self._kept_state):
            kept.clear()
        is_alike = state is not None and state.adapts and state.recipe == self.recipe
        if is_alike and self._watch.policy is not None and self._watch.policy.action == "adapt":
            self._adapt()

    def _resume(self, arguments: Arguments, key: Hashable) -> Entry | None:
        """Returns the entry that goes on by a restored state; None if that is of others."""
        state = self._restored
        if state is None:
            return None
        if state.arguments != describe_arguments(arguments):
            warnings.warn(
                f"'{self._signature.name}' starts anew for these arguments, since the checkpoint "
                "is of a step of others: what it keeps besides them is left aside",
                stacklevel=4,
            )
            return None
        if state.scales is not None:
            self._measured[arguments.tree, arguments.statics] = state.scales
        self._patients[key] = Patient(state.widened, state.sick)
        self._watch.steps[key] = state.steps
        lowered = self._signature.lower(arguments)
        executable = self._compile(lowered, self._scales_for(arguments), state.wide)
        state.apply(executable, self._signature.name)
        self._restored = None
        return Entry(lowered, executable, self._mesh, state.wide)

    def _look(self, entry: Entry, leaves: Sequence[Any], results: Sequence[Any]) -> None:
        """Applies the health policy to the step that has just run."""
        watch, executable = self._watch, entry.executable
        if not watch.is_due(self._last_key) and not self._is_lost(executable):
            return

        def state() -> tuple[Sequence[Any], Sequence[Any]]:
            return entry.assumed_after(leaves, results)

        action = watch.policy.action if watch.policy is not None else None
        patient = Patient()
        if action == "widen":
            patient = self._patients.setdefault(self._last_key, patient)
        # What ranks do to casts they do alike, by what all of them counted.
        is_shared = self._pipeline is None and action in ("adapt", "widen")
        health = executable.health_of_all() if is_shared else executable.health()
        is_packed = any(argument["storage"] is not None for argument in executable.args)
        if watch.look(health, state, patient, self._may_adapt() and not is_packed):
            self._adapt()
            self.recompile()
        elif (
            action == "rescale" and executable.cast_scales is not None and not executable.rescale()
        ):
            watch.stuck(health)

    def _is_lost(self, executable: Executable) -> bool:
        """Whether the step that has just run is looked at though no look is due."""
        policy = self._watch.policy
        if policy is None or policy.action == "widen" or policy.at_once >= 1:
            return False
        # Ranks look together, and one process that simulates them looks when they do.
        is_alone = self._mesh is None and Recipe.of(self.recipe).simulated_ranks == 1
        return is_alone and executable.is_lost(policy.at_once)

    def _may_adapt(self) -> bool:
        return self._pipeline is None and not self._has_adapted and may_adapt(self._options)

    def _adapt(self) -> None:
        """Lets what is compiled from here on have scales that move, and moves them."""
        if self._may_adapt():
            self._has_adapted = True
            self._watch.adapt()

    def lower(self, *args: Any, **kwargs: Any) -> LoweredStep:
        """Traces the step for arguments of these types; `.compile()` gives the executable."""
        arguments = self._signature.bind(args, kwargs)
        scales = self._scales_for(arguments)
        return LoweredStep(
            self._signature.lower(arguments), lambda lowered: self._compile(lowered, scales)
        )

    def executable(self, *args: Any, **kwargs: Any) -> Executable:
        """Returns the executable for arguments of these types; without any, of the last call.

        Raises:
            RuntimeError: without arguments before the first call.
        """
        if args or kwargs:
            arguments = self._signature.bind(args, kwargs)
            return self._entry(arguments, arguments.key()).executable
        if self._last is None:
            raise RuntimeError(f"'{self._signature.name}' has not been called yet")
        return self._last.executable

    def report(self, *args: Any, **kwargs: Any) -> Report:
        """Returns what got which scale and format, and why; arguments as for `executable`."""
        return self.executable(*args, **kwargs).report()

    def health(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """Returns what each cast of the last step counted.

        Args:
            *args: none, or the step's arguments as they are now: a row follows for each
                assumption of proofs that they break, as `Executable.health` has it. Of a
                Shard a rank looks at its own part.
            **kwargs: those given by name.
        """
        rows = self.executable().health()
        if self._last is not None and (args or kwargs):
            leaves = self._signature.bind(args, kwargs).leaves
            rows += broken_assumptions(*self._last.assumed(leaves))
        return rows

    def scales(self, *args: Any, **kwargs: Any) -> Scales:
        """Returns the scales of the arguments, to keep with a checkpoint; as for `executable`.

        Give them to `scalify.jit(..., scales=)` when training resumes: the step is then
        compiled as it was.
        """
        executable = self.executable(*args, **kwargs)
        if "pipeline" not in executable.manifest:
            return executable.scales
        # A stage has only its own arguments.
        if self._measured:
            return next(reversed(self._measured.values()))
        if isinstance(self._given, Scales):
            return self._given
        raise ValueError("a stage of a pipeline knows its own scales alone: keep those given")

    def _entry(self, arguments: Arguments, key: Hashable) -> Entry:
        if key not in self._entries:
            left = self._let_go(key)
            try:
                entry = self._resume(arguments, key) or self._made(arguments, key)
            except BaseException:
                self._left = left
                raise
            self._entries[key] = entry
            if left is not None:
                counters = left.arrays[COUNTERS]
                if counters.shape == entry.executable.counters.shape:
                    entry.executable.counters = counters
                self._last = entry
        return self._entries[key]

    def _let_go(self, key: Hashable) -> JitState | None:
        """Frees the last call's executable before another takes its place; returns its state."""
        if self._last is None or key != self._last_key or self._pipeline is not None:
            return None
        left = self.state()
        self._last = None
        return left

    def _made(self, arguments: Arguments, key: Hashable) -> Entry:
        lowered = self._signature.lower(arguments)
        wide = tuple(self._patients.get(key, Patient()).widened)
        executable = self._compile(lowered, self._scales_for(arguments), wide)
        scales, kept = executable.cast_scales, self._kept_scales.get(key)
        if scales is not None and kept is not None:
            casts = [row["cast"] for row in executable.report().casts()]
            executable.cast_scales = [
                kept.get(cast, scale) for cast, scale in zip(casts, scales, strict=True)
            ]
        executable.take_over(self._kept_state.pop(key, {}))
        return Entry(lowered, executable, self._mesh, wide)

    def _scales_for(self, arguments: Arguments) -> ScalesLike:
        """Returns the given scales, or those measured at the first call of this structure."""
        if self._given is not None or not Recipe.of(self.recipe).casts:
            return self._given
        key = (arguments.tree, arguments.statics)
        if key not in self._measured:
            if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in arguments.leaves):
                return None
            # Ranks measure the same: whole arrays.
            whole = [one.gather() if isinstance(one, Shard) else one for one in arguments.leaves]
            whole = [np.asarray(one) if isinstance(one, Saved) else one for one in whole]
            self._measured[key] = measure(whole)
        return self._measured[key]

    def _compile(
        self, lowered: Lowered, scales: ScalesLike, widened: Sequence[WideCast] = ()
    ) -> Executable:
        count = len(lowered.in_avals)
        options = dict(self._options, scales=to_option(scales, count))
        if self._has_adapted:
            options |= {"adaptScales": True, "packState": False}
        if widened:
            options["wide"] = [*options.get("wide", []), *wide_option(widened)]
        if (ranges := range_option(scales, self._ranges, count)) is not None:
            options["ranges"] = ranges
        if self._mesh is not None:
            parts = (self._zero, self._pipeline, self._reduce)
            return compile_on(
                self._mesh, lowered.text, options, self._threads, self._device, *parts
            )
        return compile_text(lowered.text, options, self._threads, self._device)


def jit(
    fn: Callable[..., Any],
    recipe: RecipeLike = "fp8",
    target: str = "cpu",
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    mesh: Mesh | None = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    zero: Literal[0, 1, 2, 3] = 0,
    pipeline: Pipeline | None = None,
    reduce: Literal["last", "each"] | None = None,
    memory_limit: int | None = None,
    strict: bool = False,
    scales: ScalesLike = None,
    roles: Mapping[str, str] | None = None,
    ranges: RangesLike = None,
    range_use: Literal["report", "choose"] = "report",
    calibration: Calibration | None = None,
    rescale: Sequence[str] = (),
    adaptive_scales: bool | None = None,
    health: Health = None,
    wide: Sequence[WideCast] = (),
    pack_state: bool = True,
    mcpu: str | None = None,
    threads: int = 0,
    report: str = "brief",
    device: str | None = None,
    streams: int = 1,
    library_attention: Literal["recipe", "exact", "none"] = "recipe",
    epilogues: Literal["exact", "all", "none"] = "exact",
    overlap: bool = True,
    bucket_bytes: int | None = None,
    sums: Literal["ordered", "nccl"] = "ordered",
) -> Jit:
    """Returns `fn` compiled by a recipe: pytrees in, pytrees out, donated in place.

    Compiles at the first call for each structure, shapes, dtypes and static values, as
    `jax.jit` does. The scales of arguments are measured at that first call, never again.

    Args:
        fn: a JAX function of pytrees of arrays, unmodified.
        recipe: a preset's name (see `scalify.recipes()`), a `#scalify.recipe<...>`, or a
            `scalify.Recipe`.
        target: "cpu", or "sm_90a" for H100 and H200, which needs no GPU to compile.
        static_argnums: positions of arguments that are no arrays, as `jax.jit` has them.
        static_argnames: their names.
        donate_argnums: positions of arguments whose memory the results take over.
        donate_argnames: their names.
        mesh: the ranks that the step runs on, from `scalify.make_mesh`; one process for each, or
            one alone that computes what all would. Arguments are whole arrays, the same on every
            rank, or `scalify.Shard`s; results that lie in parts are Shards.
        in_shardings: trees of `jax.sharding.PartitionSpec`s over the mesh's axes, as `jax.jit`
            takes them: how arguments lie on the ranks. None leaves it to the partitioner.
        out_shardings: the same of results. A donated argument's is best said on both sides.
        zero: level of ZeRO: donated state that ranks would all keep alike is kept in shares, with 1
            and 2 moments, with 3 parameters too; such results are Shards.
        pipeline: how the step is cut over the ranks of a mesh's axis, at its
            `scalify.lax.stage_border`s. Each stage keeps the state of its layers, on the ranks of
            the mesh's other axes as shardings and `zero` say: such results are Shards that are
            empty elsewhere. Alone, the process runs the step of all stages.
        reduce: of gradients that a loop over micro-batches adds up, whether ranks sum them behind
            the last one, or "each" as it comes: as many times the bytes, and with `zero` a share of
            them in memory. None is "last", unless `memory_limit` asks for less.
        memory_limit: bytes that a rank may need for a step, by its plan. Where it would need more,
            weights in shares are gathered again for the backward, or gradients are summed by
            micro-batches, whichever moves fewer bytes; a remark, or with `strict` an error, where
            that is not enough.
        strict: make an op without a rule, or a dot that misses its format, an error.
        scales: of the arguments, from `scalify.measure` or `Jit.scales`, instead of measuring.
        roles: of arguments that the rules take for others, as `{"regular expression": role}`,
            searched in the names that reports print; the first match counts. A role is "param",
            "master", "moment", "state", "batch", "input" or "scalar".
        ranges: what proofs may assume of arguments, by name or as a list in main's order; it
            counts before what was measured with the scales (`scalify.measure_ranges`).
        range_use: "choose" lets the proofs decide: a value whose bound is beyond E4M3 and within
            E5M2 is cast to that, and with `strict` a dot on an unproved value stays wide.
        calibration: measured scales of casts, from `scalify.calibrate`; its arguments' scales
            count if `scales` is not given.
        rescale: where the step measures scales: "residual_grad", "residual", or a regular
            expression that is searched in JAX's names, "grad:" before it for gradients.
        adaptive_scales: keep the scales of casts beside the state instead of in the code, so that
            `Jit.rescale` moves them without a new compilation; the policy "rescale" implies it.
        health: what to do, between two steps, about casts that clip: an action of
            `scalify.HealthPolicy`, or a policy with its limits. None looks at every 20th step: it
            warns of NaNs, and where a cast saturates more than a thousandth of its values, constant
            scales are left for such that move ("adapt"). "off" does not look.
        wide: casts to leave wide, with the dots that read them, from `Jit.widened`.
        pack_state: let donated state that the recipe stores narrow be `scalify.ScaledArray`s
            between steps, of one or two bytes an element. False, and with adaptive scales: F32
            with the same values.
        mcpu: the CPU whose instructions kernels may use; "x86-64-v3" if not given.
        threads: 0 for one per core that the process may use. Results do not depend on it.
        report: "full" keeps every value, its facts and where they came from in the artefact.
        device: where steps run, as for `scalify.Executable`.
        streams: of a GPU, how many streams commands that do not fill it may run on side by side.
        library_attention: of a GPU, which attentions in 16 bits are cuDNN's: "exact" where the
            program rounds the results as cuDNN does, "recipe" also where the recipe has made the
            operands BF16, and "none" for a machine without cuDNN: kernels and products then.
        epilogues: of a GPU, whether biases, ReLUs and casts to FP8 behind products are the
            library's: "exact" where no rounding and no count changes, "all" also casts that health
            counts, where the library rounds once and the program more often, GELU in its tanh form
            by the library's tanh, and the gradients of GELU and ReLU.
        overlap: whether what ranks exchange goes on beside what is computed, with the same bits.
        bucket_bytes: on several ranks, of what a rank gives to a bucket, that is to one message of
            several arrays; 0 for none. None is 1 MiB on CPUs, 25 MiB on GPUs, 0 with `pipeline`.
        sums: of floats over ranks, in their order as one process makes them, or by NCCL in its own.
    """
    policy = policy_of(health, adaptive_scales)
    if mesh is None and (in_shardings is not None or out_shardings is not None):
        raise ValueError("shardings need a mesh: mesh=scalify.make_mesh(data=4)")
    if mesh is None and zero:
        raise ValueError("zero= needs a mesh: ranks that share state")
    if pipeline is not None:
        pipeline.check(mesh, (in_shardings, out_shardings), zero)
        if memory_limit:
            raise ValueError(
                "memory_limit with pipeline=: stages keep what they gather; leave it out"
            )
    if pipeline is not None and policy is not None and policy.action in ("rescale", "widen"):
        raise ValueError(
            f"health policy '{policy.action}' with pipeline=: a stage counts its own casts alone, "
            "and the others would differ; leave one of the two out"
        )
    signature = Signature(
        fn,
        static_argnums,
        static_argnames,
        donate_argnums,
        donate_argnames,
        {"in_shardings": in_shardings, "out_shardings": out_shardings},
        abstract_mesh(mesh, pipeline),
    )
    rescales = policy is not None and policy.action == "rescale"
    extra, scales = scale_options(recipe, scales, calibration, rescale, wide)
    extra |= {"rangeUse": range_use, "packState": pack_state}
    options = {
        "recipe": str(recipe),
        "target": target,
        "strict": strict,
        "mcpu": mcpu,
        "report": report,
        "streams": streams,
        "libraryAttention": attention_option(library_attention),
        "epilogues": epilogues,
        "overlap": overlap,
        "sums": sums,
        "bucketBytes": bucket_bytes,
        "memoryLimit": memory_limit,
    } | (extra | roles_option(roles))
    if (rescales or adaptive_scales) and Recipe.of(recipe).is_delayed:
        raise ValueError(
            f"recipe '{recipe}' moves scales by the amaxes of earlier steps: leave out "
            "adaptive_scales and the health policy 'rescale', which move them by what was counted"
        )
    if adaptive_scales and pipeline is not None:
        raise ValueError(
            "adaptive_scales=True with pipeline=: a stage counts its own casts alone, and scales "
            "that follow counts would differ"
        )
    if rescales or adaptive_scales:
        # Scales of state move too, which F32 state takes as it is.
        options |= {"adaptScales": True, "packState": False}
    return Jit(
        signature, options, scales, threads, policy, ranges, device, mesh, zero, pipeline, reduce
    )
