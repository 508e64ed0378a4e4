"""Compares the scale of every value with the value itself, op by op, and names what departs.

    python test/zoo/trace.py gpt2_threefry --depth 4

For each float value of the gradients' graph, in order: log2(true rms / propagated scale), the
rule that set the scale, and the place in the program. An op whose value departs by more than
--binades from its scale, while its operands' values do not, is a root: its rule is at fault, or
the assumption that it makes.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import catalogue  # first: it sets the number of devices
import instrument
import jax
import numpy as np
from bars import train
from casts import physical
from jax.extend.mlir import ir
from program import Program, make

import scalify

__all__ = ["Point", "main", "trace"]

_ATTRIBUTES = re.compile(r"\{([^{}]*\bzoo\.id = (\d+)[^{}]*)\}")
_SCALE = re.compile(r"scalify\.scale = (-?\d+)")
_RULE = re.compile(r'scalify\.rule = "([^"]*)"')


@dataclasses.dataclass(frozen=True)
class Point:
    """One op's value beside its scale.

    Attributes:
        number: of the op, in order.
        drift: log2(true rms / scale).
        exponent: log2 of the scale.
        rms: of the finite values.
        mean: of the finite values.
        inputs: numbers of the ops that its operands come from.
    """

    number: int
    op: str
    kind: str
    drift: float
    exponent: int
    rms: float
    mean: float
    rule: str
    place: str
    inputs: tuple[int, ...]


def _import(text: str) -> str:
    """Returns a module in the normal form, with locations."""
    build = os.environ.get("SCALIFY_BUILD") or pathlib.Path(__file__).parents[2] / "build"
    tool = pathlib.Path(build) / "bin" / "scalify-opt"
    command = [tool, "-", "--scalify-import", "--mlir-print-debuginfo"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def _annotate(module: Any, scales: scalify.Scales) -> dict[int, Any]:
    """Numbers the ops and declares the arguments' scales; returns the ops."""
    main = instrument.find_main(module)
    ops: dict[int, Any] = {}
    integer = ir.IntegerType.get_signless(32, module.context)

    def visit(op: Any) -> None:
        number = len(ops)
        ops[number] = op
        op.attributes["zoo.id"] = ir.IntegerAttr.get(integer, number)

    instrument.walk(main.regions[0].blocks[0], visit)
    attributes = []
    moments = scales.moments or (None,) * len(scales.exponents)
    for found, exponent, both in zip(
        main.attributes["arg_attrs"], scales.exponents, moments, strict=True
    ):
        entries = (
            {named.name: named.attr for named in ir.DictAttr(found)}
            if not isinstance(found, dict)
            else dict(found)
        )
        if exponent is not None:
            entries["scalify.scale"] = ir.IntegerAttr.get(integer, exponent)
        if both is not None:
            entries["scalify.moments"] = ir.DenseF64ArrayAttr.get(both, module.context)
        attributes.append(ir.DictAttr.get(entries, module.context))
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes, module.context)
    return ops


def _is_float(kind: Any) -> bool:
    if not isinstance(kind, ir.RankedTensorType):
        return False
    return str(kind.element_type) in ("f32", "bf16", "f16")


def _moments(data: np.ndarray) -> tuple[float, float]:
    wide = data.astype(np.float64)
    wide = wide[np.isfinite(wide) & (np.abs(wide) < 1e29)]
    if wide.size == 0:
        return 0.0, 0.0
    return math.sqrt(float(np.mean(wide**2))), float(np.mean(wide))


def trace(program: Program, params: Any, steps: int) -> list[Point]:
    """Returns one point per op with a float result that carries a scale and is not zero."""
    args = (params, program.batch(steps))
    scales = scalify.measure((program.params, program.batch(0)))
    text = jax.jit(program.grads, keep_unused=True).lower(*args).as_text(debug_info=True)
    module = instrument.parse(_import(text))
    with module.context:
        ops = _annotate(module, scales)
        propagated = scalify.opt(str(module), "scalify-propagate{remarks=false}")
    recorder = instrument.Recorder(module)
    entry = recorder.main.regions[0].blocks[0]
    inner, taken = [], []
    for number, op in ops.items():
        if len(op.results) == 1 and _is_float(op.results[0].type):
            recorder.record(op.results[0])
            inner.append(op.block != entry)
            taken.append(number)
    description = {number: _describe(ops[number]) for number in taken}
    inputs = {number: _inputs(ops[number]) for number in taken}
    results = len(recorder.main.type.results)
    recorder.finish()
    with module.context:
        instrument.walk(entry, _strip)
        _strip_module(module)
    leaves = [physical(leaf) for leaf in jax.tree.leaves(args)]
    outputs = iter(instrument.run_text(str(module), leaves)[results:])
    measured = {}
    for number, in_body in zip(taken, inner, strict=True):
        data = next(outputs)
        measured[number] = _moments(data[: int(next(outputs))] if in_body else data)
    return list(_points(propagated, measured, description, inputs))


