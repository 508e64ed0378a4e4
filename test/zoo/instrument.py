"""Makes values inside a StableHLO module results of its main, those in loops and branches too.

A value in a loop's body is written, turn by turn, into a buffer that the loop carries; a branch
hands the buffers through. What comes back is an array with one more leading dimension: the turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import func, stablehlo
from jax.interpreters import mlir as jax_mlir

__all__ = ["TURNS", "Recorder", "find_main", "parse", "run_text"]

# Later turns of longer loops fall on the last slot.
TURNS = 64

# A buffer of turns and the number of turns so far.
Carry = tuple[Any, Any]


def parse(text: str) -> Any:
    """Returns the module of a text; attributes of dialects that jaxlib lacks are kept."""
    context = jax_mlir.make_ir_context()
    context.allow_unregistered_dialects = True
    return ir.Module.parse(text, context)


def find_main(module: Any) -> Any:
    """Returns the module's main.

    Raises:
        ValueError: there is none.
    """
    for operation in module.body.operations:
        if isinstance(operation, func.FuncOp) and operation.name.value == "main":
            return operation
    raise ValueError("the module has no function '@main'")


def run_text(text: str, arguments: Sequence[Any]) -> list[np.ndarray]:
    """Runs a module's main on XLA's CPU."""
    from scalify._call import Module, call, out_avals

    module = Module("recorded", out_avals(text), lambda _: text, None)
    run = jax.jit(lambda *leaves: call(module, *leaves))
    return [np.asarray(found) for found in run(*arguments)]


class Recorder:
    """Collects values of a module; then main returns them all."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.main = find_main(module)
        self.values: list[Any] = []
        self._blocks: dict[Any, list[int]] = {}

    def record(self, value: Any) -> int:
        """Asks for a value; returns its number."""
        if isinstance(value.owner, ir.Block):
            # What an op makes is found by the op: an argument of a block gets one that copies it.
            with ir.InsertionPoint.at_block_begin(value.owner), ir.Location.unknown():
                value = stablehlo.ReshapeOp(value.type, value).result
        self.values.append(value)
        return len(self.values) - 1

    def finish(self) -> None:
        """Rewrites main so that each value follows its results, in order of number.

        A value outside of loops and branches follows as it is; one inside as its buffer of
        turns [TURNS, ...] and the number of turns, int32.
        """
        with self.module.context:
            entry = self.main.regions[0].blocks[0]
            wanted: dict[Any, list[int]] = {}
            for number, value in enumerate(self.values):
                wanted.setdefault(_key(value.owner), []).append(number)
            inner = self._numbers_within(entry, wanted, direct=False)
            carries = {number: self._empty(entry, self.values[number]) for number in inner}
            carries = self._thread(entry, wanted, carries)
            results: list[Any] = []
            for number, value in enumerate(self.values):
                results += list(carries[number]) if number in carries else [value]
            _extend_terminator(entry, results)
            self._retype()

    def _retype(self) -> None:
        entry = self.main.regions[0].blocks[0]
        returned = [operand.type for operand in entry.operations[-1].operands]
        inputs = [argument.type for argument in entry.arguments]
        self.main.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(inputs, returned)
        )
        if "res_attrs" in self.main.attributes:
            del self.main.attributes["res_attrs"]

    def _numbers_within(self, block: Any, wanted: dict[Any, list[int]], direct: bool) -> list[int]:
        """Returns the wanted numbers inside a block's ops, and with `direct` those of them."""
        found: list[int] = []
        for op in block.operations:
            if direct:
                found += wanted.get(_key(op), [])
            for region in op.operation.regions:
                for inner in region.blocks:
                    if _carries(op):
                        found += self._numbers_within(inner, wanted, direct=True)
        return found

    def _empty(self, entry: Any, value: Any) -> Carry:
        with ir.InsertionPoint.at_block_begin(entry), ir.Location.unknown():
            kind = ir.RankedTensorType(value.type)
            buffer = ir.RankedTensorType.get([TURNS, *kind.shape], kind.element_type)
            return _zeros(buffer), _zeros(_index_type())

    def _thread(
        self, block: Any, wanted: dict[Any, list[int]], carries: dict[int, Carry]
    ) -> dict[int, Carry]:
        """Takes the carries through a block; returns them as they are at its end."""
        for op in list(block.operations):
            if _carries(op):
                inner = [
                    number
                    for region in op.operation.regions
                    for child in region.blocks
                    for number in self._numbers_within(child, wanted, direct=True)
                ]
                if inner:
                    taken = {number: carries[number] for number in inner}
                    carries.update(self._rebuild(op.operation, wanted, taken))
                    continue
            for number in wanted.get(_key(op), []):
                if number in carries:
                    carries[number] = _store(op.operation, self.values[number], carries[number])
        return carries

    def _rebuild(
        self, op: Any, wanted: dict[Any, list[int]], carries: dict[int, Carry]
    ) -> dict[int, Carry]:
        """Replaces a loop or branch by one that carries more; returns its results."""
        numbers = list(carries)
        flat = [part for number in numbers for part in carries[number]]
        types = [part.type for part in flat]
        is_while = op.name == "stablehlo.while"
        new = ir.Operation.create(
            op.name,
            results=[result.type for result in op.results] + types,
            operands=list(op.operands) + (flat if is_while else []),
            attributes={name: op.attributes[name] for name in op.attributes},
            regions=len(op.regions),
            loc=op.location,
            ip=ir.InsertionPoint(op),
        )
        for index in range(len(op.regions)):
            op.regions[index].blocks[0].append_to(new.regions[index])
            block = new.regions[index].blocks[0]
            if is_while:
                with ir.Location.unknown():
                    added = [block.add_argument(kind, ir.Location.unknown()) for kind in types]
                if index == 0:
                    continue
                inner = dict(zip(numbers, zip(added[::2], added[1::2], strict=True), strict=True))
            else:
                inner = dict(carries)
            inner = self._thread(block, wanted, inner)
            _extend_terminator(block, [part for number in numbers for part in inner[number]])
        count = len(op.results)
        for old, replacement in zip(op.results, new.results, strict=False):
            old.replace_all_uses_with(replacement)
            for number, value in enumerate(self.values):
                if value == old:
                    self.values[number] = replacement
        if _key(op) in wanted:
            wanted[_key(new)] = wanted.pop(_key(op))
        op.erase()
        found = list(new.results)[count:]
        return dict(zip(numbers, zip(found[::2], found[1::2], strict=True), strict=True))


