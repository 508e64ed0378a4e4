//===- Reduce.td - Reductions ------------------------------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_REDUCE
#define SCALIFY_DIALECT_STABLEHLO_REDUCE

include "scalify/Dialect/StableHLO/Base.td"

def StableHLO_ReduceOp : StableHLO_Op<"reduce", [
    RecursiveMemoryEffects, RecursivelySpeculatable, SameVariadicOperandSize]> {
  let summary = "reduce dimensions of one or more tensors with a region";
  let arguments = (ins Variadic<StableHLO_Tensor>:$inputs,
                       Variadic<StableHLO_Tensor>:$init_values,
                       DenseI64ArrayAttr:$dimensions);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<StableHLO_Tensor>);
  let builders = [OpBuilder<(ins "::mlir::ValueRange":$inputs,
                                 "::mlir::ValueRange":$init_values,
                                 "::llvm::ArrayRef<int64_t>":$dimensions)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def StableHLO_ReduceWindowOp : StableHLO_Op<"reduce_window", [
    RecursiveMemoryEffects, RecursivelySpeculatable, SameVariadicOperandSize]> {
  let summary = "reduce each window of one or more tensors with a region";
  let arguments = (ins Variadic<StableHLO_Tensor>:$inputs,
                       Variadic<StableHLO_Tensor>:$init_values,
                       DenseI64ArrayAttr:$window_dimensions,
                       OptionalAttr<DenseI64ArrayAttr>:$window_strides,
                       OptionalAttr<DenseI64ArrayAttr>:$base_dilations,
                       OptionalAttr<DenseI64ArrayAttr>:$window_dilations,
                       OptionalAttr<I64ElementsAttr>:$padding);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<StableHLO_Tensor>);
  let hasVerifier = 1;
}

def StableHLO_SelectAndScatterOp : StableHLO_Op<"select_and_scatter", [
    RecursiveMemoryEffects, RecursivelySpeculatable]> {
  let summary = "scatter to the element that a region selects in each window";
  let arguments = (ins StableHLO_Tensor:$operand, StableHLO_Tensor:$source,
                       StableHLO_Tensor:$init_value,
                       OptionalAttr<DenseI64ArrayAttr>:$window_dimensions,
                       OptionalAttr<DenseI64ArrayAttr>:$window_strides,
                       OptionalAttr<I64ElementsAttr>:$padding);
  let regions = (region SizedRegion<1>:$select, SizedRegion<1>:$scatter);
  let results = (outs StableHLO_Tensor:$result);
  let hasVerifier = 1;
}

def StableHLO_SortOp : StableHLO_Op<"sort", [
    RecursiveMemoryEffects, RecursivelySpeculatable]> {
  let summary = "sort slices of one or more tensors by a comparator";
  let arguments = (ins Variadic<StableHLO_Tensor>:$inputs,
                       DefaultValuedOptionalAttr<I64Attr, "-1">:$dimension,
                       DefaultValuedOptionalAttr<BoolAttr, "false">:$is_stable);
  let regions = (region SizedRegion<1>:$comparator);
  let results = (outs Variadic<StableHLO_Tensor>);
  let hasVerifier = 1;
}

def StableHLO_MapOp : StableHLO_Op<"map", [
    RecursiveMemoryEffects, RecursivelySpeculatable,
    SameOperandsAndResultShape]> {
  let summary = "apply a region to each element";
  let arguments = (ins Variadic<StableHLO_Tensor>:$inputs,
                       DenseI64ArrayAttr:$dimensions);
  let regions = (region SizedRegion<1>:$computation);
  let results = (outs StableHLO_Tensor);
  let hasVerifier = 1;
}

#endif // SCALIFY_DIALECT_STABLEHLO_REDUCE
