//===- Dynamic.td - Ops whose shapes are known at run time -*- tablegen -*-===//
//
// `scalify-refine-shapes` replaces them by ops of static shapes, given those of
// the arguments. A shape that depends on data is an error there.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_STABLEHLO_DYNAMIC
#define SCALIFY_DIALECT_STABLEHLO_DYNAMIC

include "scalify/Dialect/StableHLO/Base.td"

def StableHLO_ShapeTensor : 1DTensorOf<[StableHLO_Int, Index]>;

def StableHLO_DynamicBroadcastInDimOp
    : StableHLO_PureOp<"dynamic_broadcast_in_dim"> {
  let summary = "broadcast to a shape known at run time";
  let arguments = (ins
    StableHLO_Tensor:$operand, StableHLO_ShapeTensor:$output_dimensions,
    DenseI64ArrayAttr:$broadcast_dimensions,
    OptionalAttr<DenseI64ArrayAttr>:$known_expanding_dimensions,
    OptionalAttr<DenseI64ArrayAttr>:$known_nonexpanding_dimensions);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $operand `,` $output_dimensions `,` `dims` `=` $broadcast_dimensions
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_DynamicGatherOp : StableHLO_PureOp<"dynamic_gather"> {
  let summary = "gather slices whose sizes are known at run time";
  let arguments = (ins
    StableHLO_Tensor:$operand, StableHLO_IntTensor:$start_indices,
    StableHLO_IntTensor:$slice_sizes,
    StableHLO_GatherDimensionNumbersAttr:$dimension_numbers,
    DefaultValuedOptionalAttr<BoolAttr, "false">:$indices_are_sorted);
  let results = (outs StableHLO_Tensor:$result);
  let hasVerifier = 1;
}

def StableHLO_DynamicIotaOp : StableHLO_PureOp<"dynamic_iota"> {
  let summary = "count up in a shape known at run time";
  let arguments = (ins StableHLO_ShapeTensor:$output_shape,
                       StableHLO_NonNegativeI64:$iota_dimension);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $output_shape `,` `dim` `=` $iota_dimension attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_DynamicPadOp : StableHLO_PureOp<"dynamic_pad"> {
  let summary = "pad by amounts known at run time";
  let arguments = (ins
    StableHLO_Tensor:$operand, StableHLO_Tensor:$padding_value,
    StableHLO_ShapeTensor:$edge_padding_low,
    StableHLO_ShapeTensor:$edge_padding_high,
    StableHLO_ShapeTensor:$interior_padding);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_DynamicReshapeOp : StableHLO_PureOp<"dynamic_reshape"> {
  let summary = "reshape to a shape known at run time";
  let arguments = (ins StableHLO_Tensor:$operand,
                       StableHLO_ShapeTensor:$output_shape);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_RealDynamicSliceOp : StableHLO_PureOp<"real_dynamic_slice"> {
  let summary = "slice with bounds known at run time";
  let arguments = (ins
    StableHLO_Tensor:$operand, StableHLO_ShapeTensor:$start_indices,
    StableHLO_ShapeTensor:$limit_indices, StableHLO_ShapeTensor:$strides);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_GetDimensionSizeOp : StableHLO_PureOp<"get_dimension_size"> {
  let summary = "return the size of a dimension as a scalar";
  let arguments = (ins StableHLO_Tensor:$operand,
                       StableHLO_NonNegativeI64:$dimension);
  let results = (outs 0DTensorOf<[I32]>:$result);
  let assemblyFormat = [{
    $operand `,` `dim` `=` $dimension attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_SetDimensionSizeOp : StableHLO_PureOp<"set_dimension_size"> {
  let summary = "set the size of a bounded dimension";
  let arguments = (ins StableHLO_Tensor:$operand, 0DTensorOf<[I32]>:$size,
                       StableHLO_NonNegativeI64:$dimension);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $operand `,` $size `,` `dim` `=` $dimension attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // SCALIFY_DIALECT_STABLEHLO_DYNAMIC
