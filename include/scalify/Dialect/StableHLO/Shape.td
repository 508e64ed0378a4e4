//===- Shape.td - Constants and ops that move elements -----*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_SHAPE
#define SCALIFY_DIALECT_STABLEHLO_SHAPE

include "scalify/Dialect/StableHLO/Base.td"

def StableHLO_ConstantOp : StableHLO_PureOp<"constant", [
    ConstantLike, InferTypeOpAdaptorWithIsCompatible,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "make a tensor known at compile time";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs StableHLO_Tensor:$output);
  let hasCustomAssemblyFormat = 1;
  let hasFolder = 1;
}

def StableHLO_IotaOp : StableHLO_PureOp<"iota"> {
  let summary = "count up from zero along one dimension";
  let arguments = (ins StableHLO_NonNegativeI64:$iota_dimension);
  let results = (outs StableHLO_IntFloatOrComplexTensor:$output);
  let assemblyFormat = "`dim` `=` $iota_dimension attr-dict `:` type($output)";
  let hasVerifier = 1;
}

def StableHLO_BroadcastInDimOp
    : StableHLO_PureOp<"broadcast_in_dim", [Moves<"Broadcast">]> {
  let summary = "repeat a tensor along new or size-one dimensions";
  let arguments = (ins StableHLO_Tensor:$operand,
                       DenseI64ArrayAttr:$broadcast_dimensions);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $operand `,` `dims` `=` $broadcast_dimensions attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_BroadcastOp : StableHLO_InferredOp<"broadcast"> {
  let summary = "add major dimensions by repetition";
  let arguments = (ins StableHLO_Tensor:$operand,
                       DenseI64ArrayAttr:$broadcast_sizes);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $operand `,` `sizes` `=` $broadcast_sizes attr-dict `:`
    functional-type(operands, results)
  }];
}

def StableHLO_ReshapeOp : StableHLO_PureOp<"reshape", [Moves<"Reshape">]> {
  let summary = "reshape to the same number of elements";
  let arguments = (ins StableHLO_Tensor:$operand);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$operand,
                                 "::llvm::ArrayRef<int64_t>":$shape)>];
  let hasVerifier = 1;
}

def StableHLO_BitcastConvertOp : StableHLO_PureOp<"bitcast_convert"> {
  let summary = "reinterpret bits as another element type";
  let arguments = (ins StableHLO_Tensor:$operand);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_TransposeOp
    : StableHLO_InferredOp<"transpose", [Moves<"Transpose">]> {
  let summary = "reorder dimensions";
  let arguments = (ins StableHLO_Tensor:$operand,
                       DenseI64ArrayAttr:$permutation);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $operand `,` `dims` `=` $permutation attr-dict `:`
    functional-type(operands, results)
  }];
}

def StableHLO_SliceOp : StableHLO_InferredOp<"slice", [Moves<"Slice">]> {
  let summary = "take a strided part with bounds known at compile time";
  let arguments = (ins StableHLO_Tensor:$operand,
                       DenseI64ArrayAttr:$start_indices,
                       DenseI64ArrayAttr:$limit_indices,
                       DenseI64ArrayAttr:$strides);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $operand custom<SliceRanges>($start_indices, $limit_indices, $strides)
    attr-dict `:` functional-type(operands, results)
  }];
  let builders = [
    // The elements from `begin` to `end` along one dimension.
    OpBuilder<(ins "::mlir::Value":$operand, "int64_t":$dim, "int64_t":$begin,
                   "int64_t":$end)>,
    // The first elements along each dimension.
    OpBuilder<(ins "::mlir::Value":$operand,
                   "::llvm::ArrayRef<int64_t>":$limits)>];
}

def StableHLO_ConcatenateOp : StableHLO_InferredOp<"concatenate"> {
  let summary = "join tensors along a dimension";
  let arguments = (ins Variadic<StableHLO_Tensor>:$inputs,
                       StableHLO_NonNegativeI64:$dimension);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    custom<VariadicOperandWithAttribute>($inputs) `dim` `=` $dimension
    attr-dict `:` functional-type(operands, results)
  }];
}

def StableHLO_PadOp : StableHLO_InferredOp<"pad"> {
  let summary = "add (or, if negative, remove) elements around and between";
  let arguments = (ins StableHLO_Tensor:$operand,
                       StableHLO_Tensor:$padding_value,
                       DenseI64ArrayAttr:$edge_padding_low,
                       DenseI64ArrayAttr:$edge_padding_high,
                       DenseI64ArrayAttr:$interior_padding);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $operand `,` $padding_value `,` `low` `=` $edge_padding_low `,` `high` `=`
    $edge_padding_high `,` `interior` `=` $interior_padding attr-dict `:`
    functional-type(operands, results)
  }];
}

def StableHLO_ReverseOp
    : StableHLO_InferredOp<"reverse", [Moves<"Reverse">]> {
  let summary = "reverse the order of elements along dimensions";
  let arguments = (ins StableHLO_Tensor:$operand,
                       DenseI64ArrayAttr:$dimensions);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $operand `,` `dims` `=` $dimensions attr-dict `:`
    custom<SameOperandsAndResultType>(type($operand), type($result))
  }];
}

#endif // SCALIFY_DIALECT_STABLEHLO_SHAPE
