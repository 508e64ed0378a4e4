"""StableHLO to StableHLO: a function rewritten by a recipe, run by JAX on any XLA backend."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import pickle
import types
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, cast

import jax
import numpy as np

from scalify import _compiler, _runtime
from scalify._call import Module, added_arguments, call, out_avals
from scalify._closure import opened
from scalify._diagnostics import issue_warnings
from scalify._groups import regroup
from scalify._lowering import (
    Arguments,
    Batch,
    Lowered,
    Signature,
    scales_key,
    to_logical,
    to_physical,
    type_of,
)
from scalify._nested import ClosureError
from scalify._scaled_array import ScaledArray
from scalify._settings import numerics_options
from scalify._statistics import Statistics
from scalify._step_state import StepState, fitted, state_kind
from scalify._watch import carries
from scalify._wrapper import again, pickle_name, with_options
from scalify.options import FIRST_BATCH, Numerics
from scalify.recipe import Recipe, RecipeLike
from scalify.report import Report
from scalify.scales import Scales, ScalesLike, argument_options, measure, range_option

__all__ = ["Transformed", "opt", "transform"]

# All but what needs an executable that counts, or a state of ours.
_SUPPORTED_FIELDS = frozenset(one.name for one in dataclasses.fields(Numerics)) - {
    "health",
    "pack_state",
}

# Array types of this package, which JAX does not know.
_OWN = (_runtime.Array, ScaledArray)


@dataclasses.dataclass(frozen=True)
class _Entry:
    """The compilation for one structure and types of arguments.

    `state` is the shape of the state of scales if main takes one, `rounds` whether main takes a key
    of random words, `is_undeclared` whether the arguments' scales are unknown.
    """

    lowered: Lowered
    module: Module
    report: Report
    run: Callable[..., Sequence[Any]]
    state: tuple[int, ...] | None
    rounds: bool
    is_undeclared: bool


def transform_lowered(
    lowered: Lowered,
    recipe: RecipeLike,
    strict: bool,
    scales: ScalesLike,
    probe_casts: bool = False,
    form: str = "wide",
    statistics: bool = False,
    extra: Mapping[str, Any] | None = None,
    rounds: bool = False,
) -> tuple[str, Report]:
    """Returns the StableHLO text of a lowered function by a recipe, and the report.

    Args:
        lowered: the function.
        recipe: as in `transform`.
        strict: as in `transform`.
        scales: as in `transform`.
        probe_casts: main also returns the wide value and the scale of every cast.
        form: of dots on FP8 data, "wide", "xla-gpu" or "plain".
        statistics: main also returns the statistics of every cast, as one table.
        extra: other options of the compiler; `ranges` as in `transform`.
        rounds: main may take a key of random words; else all casts round to nearest.
    """
    options: dict[str, Any] = {
        "carryScales": False,
        # XLA multiplies FP8 faster than BF16 on some devices, and never on a CPU.
        "formatsStay": jax.default_backend() == "cpu",
        **(extra or {}),
        "recipe": str(recipe),
        "roundingKey": rounds,
        "strict": strict,
        "probeCasts": probe_casts,
        "fp8Form": form,
        "collectStatistics": statistics,
        # If no scales are given, the caller of this function warns, and names its own argument.
        "tellMeasured": scales is not None,
    }
    count = len(lowered.in_avals)
    options |= argument_options(scales, count)
    if (ranges := range_option(scales, options.pop("ranges", None), count)) is not None:
        options["ranges"] = ranges
    text, report, diagnostics = _compiler.transform(lowered.text, json.dumps(options))
    if not probe_casts:  # a probe repeats the warnings of an earlier compilation
        issue_warnings(diagnostics)

    def explain() -> dict[str, Any]:
        full: dict[str, Any] = json.loads(_compiler.report(lowered.text, json.dumps(options)))
        return full

    return text, Report(json.loads(report), explain)


def input_of(leaf: Any) -> Any:
    """Returns a leaf as JAX takes it: arrays of this package as numpy's, random keys as data."""
    return np.asarray(leaf) if isinstance(leaf, _OWN) else to_physical(leaf)


def _array(leaf: Any) -> Any:
    """Returns a leaf as `jax.jit` takes it: arrays of this package as numpy's."""
    return np.asarray(leaf) if isinstance(leaf, _OWN) else leaf


def _is_abstract(leaf: Any) -> bool:
    return isinstance(leaf, (jax.core.Tracer, jax.ShapeDtypeStruct))


