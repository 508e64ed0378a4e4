//===- SdyOps.td - Ops of the sdy dialect ------------------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_SDY_SDYOPS
#define SCALIFY_DIALECT_SDY_SDYOPS

include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "scalify/Dialect/Sdy/SdyAttrs.td"

class Sdy_Op<string mnemonic, list<Trait> traits = []>
    : Op<Sdy_Dialect, mnemonic, traits>;

def Sdy_MeshOp : Sdy_Op<"mesh", [Symbol]> {
  let summary = "name a mesh";
  let arguments = (ins SymbolNameAttr:$sym_name, Sdy_MeshAttr:$mesh);
  let assemblyFormat = "$sym_name `=` $mesh attr-dict";
}

def Sdy_ShardingConstraintOp : Sdy_Op<"sharding_constraint", [
    Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "request a value's sharding";
  let arguments = (ins AnyRankedTensor:$input,
                       Sdy_TensorShardingAttr:$sharding);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input $sharding attr-dict `:` type($result)";
}

def Sdy_ReshardOp : Sdy_Op<"reshard", [
    Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "change a value's sharding";
  let arguments = (ins AnyRankedTensor:$input,
                       Sdy_TensorShardingAttr:$sharding);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input $sharding attr-dict `:` type($result)";
}

def Sdy_ShardingGroupOp : Sdy_Op<"sharding_group"> {
  let summary = "put a value in a group of identical shardings";
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$group_id);
  let assemblyFormat = [{
    $input `group_id` `` `=` `` $group_id attr-dict `:` type($input)
  }];
}

// Not isolated during compilation: its body uses constants of scales, which
// functions keep in one place. The export to StableHLO clones them into the
// body.
def Sdy_ManualComputationOp : Sdy_Op<"manual_computation", [
    RecursiveMemoryEffects, RecursivelySpeculatable,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "compute on one device's shards of the operands";
  let arguments = (ins Variadic<AnyRankedTensor>:$tensors,
                       Sdy_TensorShardingPerValueAttr:$in_shardings,
                       Sdy_TensorShardingPerValueAttr:$out_shardings,
                       Sdy_ManualAxesAttr:$manual_axes);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

// Shardy's partitioner emits these where a value changes its sharding. Types
// are those of whole values; --scalify-localize rewrites them for one device.
class Sdy_CollectiveOp<string mnemonic, dag axes> : Sdy_Op<mnemonic, [
    Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let arguments = !con((ins AnyRankedTensor:$tensor), axes,
                       (ins Sdy_TensorShardingAttr:$out_sharding));
  let results = (outs AnyRankedTensor:$result);
}

def Sdy_AllReduceOp
    : Sdy_CollectiveOp<"all_reduce", (ins Sdy_AxisRefListAttr:$reduction_axes)> {
  let summary = "sum partial results over axes";
}

def Sdy_ReduceScatterOp : Sdy_CollectiveOp<"reduce_scatter",
    (ins Sdy_ListOfAxisRefListsAttr:$reduce_scatter_axes)> {
  let summary = "sum partial results over axes, and shard dimensions by them";
}

def Sdy_AllGatherOp : Sdy_CollectiveOp<"all_gather",
    (ins Sdy_ListOfAxisRefListsAttr:$gathering_axes)> {
  let summary = "gather dimensions that axes shard";
}

def Sdy_AllSliceOp : Sdy_CollectiveOp<"all_slice",
    (ins Sdy_ListOfAxisRefListsAttr:$slicing_axes)> {
  let summary = "shard dimensions by axes: each device keeps its shard";
}

def Sdy_AllToAllOp : Sdy_CollectiveOp<"all_to_all",
    (ins Sdy_AllToAllParamListAttr:$params)> {
  let summary = "move axes from one dimension to another";
}

def Sdy_CollectivePermuteOp : Sdy_CollectiveOp<"collective_permute", (ins)> {
  let summary = "send shards to other devices, with the same number of shards";
}

def Sdy_ConstantOp : Sdy_Op<"constant", [Pure]> {
  let summary = "make a constant that is not merged with equal ones yet";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyRankedTensor:$output);
}

def Sdy_ReturnOp : Sdy_Op<"return", [Pure, ReturnLike, Terminator]> {
  let summary = "terminate a region and return its values";
  let arguments = (ins Variadic<AnyType>:$results);
  let assemblyFormat = "attr-dict ($results^ `:` type($results))?";
}

#endif // SCALIFY_DIALECT_SDY_SDYOPS
