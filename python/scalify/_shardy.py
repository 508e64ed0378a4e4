"""Runs jaxlib's Shardy partitioner on a program from standard input.

It is a separate program, since a failure in Shardy aborts the process. It imports nothing of
scalify.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

__all__ = ["main"]

PROPAGATE = ("sdy-propagation-pipeline",)
# Shardy's last pass, sdy-convert-global-to-local, is left out: it aborts on reduce-scatters that
# `canonicalize` forms and on products whose contraction is sharded. `scalify-localize` replaces it.
RESHARD = (
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "func.func(sdy-reshard-to-collectives)",
    "canonicalize",
)
SHARDING = "sdy.sharding"

# Maps a dimension's index and its axes to the axes to keep.
Keep = Callable[[int, list[Any]], list[Any]]


def kept(sharding: Any, keep: Keep) -> Any:
    """Returns a sharding with only the axes that `keep` returns."""
    dims = []
    for index, attribute in enumerate(sharding.dimension_shardings):
        dim = sdy.DimensionShardingAttr(attribute)
        dims.append(sdy.DimensionShardingAttr.get(keep(index, list(dim.axes)), dim.is_closed))
    rest = (sharding.replicated_axes, sharding.unreduced_axes)
    return sdy.TensorShardingAttr.get(sharding.mesh_or_ref, dims, *rest)


#
# Dimensions that axes do not divide
#


class Even:
    """Drops axes that do not divide their dimension, which is then replicated along them."""

    def __init__(self, module: ir.Module) -> None:
        meshes = [op for op in module.body.operations if op.operation.name == "sdy.mesh"]
        self.sizes = {
            op.attributes["sym_name"].value: {
                axis.name: axis.size
                for axis in map(sdy.MeshAxisAttr, sdy.MeshAttr(op.attributes["mesh"]).axes)
            }
            for op in meshes
        }

    def sharding(self, attribute: Any, kind: ir.Type) -> Any:
        """Returns the sharding of a value of the type `kind` without such axes."""
        sharding = sdy.TensorShardingAttr(attribute)
        if not isinstance(kind, ir.RankedTensorType):
            return sharding
        sizes = self.sizes[sharding.mesh_or_ref.value]

        def keep(index: int, axes: list[Any]) -> list[Any]:
            parts, even = 1, []
            for axis in map(sdy.AxisRefAttr, axes):
                part = axis.sub_axis_info
                parts *= sizes[axis.name] if part is None else sdy.SubAxisInfoAttr(part).size
                if kind.shape[index] % parts:
                    break
                even.append(axis)
            return even

        return kept(sharding, keep)

    def visit(self, op: ir.Operation) -> None:
        """Drops such axes from the shardings of an op's or a function's results."""
        if SHARDING in op.attributes:
            each = sdy.TensorShardingPerValueAttr(op.attributes[SHARDING]).shardings
            even = [
                self.sharding(one, value.type) for one, value in zip(each, op.results, strict=True)
            ]
            op.attributes[SHARDING] = sdy.TensorShardingPerValueAttr.get(even)
        if op.name == "sdy.reshard":
            op.attributes["sharding"] = self.sharding(op.attributes["sharding"], op.result.type)
        if op.name == "func.func" and "res_attrs" in op.attributes:
            types = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).results
            results = []
            for attributes, kind in zip(op.attributes["res_attrs"], types, strict=True):
                named = {one.name: one.attr for one in ir.DictAttr(attributes)}
                if SHARDING in named:
                    named[SHARDING] = self.sharding(named[SHARDING], kind)
                results.append(ir.DictAttr.get(named))
            op.attributes["res_attrs"] = ir.ArrayAttr.get(results)


#
# Dimensions that an op needs unsharded
#


def sharding_of(value: ir.Value) -> Any:
    """Returns a value's sharding; None if it has none."""
    # Before jaxlib 0.9 a value's Python type does not tell block arguments from results.
    owner = value.owner
    is_argument = isinstance(owner, ir.Block)
    op = (owner.owner if is_argument else owner).operation
    index = list(owner.arguments if is_argument else op.results).index(value)
    if is_argument:
        if op.name == "func.func":
            if "arg_attrs" not in op.attributes:
                return None
            named = ir.DictAttr(op.attributes["arg_attrs"][index])
            return sdy.TensorShardingAttr(named[SHARDING]) if SHARDING in named else None
        if op.name != "stablehlo.while":
            return None
    if op.name == "sdy.reshard":
        return sdy.TensorShardingAttr(op.attributes["sharding"])
    if SHARDING not in op.attributes:
        return None
    each = sdy.TensorShardingPerValueAttr(op.attributes[SHARDING]).shardings
    return sdy.TensorShardingAttr(each[index])


def numbers(op: ir.Operation, name: str) -> list[int]:
    """Returns an op's array attribute of integers."""
    return list(ir.DenseI64ArrayAttr(op.attributes[name]))


def changed(op: ir.Operation, neutral: dict[str, int]) -> list[int]:
    """Returns the dimensions in which one of an op's lists differs from its neutral value."""
    lists = {name: numbers(op, name) for name in neutral if name in op.attributes}
    found = {
        index
        for name, each in lists.items()
        for index, number in enumerate(each)
        if number != neutral[name]
    }
    return sorted(found)


