//===- Collective.td - Communication between devices -------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_COLLECTIVE
#define SCALIFY_DIALECT_STABLEHLO_COLLECTIVE

include "scalify/Dialect/StableHLO/Base.td"

// Collectives are not Pure: every device must run them, in the same order.
class StableHLO_CollectiveOp<string mnemonic, list<Trait> traits = []>
    : StableHLO_Op<mnemonic, traits>;

defvar StableHLO_ReplicaGroups = I64ElementsAttr;
defvar StableHLO_OptionalChannel = OptionalAttr<StableHLO_ChannelHandleAttr>;

def StableHLO_AllReduceOp : StableHLO_CollectiveOp<"all_reduce"> {
  let summary = "reduce over the devices of a group; each gets the result";
  let arguments = (ins Variadic<StableHLO_Tensor>:$operands,
                       StableHLO_ReplicaGroups:$replica_groups,
                       StableHLO_OptionalChannel:$channel_handle,
                       UnitAttr:$use_global_device_ids);
  let regions = (region SizedRegion<1>:$computation);
  let results = (outs Variadic<StableHLO_Tensor>);
  let hasVerifier = 1;
}

def StableHLO_ReduceScatterOp : StableHLO_CollectiveOp<"reduce_scatter"> {
  let summary = "reduce over the devices of a group; each gets a part";
  let arguments = (ins StableHLO_Tensor:$operand,
                       StableHLO_NonNegativeI64:$scatter_dimension,
                       StableHLO_ReplicaGroups:$replica_groups,
                       StableHLO_OptionalChannel:$channel_handle,
                       UnitAttr:$use_global_device_ids);
  let regions = (region SizedRegion<1>:$computation);
  let results = (outs StableHLO_Tensor:$result);
  let hasVerifier = 1;
}

def StableHLO_AllGatherOp
    : StableHLO_CollectiveOp<"all_gather", [SameOperandsAndResultElementType]> {
  let summary = "join the shards of a group's devices along a dimension";
  let arguments = (ins Variadic<StableHLO_Tensor>:$operands,
                       StableHLO_NonNegativeI64:$all_gather_dim,
                       StableHLO_ReplicaGroups:$replica_groups,
                       StableHLO_OptionalChannel:$channel_handle,
                       UnitAttr:$use_global_device_ids);
  let results = (outs Variadic<StableHLO_Tensor>);
  let hasVerifier = 1;
}

def StableHLO_AllToAllOp : StableHLO_CollectiveOp<"all_to_all"> {
  let summary = "send a part to every device of the group";
  let arguments = (ins Variadic<StableHLO_Tensor>:$operands,
                       StableHLO_NonNegativeI64:$split_dimension,
                       StableHLO_NonNegativeI64:$concat_dimension,
                       ConfinedAttr<I64Attr, [IntPositive]>:$split_count,
                       StableHLO_ReplicaGroups:$replica_groups,
                       StableHLO_OptionalChannel:$channel_handle);
  let results = (outs Variadic<StableHLO_Tensor>);
  let hasVerifier = 1;
}

def StableHLO_CollectivePermuteOp : StableHLO_CollectiveOp<
    "collective_permute", [SameOperandsAndResultType]> {
  let summary = "send data between pairs of devices";
  let arguments = (ins StableHLO_Tensor:$operand,
                       I64ElementsAttr:$source_target_pairs,
                       StableHLO_OptionalChannel:$channel_handle);
  let results = (outs StableHLO_Tensor:$result);
  let hasVerifier = 1;
}

def StableHLO_CollectiveBroadcastOp : StableHLO_CollectiveOp<
    "collective_broadcast", [SameOperandsAndResultType]> {
  let summary = "send from the first device of a group to the others";
  let arguments = (ins StableHLO_Tensor:$operand,
                       StableHLO_ReplicaGroups:$replica_groups,
                       StableHLO_OptionalChannel:$channel_handle);
  let results = (outs StableHLO_Tensor:$result);
  let hasVerifier = 1;
}

class StableHLO_DeviceIdOp<string mnemonic> : StableHLO_PureOp<mnemonic> {
  let results = (outs 0DTensorOf<[UI32]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def StableHLO_PartitionIdOp : StableHLO_DeviceIdOp<"partition_id">;
def StableHLO_ReplicaIdOp : StableHLO_DeviceIdOp<"replica_id">;

#endif // SCALIFY_DIALECT_STABLEHLO_COLLECTIVE
