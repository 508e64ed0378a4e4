//===- Reduce.td - Reductions ------------------------------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_REDUCE
#define SCALIFY_DIALECT_STABLEHLO_REDUCE

include "scalify/Dialect/StableHLO/Base.td"

def StableHLO_ReduceOp : StableHLO_Op<"reduce", [
    RecursiveMemoryEffects, RecursivelySpeculatable, SameVariadicOperandSize]> {
  let summary = "reduces dimensions of one or more tensors with a region";
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

#endif // SCALIFY_DIALECT_STABLEHLO_REDUCE
