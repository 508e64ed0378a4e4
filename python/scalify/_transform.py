"""StableHLO to StableHLO: a function rewritten by a recipe, run by JAX on any XLA backend."""

from __future__ import annotations

import dataclasses
import functools
import json
import pickle
import types
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import jax
import numpy as np

from scalify import _compiler, _runtime
from scalify._call import Module, added_arguments, call, out_avals
from scalify._diagnostics import warn_of
from scalify._dtypes import to_numpy
from scalify._kept import check_history
from scalify._lowering import (
    Arguments,
    Batch,
    Lowered,
    Signature,
    to_logical,
    to_physical,
    type_of,
)
from scalify._scaled_array import ScaledArray
from scalify._statistics import Statistics
from scalify._wrapper import again, found_by_name, with_options
from scalify.calibration import Calibration, WideCast, scale_options
from scalify.ranges import RangesLike
from scalify.recipe import Recipe, RecipeLike
from scalify.report import Report
from scalify.scales import Scales, ScalesLike, measure, range_option, roles_option, to_option

__all__ = ["Transformed", "opt", "probe", "transform"]


# Arrays of ours, which JAX does not know.
_OWN = (_runtime.Array, ScaledArray)


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One compiled shape; the history's shape, where scales are delayed.

    `rounds` says whether main takes a key of random words.
    """

    lowered: Lowered
    module: Module
    report: Report
    run: Callable[..., Sequence[Any]]
    history: tuple[int, ...] | None
    rounds: bool


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
        form: how dots on FP8 data are written, "wide", "xla-gpu" or "plain".
        statistics: main also returns the statistics of every cast, as one table.
        extra: other options of the compiler; `ranges` as in `transform`.
        rounds: main may take a key of random words; else all casts round to nearest.
    """
    options: dict[str, Any] = {
        **(extra or {}),
        "recipe": str(recipe),
        "roundingKey": rounds,
        "strict": strict,
        "probeCasts": probe_casts,
        "fp8Form": form,
        "collectStatistics": statistics,
    }
    count = len(lowered.in_avals)
    option = to_option(scales, count)
    if option is not None:
        options["scales"] = option
    if (ranges := range_option(scales, options.pop("ranges", None), count)) is not None:
        options["ranges"] = ranges
    text, report, diagnostics = _compiler.transform(lowered.text, json.dumps(options))
    if not probe_casts:  # Else said of the same function before.
        warn_of(diagnostics)

    def explain() -> dict[str, Any]:
        full: dict[str, Any] = json.loads(_compiler.report(lowered.text, json.dumps(options)))
        return full

    return text, Report(json.loads(report), explain)


def _input(leaf: Any) -> Any:
    """Returns what JAX takes for a leaf: it does not know our arrays."""
    return np.asarray(leaf) if isinstance(leaf, _OWN) else to_physical(leaf)


def _array(leaf: Any) -> Any:
    """Returns what `jax.jit` takes for a leaf: it does not know our arrays."""
    return np.asarray(leaf) if isinstance(leaf, _OWN) else leaf


def _is_abstract(leaf: Any) -> bool:
    return isinstance(leaf, (jax.core.Tracer, jax.ShapeDtypeStruct))


def _module(
    name: str,
    lowered: Lowered,
    avals: Sequence[Any],
    text: Callable[[str], str],
    batched: Any = None,
) -> Module:
    """Returns the module of a lowered function, with its devices and callbacks."""
    own = (lowered.mesh, lowered.callbacks, lowered.effects)
    return Module(name, avals, text, batched, *own)


