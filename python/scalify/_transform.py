"""StableHLO to StableHLO: a function rewritten by a recipe, run by JAX on any XLA backend."""

from __future__ import annotations

import dataclasses
import functools
import json
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core as jax_core
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import func
from jax.interpreters import mlir as jax_mlir

from scalify import _compiler, _runtime
from scalify._dtypes import to_numpy
from scalify._lowering import Arguments, Lowered, Signature, to_logical, to_physical
from scalify.report import Report
from scalify.scales import Scales, ScalesLike, measure, to_option

__all__ = ["Transformed", "opt", "probe", "recipes", "transform"]


class _Module:
    """A StableHLO module that JAX calls; equal only to itself, so that JAX may cache by it."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        with jax_mlir.make_ir_context() as context:
            # The module owns its operations: it must outlive `main`.
            module = ir.Module.parse(text, context)
            main = _find_main(module)
            self.out_avals = tuple(_aval(type_) for type_ in main.type.results)


def _find_main(module: Any) -> Any:
    for operation in module.body.operations:
        if isinstance(operation, func.FuncOp) and operation.name.value == "main":
            return operation
    raise ValueError("the module has no function '@main'")


def _aval(type_: Any) -> Any:
    tensor = ir.RankedTensorType(type_)
    return jax.core.ShapedArray(tuple(tensor.shape), to_numpy(str(tensor.element_type)))


_call_p = jax_core.Primitive("scalify_call")
_call_p.multiple_results = True


def _abstract_eval(*_: Any, module: _Module) -> tuple[Any, ...]:
    return module.out_avals


def _run_eagerly(*args: Any, module: _Module) -> Any:
    return jax.jit(functools.partial(_call_p.bind, module=module))(*args)


def _lower_call(ctx: Any, *args: Any, module: _Module) -> Any:
    """Moves the module's functions into the caller's module and calls its main."""
    target = ctx.module_context
    source = ir.Module.parse(module.text, target.context)
    main = _find_main(source)
    # Donation is said by the outermost function alone.
    for key in ("arg_attrs", "res_attrs"):
        if key in main.attributes:
            del main.attributes[key]
    results = main.type.results
    name = jax_mlir.merge_mlir_modules(
        target.module, f"scalify_{module.name}", source, dst_symtab=target.symbol_table
    )
    return func.CallOp(results, ir.FlatSymbolRefAttr.get(name), args).results


_call_p.def_abstract_eval(_abstract_eval)
_call_p.def_impl(_run_eagerly)
jax_mlir.register_lowering(_call_p, _lower_call)


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One compiled shape."""

    lowered: Lowered
    text: str
    report: Report
    run: Callable[..., Sequence[Any]]


def transform_lowered(
    lowered: Lowered, recipe: str, strict: bool, scales: ScalesLike, probe_casts: bool = False
) -> tuple[str, Report]:
    """Returns the StableHLO text of a lowered function by a recipe, and the report."""
    options: dict[str, Any] = {"recipe": recipe, "strict": strict, "probeCasts": probe_casts}
    option = to_option(scales, len(lowered.in_avals))
    if option is not None:
        options["scales"] = option
    text, report, _ = _compiler.transform(lowered.text, json.dumps(options))
    return text, Report(json.loads(report))


def _input(leaf: Any) -> Any:
    """Returns what JAX takes for a leaf: it does not know our arrays."""
    return np.asarray(leaf) if isinstance(leaf, _runtime.Array) else to_physical(leaf)


def _is_abstract(leaf: Any) -> bool:
    return isinstance(leaf, (jax.core.Tracer, jax.ShapeDtypeStruct))