def is_combinable(reduce: ir.Operation) -> bool:
    """Returns whether a collective can combine the devices' partial results of a reduction."""
    joins = ("add", "maximum", "minimum", "and", "or")
    body = [op.operation.name.removeprefix("stablehlo.") for op in reduce.regions[0].blocks[0]]
    return len(body) == 2 and body[0] in joins


def unsharded_dims(op: ir.Operation) -> tuple[Sequence[Collection[int]], Collection[int]]:
    """Returns the dimensions of each operand, and of the results, that an op needs unsharded.

    Shardy shards these ops all the same, since XLA's partitioner, for which it was made, exchanges
    halos with neighbours.
    """
    name, shapes = op.name, [list(operand.type.shape) for operand in op.operands]
    dims: Collection[int] = []
    if name == "stablehlo.convolution":
        numbering = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        sides = (numbering.input_spatial_dimensions, numbering.kernel_spatial_dimensions)
        return sides, numbering.output_spatial_dimensions
    if name == "stablehlo.concatenate":
        dims = [ir.IntegerAttr(op.attributes["dimension"]).value]
    elif name == "stablehlo.reverse":
        dims = numbers(op, "dimensions")
    elif name == "stablehlo.reduce" and not is_combinable(op):
        return [numbers(op, "dimensions") for _ in shapes[: len(op.results)]], []
    elif name == "stablehlo.slice":
        dims = [
            index for index, size in enumerate(shapes[0]) if size != op.result.type.shape[index]
        ]
    elif name == "stablehlo.dynamic_update_slice":
        dims = [index for index, size in enumerate(shapes[0]) if size != shapes[1][index]]
    elif name == "stablehlo.pad":
        edges = ("edge_padding_low", "edge_padding_high", "interior_padding")
        dims = changed(op, dict.fromkeys(edges, 0))
    elif name in ("stablehlo.reduce_window", "stablehlo.select_and_scatter"):
        lists = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
        dims = changed(op, dict.fromkeys(lists, 1))
        if "padding" in op.attributes:
            padding = list(ir.DenseIntElementsAttr(op.attributes["padding"]))
            dims = sorted({*dims, *(index // 2 for index, edge in enumerate(padding) if edge)})
    return [dims for _ in shapes], dims


def resharded_value(value: ir.Value, whole: Any) -> ir.Value:
    """Returns a value in the sharding `whole`: iotas and constants cloned, others resharded."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name in ("stablehlo.iota", "sdy.constant"):
        again = owner.operation.clone()
        again.attributes[SHARDING] = sdy.TensorShardingPerValueAttr.get([whole])
        return again.results[0]
    return sdy.ReshardOp(value, whole).result


def gather_operands(op: ir.Operation) -> None:
    """Gathers an op's operands along such dimensions, and shards its results again."""
    of_operands, of_results = unsharded_dims(op)

    def joined(value: ir.Value, dims: Collection[int]) -> Any:
        sharding = sharding_of(value) if dims else None
        if sharding is None:
            return None
        whole = kept(sharding, lambda index, axes: [] if index in dims else axes)
        return None if whole == sharding else whole

    for index, (operand, dims) in enumerate(zip(op.operands, of_operands, strict=False)):
        if (whole := joined(operand, dims)) is not None:
            with ir.InsertionPoint(op), op.location:
                op.operands[index] = resharded_value(operand, whole)
    wholes = [joined(result, of_results) for result in op.results]
    before = [sharding_of(result) for result in op.results]
    if any(wholes):
        each = [whole or old for whole, old in zip(wholes, before, strict=True)]
        op.attributes[SHARDING] = sdy.TensorShardingPerValueAttr.get(each)
    for result, whole, old in zip(op.results, wholes, before, strict=True):
        if whole is not None:
            with ir.InsertionPoint(op), op.location:
                again = sdy.ReshardOp(result, old)
            again.move_after(op)
            result.replace_all_uses_except(again.result, [again.operation])


def all_ops(module: ir.Module) -> list[ir.Operation]:
    """Returns the ops of a module in pre-order."""
    ops: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        ops.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return ops


def run(module: ir.Module, passes: Iterable[str]) -> None:
    """Runs passes on a module."""
    manager = passmanager.PassManager.parse(f"builtin.module({','.join(passes)})")
    manager.run(module.operation)


def main() -> int:
    """Prints the program with explicit collectives; on failure prints Shardy's error, returns 1."""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    with ir.Context() as context:
        context.append_dialect_registry(registry)
        # Shardy ignores attributes of the scalify dialect and keeps them.
        context.allow_unregistered_dialects = True
        for dialect in (chlo, sdy, stablehlo):
            dialect.register_dialect(context)
        try:
            module = ir.Module.parse(sys.stdin.read())
            run(module, PROPAGATE)
            ops, even = all_ops(module), Even(module)
            for op in ops:
                even.visit(op)
            for op in ops:
                gather_operands(op)
            run(module, RESHARD)
        except (ir.MLIRError, ValueError) as error:
            print(error, file=sys.stderr)
            return 1
        print(module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