def _key(op: Any) -> int:
    return hash(op.operation)


def _carries(op: Any) -> bool:
    return op.operation.name in ("stablehlo.while", "stablehlo.case", "stablehlo.if")


def _index_type() -> Any:
    return ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))


def _zeros(kind: Any) -> Any:
    element = kind.element_type
    zero = (
        ir.IntegerAttr.get(element, 0)
        if isinstance(element, ir.IntegerType)
        else ir.FloatAttr.get(element, 0.0)
    )
    return stablehlo.ConstantOp(ir.DenseElementsAttr.get_splat(kind, zero)).result


def _store(op: Any, value: Any, carry: Carry) -> Carry:
    """Writes a value into its buffer behind the op that makes it."""
    block = op.block
    following = list(block.operations)
    place = next(i for i, other in enumerate(following) if _key(other) == _key(op))
    with ir.InsertionPoint(following[place + 1]), ir.Location.unknown():
        kind = ir.RankedTensorType(value.type)
        row_type = ir.RankedTensorType.get([1, *kind.shape], kind.element_type)
        row = stablehlo.ReshapeOp(row_type, value).result
        zero = _zeros(_index_type())
        buffer = stablehlo.DynamicUpdateSliceOp(
            carry[0], row, [carry[1], *[zero] * len(kind.shape)]
        ).result
        one = stablehlo.ConstantOp(
            ir.DenseElementsAttr.get_splat(
                _index_type(), ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)
            )
        ).result
        return buffer, stablehlo.AddOp(carry[1], one).result


def _extend_terminator(block: Any, values: Sequence[Any]) -> None:
    old = block.operations[len(block.operations) - 1]
    with ir.InsertionPoint(old), ir.Location.unknown():
        ir.Operation.create(
            old.operation.name, results=[], operands=[*old.operation.operands, *values]
        )
    old.operation.erase()


Visit = Callable[[Any], None]


def walk(block: Any, visit: Visit) -> None:
    """Visits every op of a block and of the loops and branches in it, in the text's order."""
    for op in list(block.operations):
        visit(op.operation)
        if _carries(op):
            for region in op.operation.regions:
                walk(region.blocks[0], visit)
