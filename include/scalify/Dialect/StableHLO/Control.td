//===- Control.td - Loops, branches and barriers -----------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_CONTROL
#define SCALIFY_DIALECT_STABLEHLO_CONTROL

include "mlir/Interfaces/ControlFlowInterfaces.td"
include "scalify/Dialect/StableHLO/Base.td"

def StableHLO_ReturnOp : StableHLO_Op<"return", [
    Pure, ReturnLike, Terminator]> {
  let summary = "terminate a region and return its values";
  let arguments = (ins Variadic<AnyType>:$results);
  let assemblyFormat = "($results^)? attr-dict (`:` type($results)^)?";
}

def StableHLO_WhileOp : StableHLO_Op<"while", [
    RecursiveMemoryEffects,
    DeclareOpInterfaceMethods<OpAsmOpInterface,
                              ["getAsmBlockArgumentNames"]>]> {
  let summary = "repeat a body while a condition holds";
  let arguments = (ins Variadic<StableHLO_TensorTokenOrTuple>:$operand);
  let regions = (region SizedRegion<1>:$cond, SizedRegion<1>:$body);
  let results = (outs Variadic<StableHLO_TensorTokenOrTuple>);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def StableHLO_CaseOp : StableHLO_Op<"case", [
    RecursiveMemoryEffects, RecursivelySpeculatable, NoRegionArguments]> {
  let summary = "run one branch; an index out of range takes the last";
  let arguments = (ins 0DTensorOf<[I32]>:$index);
  let regions = (region VariadicRegion<SizedRegion<1>>:$branches);
  let results = (outs Variadic<StableHLO_TensorTokenOrTuple>);
  let hasVerifier = 1;
}

def StableHLO_IfOp : StableHLO_Op<"if", [
    RecursiveMemoryEffects, RecursivelySpeculatable, NoRegionArguments]> {
  let summary = "run one of two branches";
  let arguments = (ins StableHLO_ScalarPredTensor:$pred);
  let regions = (region SizedRegion<1>:$true_branch,
                        SizedRegion<1>:$false_branch);
  let results = (outs Variadic<StableHLO_TensorTokenOrTuple>);
  let hasVerifier = 1;
}

def StableHLO_OptimizationBarrierOp
    : StableHLO_PureOp<"optimization_barrier", [
          InferTypeOpAdaptorWithIsCompatible, Moves<"Barrier">]>,
      StableHLO_ComparesTypes {
  let summary = "keep ops after it from merging with ops before it";
  let arguments = (ins Variadic<StableHLO_TensorOrToken>:$operand);
  let results = (outs Variadic<StableHLO_TensorOrToken>:$result);
  let assemblyFormat = [{
    attr-dict ($operand^ `:` custom<PairwiseOpType>(type($operand),
                                                    type($result))):(`(` `)`)?
  }];
}

#endif // SCALIFY_DIALECT_STABLEHLO_CONTROL