class Transformed:
    """A function of arrays that runs as the recipe says, inside or outside `jax.jit`."""

    def __init__(
        self,
        signature: Signature,
        recipe: RecipeLike,
        strict: bool,
        scales: ScalesLike,
        statistics: bool = False,
        extra: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.made_by: tuple[Any, ...] | None = None
        self._collected = Statistics() if statistics else None
        self._signature = signature
        self._extra = dict(extra or {})
        self.recipe = str(recipe)
        self._strict = strict
        self._given = scales
        self._measured: dict[Hashable, Scales] = {}
        self._entries: dict[Hashable, _Entry] = {}
        self._last: _Entry | None = None
        functools.update_wrapper(self, signature.fn, updated=())
        self._jitted = signature.jitted(self, **options)

    def __call__(
        self, *args: Any, amax_history: Any = None, rounding_key: Any = None, **kwargs: Any
    ) -> Any:
        """Runs the function; arguments and results are as those of the function itself.

        Where the recipe's scales are delayed it also takes the history of amaxes, from
        `init_state` or from the call before, and returns (results, history).

        Where the recipe rounds state stochastically it does so by `rounding_key`, which must be
        another one in every step: a key of `jax.random`, or two words such as (seed, step), with
        which `scalify.jit` rounds the same. Without a key it rounds to nearest.

        Raises:
            TypeError: there is no history, or one where no scale is delayed, or a key where
                nothing is rounded stochastically.
            ValueError: the history is of another program, or the key is not of two words.
        """
        arguments = self._signature.bind(args, kwargs)
        entry = self._entry(arguments, rounds=rounding_key is not None)
        history = self._history_for(entry, amax_history)
        key = self._key_for(entry, rounding_key)
        outputs = entry.run(*map(_input, arguments.leaves), *history, *key)
        if self._collected is not None:
            *outputs, table = outputs
            self._record(entry, table)
        if key:
            *outputs, _ = outputs
        if history:
            *outputs, amax_history = outputs
        results = map(to_logical, outputs, entry.lowered.out_keys)
        tree = jax.tree.unflatten(entry.lowered.out_tree, results)
        return (tree, amax_history) if self.is_delayed else tree

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        # As a function in a class: the instance is the first argument.
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickles what it was made of: where it is loaded it is rewritten anew."""
        if self.made_by is None:
            raise pickle.PicklingError("a Transformed that transform has not made does not pickle")
        return found_by_name(self) or self.made_by

    @property
    def is_delayed(self) -> bool:
        """Whether scales come from the amaxes of earlier steps, which the caller keeps."""
        return Recipe.of(self.recipe).is_delayed

    def init_state(self, *args: Any, **kwargs: Any) -> np.ndarray:
        """Returns the history of amaxes of a run that has seen nothing.

        Args:
            *args: the arguments of the first call.
            **kwargs: those given by name.

        Returns:
            Zeros, F32 [rows, window], a row for each cast whose scale is delayed. Give it to the
            first call as `amax_history=`, and what that returns to the next one; keep it with a
            checkpoint.

        Raises:
            ValueError: the recipe's scales are not delayed.
        """
        if not self.is_delayed:
            raise ValueError(
                f"recipe '{self.recipe}' keeps no state: its scales are not delayed; call "
                f"'{self._signature.name}' without one"
            )
        entry = self._entry(self._signature.bind(args, kwargs))
        return np.zeros(entry.history or (0, 0), np.float32)

    def _history_for(self, entry: _Entry, given: Any) -> tuple[Any, ...]:
        """Returns what main takes beyond the function's arguments."""
        name = self._signature.name
        if not self.is_delayed:
            if given is not None:
                raise TypeError(
                    f"'{name}' takes no amax_history: recipe '{self.recipe}' keeps no state"
                )
            return ()
        if given is None:
            raise TypeError(
                f"'{name}' needs the amaxes of earlier steps: start from state = "
                f"{name}.init_state(*args), and call results, state = "
                f"{name}(*args, amax_history=state); scalify.jit keeps them by itself"
            )
        if entry.history is None:
            return ()
        if isinstance(given, (jax.Array, jax.ShapeDtypeStruct)):
            # Its values stay where they are.
            if given.shape != entry.history:
                raise ValueError(
                    f"a history of amaxes of shape {given.shape} for a step that keeps "
                    f"{entry.history}: it is of another program or another recipe"
                )
            return (given,)
        return (check_history(given, entry.history),)

    def _key_for(self, entry: _Entry, given: Any) -> tuple[Any, ...]:
        """Returns the key of random words as main takes it."""
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

    def text(self, *args: Any, **kwargs: Any) -> str:
        """Returns the StableHLO text for arguments of these types, as the CPU runs it.

        `.trace(...).lower(lowering_platforms=("cuda",)).as_text()` is that of another platform.
        """
        return self._entry(self._signature.bind(args, kwargs)).module.text()

    def trace(
        self, *args: Any, amax_history: Any = None, rounding_key: Any = None, **kwargs: Any
    ) -> jax.stages.Traced:
        """Traces the function as `jax.jit(fn).trace` does; the result has `.lower` and `.jaxpr`.

        Arguments may be `jax.ShapeDtypeStruct`s. Without values nothing is measured: give scales.
        """
        # Where there are values, they are measured before the trace hides them.
        self._entry(self._signature.bind(args, kwargs), rounds=rounding_key is not None)
        args, kwargs = jax.tree.map(_array, (args, kwargs))
        if amax_history is not None:
            kwargs["amax_history"] = amax_history
        if rounding_key is not None:
            kwargs["rounding_key"] = rounding_key
        return self._jitted.trace(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """Lowers the function for JAX's default backend; `.compile()` gives an executable."""
        return self.trace(*args, **kwargs).lower()

    def clear_cache(self) -> None:
        """Forgets what was rewritten and compiled."""
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
            return self._entry(self._signature.bind(args, kwargs)).report
        if self._last is None:
            raise RuntimeError(f"'{self._signature.name}' has not been called: nothing to report")
        return self._last.report

    def statistics(self) -> Statistics:
        """Returns what the calls so far made of every cast's values.

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
        twin._measured = dict(self._measured)
        return twin

    def _record(self, entry: _Entry, table: Any) -> None:
        assert self._collected is not None
        record = self._collected.recorder([row["cast"] for row in entry.report.casts()])
        if isinstance(table, jax.core.Tracer):
            jax.debug.callback(record, table)
        else:
            record(table)

    def _entry(self, arguments: Arguments, rounds: bool = False) -> _Entry:
        key = (self._signature.key(arguments), rounds)
        if key not in self._entries:
            self._entries[key] = self._compile(arguments, rounds)
        self._last = self._entries[key]
        return self._last

    def _scales_for(self, arguments: Arguments) -> ScalesLike:
        """Returns the given scales, or those measured at the first call of this structure."""
        if self._given is not None or not Recipe.of(self.recipe).casts:
            return self._given
        key = (arguments.tree, arguments.statics)
        if key not in self._measured:
            if any(map(_is_abstract, arguments.leaves)):
                warnings.warn(
                    f"'{self._signature.name}' is traced without values: its arguments count as "
                    "2^0; give scalify.transform(..., scales=scalify.measure(args))",
                    stacklevel=5,
                )
                return None
            self._measured[key] = measure(arguments.leaves)
        return self._measured[key]

    def _compile(self, arguments: Arguments, rounds: bool) -> _Entry:
        lowered = self._signature.lower(arguments)
        scales = self._scales_for(arguments)
        collects = self._collected is not None
        text, report = transform_lowered(
            lowered,
            self.recipe,
            self._strict,
            scales,
            statistics=collects,
            extra=self._extra,
            rounds=rounds,
        )
        added = added_arguments(text, len(lowered.in_avals))
        rounds = any(aval.dtype == np.uint32 for aval in added)
        history = next((aval.shape for aval in added if aval.dtype == np.float32), None)
        arguments = dataclasses.replace(arguments, leaves=list(map(type_of, arguments.leaves)))
        module = self._module(lowered, arguments, scales, (), {"wide": text}, rounds)
        donated = tuple(i for i, is_donated in enumerate(lowered.donated) if is_donated)
        run = jax.jit(functools.partial(call, module), donate_argnums=donated, keep_unused=True)
        report = report.with_statistics(self._collected)
        return _Entry(lowered, module, report, run, history, rounds)

    def _module(
        self,
        lowered: Lowered,
        arguments: Arguments,
        scales: ScalesLike,
        batches: tuple[Batch, ...],
        texts: dict[str, str],
        rounds: bool = False,
    ) -> Module:
        """Returns the module of a lowered function, compiled form by form where it is needed."""

        def text(form: str) -> str:
            if form in texts:
                return texts[form]
            return transform_lowered(
                lowered,
                self.recipe,
                self._strict,
                scales,
                form=form,
                statistics=self._collected is not None,
                extra=self._extra,
                rounds=rounds,
            )[0]

        def batched(size: int, dims: tuple[int | None, ...]) -> Module:
            outer = (*batches, Batch(size, dims))
            wider = self._signature.lower(arguments, outer)
            return self._module(wider, arguments, scales, outer, {})

        if self._collected is None and not self.is_delayed and not rounds:
            return _module(self._signature.name, lowered, lowered.out_avals, text, batched)
        # The table of statistics, the history and the key have no batch: jax.vmap is refused.
        return _module(self._signature.name, lowered, out_avals(text("wide")), text)


def transform(
    fn: Callable[..., Any] | None = None,
    recipe: RecipeLike = "fp8",
    *,
    scales: ScalesLike = None,
    roles: Mapping[str, str] | None = None,
    ranges: RangesLike = None,
    range_use: Literal["report", "choose"] = "report",
    strict: bool = False,
    calibration: Calibration | None = None,
    rescale: Sequence[str] = (),
    wide: Sequence[WideCast] = (),
    adaptive_scales: bool = False,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    inline: bool = False,
    statistics: bool = False,
) -> Transformed:
    """Returns `fn` rewritten by a recipe: StableHLO to StableHLO, run by JAX.

    The result may be called by itself (it is then compiled as by `jax.jit`), or inside
    `jax.jit`, on any XLA backend. It has no derivative: transform the whole step.

    Args:
        fn: a function of pytrees of arrays. Without it the result is a decorator.
        recipe: a preset's name (see `scalify.recipes()`), a `#scalify.recipe<...>`, or a
            `scalify.Recipe`.
        scales: of the arguments, from `scalify.measure`. Without, they are measured at the
            first call if it has values; under `jax.jit` it has none, and they count as 2^0.
        roles: of arguments that the rules take for others, as `{"regular expression": role}`,
            searched in the names that reports print; the first match counts. A role is "param",
            "master", "moment", "state", "batch", "input" or "scalar".
        ranges: what proofs may assume of arguments, by name or as a list in main's order; it
            counts before what was measured with the scales (`scalify.measure_ranges`).
        range_use: "choose" lets the proofs decide: a value whose bound is beyond E4M3 and within
            E5M2 is cast to that, and with `strict` a dot on an unproved value stays wide.
        strict: make an op without a rule, or a dot that misses its format, an error.
        calibration: measured scales of casts, from `scalify.calibrate`; its arguments' scales
            count if `scales` is not given.
        rescale: where the step measures scales: "residual_grad", "residual", or a regular
            expression that is searched in JAX's names, "grad:" before it for gradients.
        wide: casts to leave wide, with the dots that read them, from `Jit.widened`.
        adaptive_scales: only False: there is no executable that would keep the scales.
        static_argnums: positions of arguments that are no arrays, as `jax.jit` has them.
        static_argnames: their names.
        donate_argnums: positions of arguments whose memory results may take. They also say
            what is state: its scale, where none is given, is that of what is written into it.
        donate_argnames: their names.
        keep_unused: as `jax.jit` has it.
        inline: as `jax.jit` has it.
        statistics: also measure every cast in every call (see `Transformed.statistics`); without,
            the program is the same to the byte as if there were none. Not under `jax.vmap`.

    Raises:
        scalify.CompileError: at a call, where the program or the recipe cannot be, or the
            calibration is of another program.
        ValueError: the calibration is by another recipe.
    """
    given = dict(locals())
    if fn is None:
        return cast(Transformed, with_options(transform, given))
    signature = Signature(fn, static_argnums, static_argnames, donate_argnums, donate_argnames)
    if adaptive_scales:
        raise ValueError(
            "adaptive scales are state that an executable of scalify.jit keeps: here let the step "
            "measure scales (rescale=) or give those of another step (calibration=)"
        )
    extra, scales = scale_options(recipe, scales, calibration, rescale, wide)
    extra |= {"rangeUse": range_use, **roles_option(roles)}
    if ranges is not None:
        extra["ranges"] = ranges
    wrapped = Transformed(
        signature, recipe, strict, scales, statistics, extra, inline=inline, keep_unused=keep_unused
    )
    wrapped.made_by = again(transform, given)
    return wrapped


def probe(
    fn: Callable[..., Any],
    recipe: RecipeLike = "fp8",
    *,
    scales: ScalesLike = None,
    **options: Any,
) -> Callable[..., list[dict[str, Any]]]:
    """Returns a function that runs `fn` by a recipe and shows what each cast reads.

    It runs on XLA's CPU and returns one row per quantizing cast: `name`, `op`, `loc`, `phase`,
    `format` ("float8_e4m3fn", "float8_e5m2"), `scale` (a float) and `value`, the wide input as
    a numpy array. A cast in a loop shows all iterations, stacked along a new first axis, where the
    trip count is known and the stack is small; else the last one. Where its scale is measured in
    the loop, `scale` is stacked alike. A cast in a branch that did not run shows zeros.

    Args:
        fn: a function of pytrees of arrays.
        recipe: as in `transform`.
        scales: as in `transform`.
        **options: static and donated arguments, as in `transform`.
    """
    signature = Signature(fn, **options)

    def run(*args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        arguments = signature.bind(args, kwargs)
        given = measure(arguments.leaves) if scales is None else scales
        lowered = signature.lower(arguments)
        text, report = transform_lowered(lowered, recipe, False, given, probe_casts=True)
        probes = added_results(signature.name, text, lowered, arguments)
        return [
            {
                "name": row["cast"],
                "op": row["op"],
                "loc": row["location"],
                "phase": row["phase"],
                "format": to_numpy(row["format"]).name,
                "scale": float(scale) if scale.ndim == 0 else scale,
                "value": value,
            }
            for row, value, scale in zip(report.casts(), probes[::2], probes[1::2], strict=True)
        ]

    return run


def added_results(name: str, text: str, lowered: Lowered, arguments: Arguments) -> list[np.ndarray]:
    """Runs a rewritten step on XLA's CPU; returns the results that it has beyond its own."""
    own = len(lowered.out_avals) + len(added_arguments(text, len(lowered.in_avals)))
    return run_text(name, text, lowered, arguments)[own:]


def run_text(name: str, text: str, lowered: Lowered, arguments: Arguments) -> list[np.ndarray]:
    """Runs a rewritten step on XLA's CPU; returns all results of its main."""
    module = _module(name, lowered, out_avals(text), lambda _: text)
    added = added_arguments(text, len(lowered.in_avals))
    leaves = [*arguments.leaves, *(np.zeros(aval.shape, aval.dtype) for aval in added)]
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu):
        run = jax.jit(functools.partial(call, module))
        results = run(*(jax.device_put(_input(leaf), cpu) for leaf in leaves))
    return [np.asarray(result) for result in results]


def opt(text: str, pipeline: str) -> str:
    """Returns IR text after a pass pipeline in mlir-opt's syntax.

    Args:
        text: StableHLO, or what an earlier pipeline left.
        pipeline: such as "scalify-import,scalify-propagate"; options in braces.

    Raises:
        scalify.CompileError: the text, the pipeline or a pass is at fault.
    """
    return _compiler.opt(text, pipeline)