def _points(propagated: str, measured: Any, description: Any, inputs: Any) -> Any:
    for match in _ATTRIBUTES.finditer(propagated):
        number = int(match.group(2))
        scale, rule = _SCALE.search(match.group(1)), _RULE.search(match.group(1))
        if number not in measured or not scale:
            continue
        rms, mean = measured[number]
        op, kind, place = description[number]
        if rms == 0 or kind.count("x") == 0:
            continue
        exponent = int(scale.group(1))
        yield Point(
            number=number,
            op=op,
            kind=kind,
            drift=math.log2(rms) - exponent,
            exponent=exponent,
            rms=rms,
            mean=mean,
            rule=rule.group(1) if rule else "",
            place=place,
            inputs=inputs[number],
        )


def _describe(op: Any) -> tuple[str, str, str]:
    place = re.search(r'"?([^"]*\.py)":(\d+)', str(op.location))
    where = f"{place.group(1).rsplit('/', 1)[-1]}:{place.group(2)}" if place else ""
    phase = op.attributes["scalify.phase"].value if "scalify.phase" in op.attributes else ""
    kind = str(op.results[0].type).removeprefix("tensor<").removesuffix(">")
    return op.name.removeprefix("stablehlo."), kind, f"{phase} {where}"


def _inputs(op: Any) -> tuple[int, ...]:
    found = []
    for operand in op.operands:
        owner = operand.owner
        if hasattr(owner, "operation") and "zoo.id" in owner.operation.attributes:
            found.append(ir.IntegerAttr(owner.operation.attributes["zoo.id"]).value)
    return tuple(found)


def _strip(op: Any) -> None:
    names = list(op.attributes)
    for name in names:
        if name.startswith(("scalify.", "zoo.")):
            del op.attributes[name]


def _strip_module(module: Any) -> None:
    attributes = module.operation.attributes
    for name in list(attributes):
        if name.startswith("scalify."):
            del attributes[name]
    main = instrument.find_main(module)
    if "arg_attrs" in main.attributes:
        del main.attributes["arg_attrs"]


def roots(points: list[Point], binades: float) -> list[Point]:
    """Returns the points that depart while nothing that they are made of does."""
    far = {point.number for point in points if abs(point.drift) > binades}
    known = {point.number for point in points}
    return [
        point
        for point in points
        if point.number in far
        and not any(number in far for number in point.inputs if number in known)
    ]


def line(point: Point) -> str:
    """Returns a point as a line of text."""
    return (
        f"{point.number:>5} {point.drift:+7.2f}  2^{point.exponent:<4} rms {point.rms:9.3g} "
        f"mean {point.mean:+9.2g}  {point.op:<22}{point.kind:<18}{point.place:<26}{point.rule}"
    )


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--depth", type=int)
    parser.add_argument("--steps", type=int, default=0, help="F32 steps before the look (0)")
    parser.add_argument("--binades", type=float, default=3.0)
    parser.add_argument("--all", action="store_true", help="every value, not only the roots")
    parser.add_argument(
        "--unseen", action="store_true", help="know the programs of unseen/ as well"
    )
    options = parser.parse_args()
    if options.unseen:
        catalogue.load_unseen()
    program = make(options.name, options.depth)
    points = trace(program, train(program, options.steps), options.steps)
    drifts = [point.drift for point in points]
    shown = points if options.all else roots(points, options.binades)
    print("\n".join(line(point) for point in shown))
    print(
        f"{len(points)} values, log2(rms/scale) {min(drifts):+.1f} .. {max(drifts):+.1f}, "
        f"{sum(abs(drift) > options.binades for drift in drifts)} beyond {options.binades:g}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
