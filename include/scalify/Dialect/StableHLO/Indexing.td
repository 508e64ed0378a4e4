//===- Indexing.td - Ops with indices known at run time ----*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_INDEXING
#define SCALIFY_DIALECT_STABLEHLO_INDEXING

include "scalify/Dialect/StableHLO/Base.td"

def StableHLO_DynamicSliceOp
    : StableHLO_InferredOp<"dynamic_slice", [Moves<"Slice">]> {
  let summary = "take a part whose start is known at run time";
  let arguments = (ins StableHLO_Tensor:$operand,
                       Variadic<StableHLO_ScalarIntTensor>:$start_indices,
                       DenseI64ArrayAttr:$slice_sizes);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $operand `,` custom<VariadicOperandWithAttribute>($start_indices)
    `sizes` `=` $slice_sizes attr-dict `:` functional-type(operands, results)
  }];
}

def StableHLO_DynamicUpdateSliceOp
    : StableHLO_InferredOp<"dynamic_update_slice"> {
  let summary = "replace a part whose start is known at run time";
  let arguments = (ins StableHLO_Tensor:$operand, StableHLO_Tensor:$update,
                       Variadic<StableHLO_ScalarIntTensor>:$start_indices);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
}

def StableHLO_GatherOp : StableHLO_InferredOp<"gather"> {
  let summary = "collect slices at the indices in a tensor";
  let arguments = (ins
    StableHLO_Tensor:$operand, StableHLO_IntTensor:$start_indices,
    StableHLO_GatherDimensionNumbersAttr:$dimension_numbers,
    DenseI64ArrayAttr:$slice_sizes,
    DefaultValuedOptionalAttr<BoolAttr, "false">:$indices_are_sorted);
  let results = (outs StableHLO_Tensor:$result);
}

def StableHLO_ScatterOp : StableHLO_Op<"scatter", [
    RecursiveMemoryEffects, RecursivelySpeculatable, SameVariadicOperandSize]> {
  let summary = "combine slices into those at the indices in a tensor";
  let arguments = (ins
    Variadic<StableHLO_Tensor>:$inputs, StableHLO_IntTensor:$scatter_indices,
    Variadic<StableHLO_Tensor>:$updates,
    StableHLO_ScatterDimensionNumbersAttr:$scatter_dimension_numbers,
    DefaultValuedOptionalAttr<BoolAttr, "false">:$indices_are_sorted,
    DefaultValuedOptionalAttr<BoolAttr, "false">:$unique_indices);
  let regions = (region SizedRegion<1>:$update_computation);
  let results = (outs Variadic<StableHLO_Tensor>);
  let hasVerifier = 1;
}

def StableHLO_TorchIndexSelectOp : StableHLO_PureOp<"torch_index_select"> {
  let summary = "gather along one dimension, with batch dimensions before it";
  let arguments = (ins StableHLO_Tensor:$operand, StableHLO_IntTensor:$index,
                       I64Attr:$dim, I64Attr:$batch_dims);
  let results = (outs StableHLO_Tensor:$result);
  let hasVerifier = 1;
}

#endif // SCALIFY_DIALECT_STABLEHLO_INDEXING