class Transformed:
    """A function of arrays that runs as the recipe says, inside or outside `jax.jit`."""

    def __init__(self, signature: Signature, recipe: str, strict: bool, scales: ScalesLike) -> None:
        self._signature = signature
        self._recipe = recipe
        self._strict = strict
        self._given = scales
        self._measured: dict[Hashable, Scales] = {}
        self._entries: dict[Hashable, _Entry] = {}
        self._last: _Entry | None = None
        functools.update_wrapper(self, signature.fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the function; arguments and results are as those of the function itself."""
        arguments = self._signature.bind(args, kwargs)
        entry = self._entry(arguments)
        outputs = entry.run(*map(_input, arguments.leaves))
        results = map(to_logical, outputs, entry.lowered.out_keys)
        return jax.tree.unflatten(entry.lowered.out_tree, results)

    def text(self, *args: Any, **kwargs: Any) -> str:
        """Returns the StableHLO text for arguments of these types."""
        return self._entry(self._signature.bind(args, kwargs)).text

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

    def _entry(self, arguments: Arguments) -> _Entry:
        key = arguments.key()
        if key not in self._entries:
            self._entries[key] = self._compile(arguments)
        self._last = self._entries[key]
        return self._last

    def _scales_for(self, arguments: Arguments) -> ScalesLike:
        """Returns the given scales, or those measured at the first call of this structure."""
        if self._given is not None or self._recipe == "none":
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

    def _compile(self, arguments: Arguments) -> _Entry:
        lowered = self._signature.lower(arguments)
        scales = self._scales_for(arguments)
        text, report = transform_lowered(lowered, self._recipe, self._strict, scales)
        call = functools.partial(_call_p.bind, module=_Module(text, self._signature.name))
        donated = tuple(i for i, is_donated in enumerate(lowered.donated) if is_donated)
        run = jax.jit(call, donate_argnums=donated, keep_unused=True)
        return _Entry(lowered, text, report, run)


def transform(
    fn: Callable[..., Any],
    recipe: str = "fp8",
    *,
    scales: ScalesLike = None,
    strict: bool = False,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
) -> Transformed:
    """Returns `fn` rewritten by a recipe: StableHLO to StableHLO, run by JAX.

    The result may be called by itself (it is then compiled as by `jax.jit`), or inside
    `jax.jit`, on any XLA backend. It has no derivative: transform the whole step.

    Args:
        fn: a function of pytrees of arrays.
        recipe: a preset's name (see `scalify.recipes()`) or a `#scalify.recipe<...>`.
        scales: of the arguments, from `scalify.measure`. Without, they are measured at the
            first call if it has values; under `jax.jit` it has none, and they count as 2^0.
        strict: make an op without a rule, or a dot that misses its format, an error.
        static_argnums: positions of arguments that are no arrays, as `jax.jit` has them.
        static_argnames: their names.
        donate_argnums: positions of arguments whose memory results may take. They also say
            what is state: its scale, where none is given, is that of what is written into it.
        donate_argnames: their names.

    Raises:
        scalify.CompileError: at a call, where the program or the recipe cannot be.
    """
    signature = Signature(fn, static_argnums, static_argnames, donate_argnums, donate_argnames)
    return Transformed(signature, recipe, strict, scales)


def probe(
    fn: Callable[..., Any],
    recipe: str = "fp8",
    *,
    scales: ScalesLike = None,
    **options: Any,
) -> Callable[..., list[dict[str, Any]]]:
    """Returns a function that runs `fn` by a recipe and shows what each cast reads.

    It runs on XLA's CPU and returns one row per quantizing cast: `name`, `op`, `loc`, `phase`,
    `format` ("float8_e4m3fn", "float8_e5m2"), `scale` (a float) and `value`, the wide input as
    a numpy array.

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
        call = functools.partial(_call_p.bind, module=_Module(text, signature.name))
        with jax.default_device(jax.devices("cpu")[0]):
            results = jax.jit(call)(*map(_on_cpu, arguments.leaves))
        probes = [np.asarray(result) for result in results[len(lowered.out_avals) :]]
        return [
            {
                "name": row["cast"],
                "op": row["op"],
                "loc": row["location"],
                "phase": row["phase"],
                "format": to_numpy(row["format"]).name,
                "scale": float(scale),
                "value": value,
            }
            for row, value, scale in zip(report.casts(), probes[::2], probes[1::2], strict=True)
        ]

    return run


def _on_cpu(leaf: Any) -> Any:
    return jax.device_put(_input(leaf), jax.devices("cpu")[0])


def opt(text: str, pipeline: str) -> str:
    """Returns IR text after a pass pipeline in mlir-opt's syntax.

    Args:
        text: StableHLO, or what an earlier pipeline left.
        pipeline: such as "scalify-import,scalify-propagate"; options in braces.

    Raises:
        scalify.CompileError: the text, the pipeline or a pass is at fault.
    """
    return _compiler.opt(text, pipeline)


def recipes() -> list[str]:
    """Returns the names of the recipes that are built in."""
    return _compiler.recipes()
