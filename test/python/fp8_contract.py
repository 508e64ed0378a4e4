"""Checks StableHLO text for the form of dots that XLA:GPU lowers to cuBLASLt calls in FP8.

Written from the published behaviour of XLA's GemmRewriter, on jaxlib's own MLIR bindings; it
shares no code with the compiler. Every rule has the number of its item in
docs/stages/stablehlo-out.md.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from jax.extend.mlir import ir
from jax.interpreters import mlir as jax_mlir

__all__ = ["Dot", "check"]

LARGEST = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0}
MOVES = {"stablehlo.reshape", "stablehlo.transpose", "stablehlo.slice", "stablehlo.pad"}


@dataclasses.dataclass(frozen=True)
class Dot:
    """One dot that reads FP8 data, the types of both sides, and what is wrong with it."""

    formats: tuple[str, str]
    backward: bool
    problems: tuple[str, ...]


def _owner(value: Any) -> Any:
    """Returns the operation that defines a value; None for an argument of a block."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else getattr(owner, "operation", owner)


def _element(value: Any) -> str:
    return str(ir.RankedTensorType(value.type).element_type)


def _shape(value: Any) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _reaches_fp8(value: Any, depth: int = 8) -> bool:
    """Whether a value derives from FP8 data in a few ops, none of them a dot or a call."""
    if _element(value) in LARGEST:
        return True
    op = _owner(value)
    if op is None or depth == 0 or op.name in ("stablehlo.dot_general", "func.call"):
        return False
    return any(
        _reaches_fp8(operand, depth - 1)
        for operand in op.operands
        if _shape(operand) and isinstance(operand.type, ir.RankedTensorType)
    )


def _scale_problems(broadcast: Any) -> list[str]:
    scale = broadcast.operands[0]
    if _shape(scale):
        return [f"2: the scale has rank {len(_shape(scale))}"]
    source = _owner(scale)
    if source is not None and source.name == "stablehlo.convert":
        scale = source.operands[0]
    return [] if _element(scale) == "f32" else [f"2: the scale is {_element(scale)}"]


def _operand_problems(value: Any) -> tuple[str, list[str]]:
    """Returns the FP8 format that a dot's operand stands for, and the problems on the way."""
    while _element(value) not in LARGEST and (op := _owner(value)) and op.name in MOVES:
        value = op.operands[0]
    if _element(value) in LARGEST:
        return _element(value), []
    op, problems = _owner(value), []
    if op is not None and op.name in ("stablehlo.multiply", "stablehlo.divide"):
        sides = [_owner(operand) for operand in op.operands]
        names = [side.name if side is not None else "" for side in sides]
        if "stablehlo.broadcast_in_dim" not in names:
            return "", [f"1: {op.name} by no broadcast scalar"]
        at = len(names) - 1 - names[::-1].index("stablehlo.broadcast_in_dim")
        problems += _scale_problems(sides[at])
        if op.name == "stablehlo.divide" and at == 0:
            problems.append("1: the scale is divided by the data")
        value, op = op.operands[1 - at], sides[1 - at]
    if op is None or op.name != "stablehlo.convert":
        return "", [*problems, f"1: {op.name if op else 'an argument'} is no convert from FP8"]
    if _element(value) != "bf16":
        problems.append(f"9: dequantized to {_element(value)}")
    source = _element(op.operands[0])
    return source, problems if source in LARGEST else [*problems, f"1: convert from {source}"]


def _dimension_problems(op: Any) -> list[str]:
    from jaxlib.mlir.dialects import stablehlo

    dims = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batch = len(dims.lhs_batching_dimensions)
    problems = []
    for side, operand, batching, contracting in (
        ("lhs", op.operands[0], dims.lhs_batching_dimensions, dims.lhs_contracting_dimensions),
        ("rhs", op.operands[1], dims.rhs_batching_dimensions, dims.rhs_contracting_dimensions),
    ):
        if list(batching) != list(range(batch)):
            problems.append(f"3: batch dimensions {list(batching)} of {side} do not lead")
        if len(contracting) != 1 or len(_shape(operand)) != batch + 2:
            problems.append(
                f"3: {side} has {len(contracting)} contracting dimensions of {_shape(operand)}"
            )
    return problems


def _precision_problems(op: Any, backward: bool) -> list[str]:
    got = []
    if "precision_config" in op.attributes:
        got = [str(entry).split()[-1].rstrip(">") for entry in op.attributes["precision_config"]]
    want = "HIGHEST" if backward else "DEFAULT"
    if got == [want] * 2 or (not got and not backward):
        return []
    return [f"8: precision {got} of a {'backward' if backward else 'forward'} dot"]


def _check_dot(op: Any) -> Dot:
    backward = "transpose(jvp" in str(op.location)
    lhs, left = _operand_problems(op.operands[0])
    rhs, right = _operand_problems(op.operands[1])
    problems = left + right + _dimension_problems(op) + _precision_problems(op, backward)
    if "f8E4M3FN" not in (lhs, rhs):
        problems.append(f"4: {lhs} x {rhs}: neither is E4M3")
    if _element(op.results[0]) not in ("bf16", "f16", "f32"):
        problems.append(f"4: the result is {_element(op.results[0])}")
    return Dot((lhs, rhs), backward, tuple(problems))


def _bound(value: Any) -> float | None:
    """Returns the number in a rank-0 constant, looked for through a convert and a broadcast."""
    op = _owner(value)
    while op is not None and op.name in ("stablehlo.convert", "stablehlo.broadcast_in_dim"):
        op = _owner(op.operands[0])
    if op is None or op.name != "stablehlo.constant":
        return None
    return float(ir.DenseFPElementsAttr(op.attributes["value"])[0])


def _cast_problems(op: Any) -> list[str]:
    """Item 6: a cast to FP8 follows a clamp to the exact range of the format.

    Between the two may be the choice of an infinity's own value, unless the cast is of a dot.
    """
    largest = LARGEST[_element(op.results[0])]
    clamp = _owner(op.operands[0])
    if clamp is not None and clamp.name == "stablehlo.select":
        source = _owner(clamp.operands[2])
        scaled = source is not None and source.name in ("stablehlo.multiply", "stablehlo.divide")
        value = _owner(source.operands[0]) if scaled else source
        if value is not None and value.name == "stablehlo.dot_general":
            return ["6: a select between a dot and its cast"]
        clamp = _owner(clamp.operands[1])
    if clamp is None:
        return ["6: a cast of an argument"]
    if clamp.name == "stablehlo.clamp":
        bounds = [_bound(clamp.operands[0]), _bound(clamp.operands[2])]
        return [] if bounds == [-largest, largest] else [f"6: clamped to {bounds}"]
    return [f"6: a cast of what {clamp.name} made"]


def check(text: str) -> tuple[list[Dot], list[str]]:
    """Returns all dots that read FP8 data, and the problems of the casts.

    Args:
        text: a StableHLO module, with locations where backward dots shall be known.
    """
    dots: list[Dot] = []
    casts: list[str] = []
    with jax_mlir.make_ir_context() as context:
        module = ir.Module.parse(text, context)

        def visit(op: Any) -> Any:
            op = getattr(op, "operation", op)
            if op.name == "stablehlo.dot_general" and any(map(_reaches_fp8, op.operands)):
                dots.append(_check_dot(op))
            if op.name == "stablehlo.convert" and _element(op.results[0]) in LARGEST:
                casts.extend(_cast_problems(op))
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
    return dots, casts