def module_of(
    name: str,
    lowered: Lowered,
    avals: Sequence[Any],
    text: Callable[[str], str],
    batched: Any = None,
) -> Module:
    """Returns the module of a lowered function, with its weak types, mesh and callbacks."""
    own = (lowered.mesh, lowered.callbacks, lowered.effects)
    # Results that a recipe adds (statistics, a state) follow the function's own.
    weak = itertools.chain(lowered.out_weak, itertools.repeat(False))
    typed = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=is_weak)
        for aval, is_weak in zip(avals, weak, strict=False)
    ]
    return Module(name, typed, text, batched, *own)


class Transformed:
    """A function of arrays that runs by a recipe, inside or outside `jax.jit`."""

    def __init__(
        self,
        signature: Signature,
        recipe: RecipeLike,
        strict: bool,
        scales: ScalesLike,
        statistics: bool = False,
        extra: Mapping[str, Any] | None = None,
        calibrates: bool = False,
        **options: Any,
    ) -> None:
        self.made_by: tuple[Any, ...] | None = None
        self._collected = Statistics() if statistics else None
        self._signature = signature
        self._extra = dict(extra or {})
        self._calibrates = calibrates
        self.recipe = str(recipe)
        self._strict = strict
        self._given = scales
        self._measured: dict[Hashable, Scales] = {}
        self._entries: dict[Hashable, _Entry] = {}
        self._last: _Entry | None = None
        self._last_key: Hashable = None
        self._step_state = StepState(signature, self.recipe, self._extra)
        functools.update_wrapper(self, signature.fn, updated=())
        self._jitted = signature.jitted(self, **options)

    def __call__(
        self,
        *args: Any,
        scale_state: Any = None,
        amax_history: Any = None,
        rounding_key: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Runs the function; arguments and results are those of the function itself.

        Under a recipe with propagated or delayed scales it also takes the state of scales, from
        `init_state` or from the previous call, and returns (results, state). `amax_history=` is a
        synonym, and so is `state=` unless the function has an argument of that name. Without a
        state, propagated scales are kept here between calls (`Transformed.state`); while JAX traces
        they cannot be kept, and each step measures them. Delayed scales require the state.

        Under a recipe that rounds state stochastically, `rounding_key` must differ in every step: a
        key of `jax.random`, or two words such as (seed, step), for which the rounding is the same
        as that of `scalify.jit`. Without a key, state is rounded to nearest.

        Raises:
            TypeError: a required state is missing, a state is given though no scale moves, or a
                key is given though nothing is rounded stochastically.
            ValueError: the state is of another program, or the key does not have two words.
        """
        given, kwargs = self._step_state.given(scale_state, amax_history, kwargs)
        arguments = self._signature.bind(args, kwargs)
        try:
            return self._run(arguments, given, rounding_key, state_kind(self, arguments, given))
        except ClosureError:
            opening = opened(self._signature, arguments, args, kwargs, self._given)
        twin = Transformed(
            opening.signature, self.recipe, self._strict, opening.scales, extra=self._extra
        )
        twin._collected, twin._calibrates = self._collected, self._calibrates
        results = twin(*args, **opening.kwargs, scale_state=given, rounding_key=rounding_key)
        self._last = twin._last
        return results

    def _run(self, arguments: Arguments, given: Any, rounding_key: Any, kind: str) -> Any:
        entry = self._entry(arguments, rounding_key is not None, kind)
        if kind == "measured" and self._given is None and entry.is_undeclared:
            self._step_state.warn_measured(entry.report)
        starts = kind == "kept" and self._step_state.starts(self._last_key)
        state = self._step_state.take(self._last_key, kind, given, entry.state, entry.report)
        key = self._key_for(entry, rounding_key)
        if starts and state:
            state = (self._fitted(entry, arguments, state[0], key),)
        outputs = entry.run(*map(input_of, arguments.leaves), *state, *key)
        if self._collected is not None:
            *outputs, table = outputs
            self._record(entry, table)
        if key:
            *outputs, _ = outputs
        if state:
            *outputs, given = outputs
        if kind == "kept" and not self._step_state.keep(self._last_key, given):
            # Only arrays of a closure are tracers: JAX traces, but no argument shows it.
            return self._run(arguments, None, rounding_key, "measured")
        results = map(to_logical, outputs, entry.lowered.out_keys)
        tree = jax.tree.unflatten(entry.lowered.out_tree, results)
        return (tree, given) if kind in ("given", "delayed") else tree

    def _fitted(self, entry: _Entry, arguments: Arguments, state: Any, key: tuple[Any, ...]) -> Any:
        """Returns the initial state of scales by the values that casts see of these arguments."""
        calibrates = self._calibrates and entry.report.prior_casts()
        if not calibrates or any(map(_is_abstract, arguments.leaves)):
            return state
        return fitted(entry.run, entry.lowered, list(map(input_of, arguments.leaves)), state, key)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        # Like a function in a class: the instance is the first argument.
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickles the arguments of `transform`; the loaded function is rewritten again."""
        if self.made_by is None:
            raise pickle.PicklingError("only a Transformed returned by transform can be pickled")
        return pickle_name(self) or self.made_by

    @property
    def is_delayed(self) -> bool:
        """Whether scales come from the amaxes of earlier steps, which the caller keeps."""
        return Recipe.of(self.recipe).is_delayed

    @property
    def is_carried(self) -> bool:
        """Whether steps carry scales of casts, as under recipes with propagated scales."""
        return carries({**self._extra, "recipe": self.recipe})

    @property
    def is_calibrated(self) -> bool:
        """Whether scales of casts come from a calibration."""
        return "castScales" in self._extra

    @property
    def state(self) -> np.ndarray | None:
        """The state of scales that calls without one keep, for the argument types of the last call.

        F32, one scale per cast, where 0 stands for the predicted scale; None before the first call.
        Save it in a checkpoint, and set it before the run resumes.
        """
        return self._step_state.get()

    @state.setter
    def state(self, value: Any) -> None:
        self._step_state.set(value)

    def init_state(self, *args: Any, **kwargs: Any) -> np.ndarray:
        """Returns the initial state of scales of a run.

        Args:
            *args: the arguments of the first call.
            **kwargs: its keyword arguments.

        Returns:
            F32: scales [casts] under propagated scales, where 0 stands for the predicted one; those
            that depend on a prior fit these arguments, on which it runs the step until they
            rest. Under delayed scales amaxes [rows, window], zeros. Pass it to the first call as
            `state=`, and each returned state to the next one; save it in a checkpoint.

        Raises:
            ValueError: the recipe's scales are neither propagated nor delayed, or are static.
        """
        if not self.is_delayed and not self.is_carried:
            raise ValueError(
                f"recipe '{self.recipe}' keeps no state: its scales are not delayed, and none is "
                f"carried; call '{self._signature.name}' without one"
            )
        kind = "delayed" if self.is_delayed else "given"
        arguments = self._signature.bind(args, kwargs)
        entry = self._entry(arguments, kind=kind)
        state = np.zeros(entry.state or ((0, 0) if self.is_delayed else (0,)), np.float32)
        return state if self.is_delayed else np.array(self._fitted(entry, arguments, state, ()))

    def _key_for(self, entry: _Entry, given: Any) -> tuple[Any, ...]:
        """Returns main's argument for the key of random words, if any."""
        if given is None:
            return ()
        if not entry.rounds:
            raise TypeError(
                f"'{self._signature.name}' takes no rounding_key: by recipe '{self.recipe}' it "
                "rounds nothing stochastically"
            )
        if isinstance(given, jax.Array):
            if jax.dtypes.issubdtype(given.dtype, jax.dtypes.prng_key):
                given = jax.random.key_data(given)
        else:
            given = np.asarray(given).astype(np.uint32)
        if given.shape != (2,):
            raise ValueError(f"a rounding_key of shape {given.shape}: expected two words of uint32")
        return (given,)

    def text(self, *args: Any, scale_state: Any = None, **kwargs: Any) -> str:
        """Returns the StableHLO text for arguments of these types, in its form for the CPU.

        `.trace(...).lower(lowering_platforms=("cuda",)).as_text()` is the text for another
        platform. Both take no state of scales unless one is given.
        """
        state, kwargs = self._step_state.given(scale_state, None, kwargs)
        arguments = self._signature.bind(args, kwargs)
        kind = state_kind(self, arguments, state, is_traced=True)
        return self._entry(arguments, kind=kind).module.text()

    @property
    def _untraced_kind(self) -> str:
        """The kind (see `state_kind`) of a call outside of `jax.jit`."""
        return "delayed" if self.is_delayed else "kept" if self.is_carried else "fixed"

    def trace(
        self,
        *args: Any,
        scale_state: Any = None,
        amax_history: Any = None,
        rounding_key: Any = None,
        **kwargs: Any,
    ) -> jax.stages.Traced:
        """Traces the function as `jax.jit(fn).trace` does; the result has `.lower` and `.jaxpr`.

        Arguments may be `jax.ShapeDtypeStruct`s. Without values no scales are measured: give
        `scales`. Without a state of scales each step measures them, as in a traced call.
        """
        state, kwargs = self._step_state.given(scale_state, amax_history, kwargs)
        arguments = self._signature.bind(args, kwargs)
        # Measure values, if there are any, before the trace replaces them by tracers.
        kind = state_kind(self, arguments, state, is_traced=True)
        self._entry(arguments, rounding_key is not None, kind)
        args, kwargs = jax.tree.map(_array, (args, kwargs))
        if state is not None:
            kwargs["scale_state"] = state
        if rounding_key is not None:
            kwargs["rounding_key"] = rounding_key
        return self._jitted.trace(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """Lowers the function for JAX's default backend; `.compile()` returns an executable."""
        return self.trace(*args, **kwargs).lower()

    def clear_cache(self) -> None:
        """Drops all rewritten and compiled programs."""
        self._entries.clear()
        self._jitted.clear_cache()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Returns shapes and dtypes of the results, as a tree; compiles nothing."""
        args, kwargs = jax.tree.map(_array, (args, kwargs))
        return self._signature.jitted(self._signature.fn).eval_shape(*args, **kwargs)

    def report(self, *args: Any, **kwargs: Any) -> Report:
        """Returns the report for arguments of these types; without any, of the last call.

        Raises:
            RuntimeError: without arguments before the first call.
        """
        if args or kwargs:
            return self._entry(self._signature.bind(args, kwargs), kind=self._untraced_kind).report
        if self._last is None:
            raise RuntimeError(f"'{self._signature.name}' has not been called: nothing to report")
        return self._last.report

    def statistics(self) -> Statistics:
        """Returns the statistics of every cast in the calls so far.

        Raises:
            RuntimeError: the function was not made with `statistics=True`.
        """
        if self._collected is None:
            raise RuntimeError(
                f"'{self._signature.name}' collects no statistics: make it with "
                "scalify.transform(..., statistics=True)"
            )
        return self._collected

    def collecting(self) -> Transformed:
        """Returns the same function, with statistics of its own."""
        twin = Transformed(
            self._signature, self.recipe, self._strict, self._given, True, self._extra
        )
        twin._calibrates = self._calibrates
        twin._measured = dict(self._measured)
        return twin

    def _record(self, entry: _Entry, table: Any) -> None:
        assert self._collected is not None
        record = self._collected.recorder([row["cast"] for row in entry.report.casts()])
        if isinstance(table, jax.core.Tracer):
            jax.debug.callback(record, table)
        else:
            record(table)

    def _entry(self, arguments: Arguments, rounds: bool = False, kind: str = "fixed") -> _Entry:
        # The program is the same whether the caller or this object keeps the state.
        key = (self._signature.key(arguments), rounds, "given" if kind == "kept" else kind)
        if key not in self._entries:
            self._entries[key] = self._compile(arguments, rounds, kind)
        self._last, self._last_key = self._entries[key], key
        return self._last

    def _scales_for(self, arguments: Arguments, kind: str) -> ScalesLike:
        """Returns the given scales, or those measured at the first call of this structure."""
        if self._given is not None or not Recipe.of(self.recipe).casts:
            return self._given
        key = scales_key(arguments.key())
        if key not in self._measured:
            if any(map(_is_abstract, arguments.leaves)):
                return None
            self._measured[key] = measure(arguments.leaves)
        return self._measured[key]

    def _compile(self, arguments: Arguments, rounds: bool, kind: str) -> _Entry:
        lowered = self._signature.lower(arguments)
        scales = self._scales_for(arguments, kind)
        make = functools.partial(
            transform_lowered,
            recipe=self.recipe,
            strict=self._strict,
            scales=scales,
            statistics=self._collected is not None,
            extra=self._step_state.options(kind),
        )
        text, report = make(lowered, rounds=rounds)
        if scales is None and kind != "measured":
            self._step_state.warn_undeclared(report, self.is_delayed)
        added = added_arguments(text, len(lowered.in_avals))
        rounds = any(aval.dtype == np.uint32 for aval in added)
        state = next((aval.shape for aval in added if aval.dtype == np.float32), None)
        arguments = arguments.typed(map(type_of, arguments.leaves))
        has_batches = state is None and not rounds and self._collected is None
        make = functools.partial(make, rounds=rounds)
        module = self._module(lowered, arguments, make, (), {"wide": text}, has_batches)
        donated = tuple(i for i, is_donated in enumerate(lowered.donated) if is_donated)
        run = jax.jit(functools.partial(call, module), donate_argnums=donated, keep_unused=True)
        report = report.with_statistics(self._collected)
        return _Entry(lowered, module, report, run, state, rounds, scales is None)

    def _module(
        self,
        lowered: Lowered,
        arguments: Arguments,
        make: Callable[..., tuple[str, Report]],
        batches: tuple[Batch, ...],
        texts: dict[str, str],
        has_batches: bool = True,
    ) -> Module:
        """Returns the module of a lowered function; each form is compiled on demand."""

        def text(form: str) -> str:
            return texts[form] if form in texts else make(lowered, form=form)[0]

        def batched(size: int, dims: tuple[int | None, ...]) -> Module:
            outer = (*batches, Batch(size, dims))
            return self._module(self._signature.lower(arguments, outer), arguments, make, outer, {})

        if has_batches:
            return module_of(self._signature.name, lowered, lowered.out_avals, text, batched)
        # The table of statistics, the state of scales and the key have no batch dimension, so
        # jax.vmap is refused.
        return module_of(self._signature.name, lowered, out_avals(text("wide")), text)


def transform(
    fn: Callable[..., Any] | None = None,
    recipe: RecipeLike = "fp8",
    *,
    numerics: Numerics | None = None,
    strict: bool = False,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    inline: bool = False,
    statistics: bool = False,
    **deprecated: Any,
) -> Transformed:
    """Returns `fn` rewritten by a recipe: StableHLO to StableHLO, run by JAX.

    The result may be called directly (it is then compiled as by `jax.jit`), or inside
    `jax.jit`, on any XLA backend. It has no derivative: transform the whole step.

    Args:
        fn: a function of pytrees of arrays. Without it the result is a decorator.
        recipe: a preset's name (see `scalify.recipes()`), a `#scalify.recipe<...>`, or a
            `scalify.Recipe`.
        numerics: where scales come from; all but `health` and `pack_state`. Arguments without
            scales are measured at the first call if it has values; under `jax.jit` it has none,
            and each step measures them. Carried scales of casts go from call to call, as
            `Transformed` has it.
        strict: make an op without a rule, or a dot that misses its format, an error.
        static_argnums: positions of arguments that are no arrays, as `jax.jit` has them.
        static_argnames: their names.
        donate_argnums: positions of arguments whose memory results may take. They are also treated
            as state: without a given scale, state takes the scale of its new value.
        donate_argnames: their names.
        keep_unused: as `jax.jit` has it.
        inline: as `jax.jit` has it.
        statistics: also measure every cast in every call (see `Transformed.statistics`); without,
            the program is the same to the byte as if there were none. Not under `jax.vmap`.
        **deprecated: fields of `numerics` by their names alone, as they were arguments before, for
            one more release.

    Raises:
        scalify.CompileError: at a call, if the program cannot be compiled by the recipe, or the
            calibration is of another program.
        TypeError: an argument is unknown or given twice, or `numerics` says what is not heeded
            here.
        ValueError: the calibration is by another recipe.
    """
    groups, given = regroup("transform", locals(), _SUPPORTED_FIELDS)
    if fn is None:
        return cast(Transformed, with_options(transform, given))
    signature = Signature(
        fn,
        static_argnums,
        static_argnames,
        donate_argnums,
        donate_argnames,
        recipe=str(recipe),
    )
    if groups.numerics.adaptive_scales:
        raise ValueError(
            "adaptive scales are state that an executable of scalify.jit keeps: here let the step "
            "measure scales (rescale=) or give those of another step (calibration=)"
        )
    extra, scales = numerics_options(recipe, groups.numerics)
    if groups.numerics.ranges is not None:
        extra["ranges"] = groups.numerics.ranges
    wrapped = Transformed(
        signature,
        recipe,
        strict,
        scales,
        statistics,
        extra,
        groups.numerics.calibration == FIRST_BATCH,
        inline=inline,
        keep_unused=keep_unused,
    )
    wrapped.made_by = again(transform, given)
    return wrapped


def opt(text: str, pipeline: str) -> str:
    """Returns IR text after a pass pipeline in mlir-opt's syntax.

    Args:
        text: StableHLO, or the output of an earlier pipeline.
        pipeline: such as "scalify-import,scalify-propagate"; options in braces.

    Raises:
        scalify.CompileError: the text or the pipeline does not parse, or a pass fails.
    """
    return _compiler.opt(text, pipeline)
