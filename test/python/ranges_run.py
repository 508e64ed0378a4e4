"""Runs a program and returns all its values, with the bounds from the range analysis."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir
from scale_probe import phase_of
from stablehlo_run import run_stablehlo

import scalify

__all__ = ["Observed", "observe", "observe_text", "violations", "with_ranges"]

ANALYSE = "scalify-analyse-ranges{annotate=all}"


@dataclasses.dataclass(frozen=True)
class Observed:
    """One executed value and its bounds."""

    name: str  # the op as printed
    value: np.ndarray
    bounds: Mapping[str, Any]
    phase: str


def _main(module: ir.Module) -> Any:
    return next(op for op in module.body.operations if op.name.value == "main")


def _context() -> Any:
    context = jax_mlir.make_ir_context()
    context.allow_unregistered_dialects = True
    return context


def _range_text(declared: Mapping[str, Any]) -> str:
    entries = []
    for key, value in declared.items():
        if key == "norms":
            entries.append("norms = array<f64: " + ", ".join(f"{v:.17e}" for v in value) + ">")
        else:
            entries.append(f"{key} = {value:.17e} : f64")
    return "{" + ", ".join(entries) + "}"


def with_ranges(
    text: str,
    ranges: Sequence[Mapping[str, Any] | None],
    scales: Sequence[int | None] | None = None,
) -> str:
    """Declares ranges of main's arguments, `{"max": .., "norms": [..]}` or None, and scales."""
    context = _context()
    with context, ir.Location.unknown(context):
        module = ir.Module.parse(text)
        main = _main(module)
        attributes = []
        exponents = scales or [None] * len(ranges)
        for old, declared, scale in zip(main.arg_attrs, ranges, exponents, strict=True):
            values = {entry.name: entry.attr for entry in old}
            if scale is not None:
                values["scalify.scale"] = ir.Attribute.parse(f"{scale} : i32")
            if declared is not None:
                values["scalify.range"] = ir.Attribute.parse(_range_text(declared))
            attributes.append(ir.DictAttr.get(values))
        main.arg_attrs = ir.ArrayAttr.get(attributes)
        return str(module)


def _plain(attribute: Any) -> Any:
    if isinstance(attribute, ir.DictAttr):
        return {entry.name: _plain(entry.attr) for entry in attribute}
    if isinstance(attribute, (ir.DenseF64ArrayAttr, ir.DenseI64ArrayAttr)):
        return list(attribute)
    return attribute.value


def _expose(text: str) -> tuple[str, list[tuple[str, Mapping[str, Any], str]]]:
    """Returns the text with every value of main's block as a result, and the bounds of each."""
    context = _context()
    with context, ir.Location.unknown(context):
        module = ir.Module.parse(text)
        main = _main(module)
        block = main.entry_block
        operations = list(block.operations)
        values, known = [], []
        for op in operations[:-1]:
            if "scalify.ranges" not in op.attributes:
                continue
            phase = phase_of(op)
            for result, bounds in zip(op.results, op.attributes["scalify.ranges"], strict=True):
                if isinstance(result.type, ir.RankedTensorType):
                    values.append(result)
                    known.append((str(op)[:300], _plain(bounds), phase))
        operations[-1].erase()
        with ir.InsertionPoint(block):
            ir.Operation.create("func.return", operands=values)
        types = [argument.type for argument in block.arguments]
        function_type = ir.FunctionType.get(types, [value.type for value in values])
        main.attributes["function_type"] = ir.TypeAttr.get(function_type)
        for key in ("res_attrs",):
            if key in main.attributes:
                del main.attributes[key]
        # Nothing is donated: every argument is still read.
        main.arg_attrs = ir.ArrayAttr.get([ir.DictAttr.get({}) for _ in types])
        return str(module), known


def observe_text(text: str, arrays: Sequence[np.ndarray]) -> list[Observed]:
    """Analyses imported text whose arguments have ranges, and runs it on XLA:CPU."""
    exposed, known = _expose(scalify.opt(text, ANALYSE))
    outputs = run_stablehlo(exposed, *arrays)
    return [
        Observed(name, value, bounds, phase)
        for (name, bounds, phase), value in zip(known, outputs, strict=True)
    ]


def observe(
    fn: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    ranges: Sequence[Mapping[str, Any] | None],
) -> list[Observed]:
    """Lowers `fn`, analyses it under the ranges and returns every value of its run."""
    text = jax.jit(fn, keep_unused=True).lower(*arrays).as_text()
    return observe_text(with_ranges(scalify.opt(text, "scalify-import"), ranges), arrays)


def _axes(mask: int, rank: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(rank) if mask >> axis & 1)


def violations(observed: Sequence[Observed]) -> list[str]:
    """Returns one line for each bound that an executed value exceeds."""
    return [line for entry in observed for line in _violations(entry)]


def _violations(entry: Observed) -> list[str]:
    bounds = entry.bounds
    wide = np.asarray(entry.value).astype(np.float64)
    if not wide.size:
        return []
    lines = []
    has_nan = np.isnan(wide)
    if has_nan.any() and not bounds["nan"]:
        lines.append(f"NaN in {entry.name}")
    known = np.where(has_nan, 0, wide)[~has_nan] if has_nan.any() else wide.ravel()
    if known.size and known.max() > bounds["hi"]:
        lines.append(f"{known.max()!r} > {bounds['hi']!r} in {entry.name}")
    if known.size and known.min() < bounds["lo"]:
        lines.append(f"{known.min()!r} < {bounds['lo']!r} in {entry.name}")
    magnitude = np.where(has_nan, 0, np.abs(wide))
    for key, power in (("l2", 2), ("l1", 1)):
        for mask, bound in zip(bounds.get(f"{key}_axes", []), bounds.get(key, []), strict=True):
            with np.errstate(over="ignore"):
                norm = (magnitude**power).sum(axis=_axes(mask, wide.ndim)) ** (1 / power)
            if norm.max() > bound:
                lines.append(f"{key} over {mask:b}: {norm.max()!r} > {bound!r} in {entry.name}")
    if "peak" in bounds and not has_nan.any():
        peak = wide.max(axis=_axes(bounds["peak_axes"], wide.ndim)).min()
        if peak < bounds["peak"]:
            lines.append(f"peak {peak!r} < {bounds['peak']!r} in {entry.name}")
    return lines
