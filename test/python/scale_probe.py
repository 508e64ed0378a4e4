"""Compares the scale that the rules gave each op with the values it computes.

`probe(text, *arrays)` takes StableHLO that went through propagation (true values, and
`scalify.scale` on each op), makes every op a result, runs it under XLA, and returns for each op the
log2 of measured root mean square over predicted scale: the drift that the rules are judged by.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func
from stablehlo_run import parse_stablehlo, run_stablehlo

__all__ = ["Probe", "measure_rms", "phase_of", "probe", "result_exponents"]


@dataclasses.dataclass(frozen=True)
class Probe:
    """One op: its name, the rule that set its scale, and how far the values are from it."""

    name: str
    rule: str
    exponent: int
    rms: float
    shape: tuple[int, ...]
    phase: str
    text: str

    @property
    def drift(self) -> float:
        """Returns log2(rms / scale); 0 for values that are all zero."""
        return float(np.log2(self.rms)) - self.exponent if self.rms > 0 else 0.0


def _is_wide(value: Any) -> bool:
    if not isinstance(value.type, ir.RankedTensorType):
        return False
    tensor = ir.RankedTensorType(value.type)
    return len(tensor.shape) > 0 and str(tensor.element_type) in ("f32", "bf16", "f16")


def phase_of(operation: Any) -> str:
    """Returns the name in an op's `#scalify.phase<...>`, empty where it has none."""
    if "scalify.phase" not in operation.attributes:
        return ""
    return str(operation.attributes["scalify.phase"]).split("<")[1].rstrip(">")


def _attribute(operation: Any, name: str) -> str:
    return ir.StringAttr(operation.attributes[name]).value if name in operation.attributes else ""


def measure_rms(array: np.ndarray) -> float:
    """Returns the root mean square of the elements that no mask made (finite, below 1e4)."""
    wide = np.asarray(array, np.float64)
    kept = wide[np.isfinite(wide) & (np.abs(wide) < 8192)]
    return float(np.sqrt(np.mean(kept * kept))) if kept.size else 0.0


def result_exponents(text: str) -> list[int]:
    """Returns log2 of the scale of each result of main, from the op that makes it."""
    module = parse_stablehlo(text)
    with module.context:
        main = next(
            op
            for op in module.body.operations
            if isinstance(op, func.FuncOp) and op.name.value == "main"
        )
        *_, terminator = main.regions[0].blocks[0].operations
        return [
            ir.IntegerAttr(value.owner.attributes["scalify.scale"]).value
            for value in terminator.operation.operands
        ]


def probe(text: str, *arrays: Any) -> list[Probe]:
    """Returns a Probe for each op of main of rank above 0 that has a scale.

    Args:
        text: StableHLO with `scalify.scale` on its ops: after `--scalify-propagate` and
            `--scalify-quantize` without a recipe.
        *arrays: main's arguments in order.
    """
    module = parse_stablehlo(text)
    with module.context, ir.Location.unknown():
        main = next(
            op
            for op in module.body.operations
            if isinstance(op, func.FuncOp) and op.name.value == "main"
        )
        block = main.regions[0].blocks[0]
        *body, terminator = list(block.operations)
        seen = [
            op.operation
            for op in body
            if "scalify.scale" in op.operation.attributes
            and len(op.operation.results) > 0
            and _is_wide(op.operation.results[0])
            and op.operation.name not in ("stablehlo.constant", "stablehlo.iota")
        ]
        values = [op.results[0] for op in seen]
        kept = list(terminator.operation.operands)
        terminator.operation.erase()
        with ir.InsertionPoint(block):
            func.ReturnOp([*kept, *values])
        types = [value.type for value in [*kept, *values]]
        main.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(main.type.inputs, types)
        )
        if "res_attrs" in main.attributes:
            del main.attributes["res_attrs"]
        for index, old in enumerate(main.arg_attrs):
            entries = {e.name: e.attr for e in old if e.name != "tf.aliasing_output"}
            attrs = list(main.arg_attrs)
            attrs[index] = ir.DictAttr.get(entries)
            main.arg_attrs = ir.ArrayAttr.get(attrs)
        results = run_stablehlo(str(module), *arrays)[len(kept) :]
        return [
            Probe(
                op.name.removeprefix("stablehlo."),
                _attribute(op, "scalify.rule"),
                ir.IntegerAttr(op.attributes["scalify.scale"]).value,
                measure_rms(result),
                result.shape,
                phase_of(op),
                str(op)[:300],
            )
            for op, result in zip(seen, results, strict=True)
        ]
