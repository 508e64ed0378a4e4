//===- CHLOOps.td - Ops of the chlo dialect ----------------*- tablegen -*-===//
//
// The client-level ops that frameworks leave in their text. Each stands for an
// expression over stablehlo ops; the import stage expands them.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_CHLO_CHLOOPS
#define SCALIFY_DIALECT_CHLO_CHLOOPS

include "scalify/Dialect/StableHLO/Base.td"

def CHLO_Dialect : Dialect {
  let name = "chlo";
  let cppNamespace = "::scalify::chlo";
  let summary = "client-level ops that stand for expressions over stablehlo";
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

class CHLO_PureOp<string mnemonic, list<Trait> traits = []>
    : Op<CHLO_Dialect, mnemonic, !listconcat([Pure], traits)>;

// One operand, one result of its type; prints `chlo.op %x : T -> T`.
class CHLO_UnaryOp<string mnemonic, Type tensor>
    : CHLO_PureOp<mnemonic, [
          Elementwise, SameOperandsAndResultShape, StableHLO_UnaryElementwise,
          InferTypeOpAdaptorWithIsCompatible]> {
  let arguments = (ins tensor:$operand);
  let results = (outs tensor:$result);
  let assemblyFormat = [{
    $operand attr-dict `:` type($operand) `->` type($result)
  }];
}

class CHLO_UnarySameTypeOp<string mnemonic>
    : CHLO_UnaryOp<mnemonic, StableHLO_FloatOrComplexTensor>;

def CHLO_AcosOp : CHLO_UnarySameTypeOp<"acos">;
def CHLO_AcoshOp : CHLO_UnarySameTypeOp<"acosh">;
def CHLO_AsinOp : CHLO_UnarySameTypeOp<"asin">;
def CHLO_AsinhOp : CHLO_UnarySameTypeOp<"asinh">;
def CHLO_AtanOp : CHLO_UnarySameTypeOp<"atan">;
def CHLO_AtanhOp : CHLO_UnarySameTypeOp<"atanh">;
def CHLO_BesselI1eOp : CHLO_UnarySameTypeOp<"bessel_i1e">;
def CHLO_ConjOp : CHLO_UnarySameTypeOp<"conj">;
def CHLO_CoshOp : CHLO_UnarySameTypeOp<"cosh">;
def CHLO_DigammaOp : CHLO_UnarySameTypeOp<"digamma">;
def CHLO_ErfInvOp : CHLO_UnarySameTypeOp<"erf_inv">;
def CHLO_ErfOp : CHLO_UnarySameTypeOp<"erf">;
def CHLO_ErfcOp : CHLO_UnarySameTypeOp<"erfc">;
def CHLO_LgammaOp : CHLO_UnarySameTypeOp<"lgamma">;
def CHLO_SinhOp : CHLO_UnarySameTypeOp<"sinh">;
def CHLO_SquareOp
    : CHLO_UnaryOp<"square", StableHLO_IntFloatOrComplexTensor>;
def CHLO_TanOp : CHLO_UnarySameTypeOp<"tan">;

// Tests of a float; the result holds predicates.
class CHLO_UnaryTestOp<string mnemonic>
    : CHLO_PureOp<mnemonic, [
          Elementwise, SameOperandsAndResultShape, StableHLO_UnaryElementwise,
          InferTypeOpAdaptorWithIsCompatible]> {
  let arguments = (ins StableHLO_FloatTensor:$operand);
  let results = (outs StableHLO_PredTensor:$result);
  let assemblyFormat = [{
    $operand attr-dict `:` type($operand) `->` type($result)
  }];
}

def CHLO_IsInfOp : CHLO_UnaryTestOp<"is_inf">;
def CHLO_IsNegInfOp : CHLO_UnaryTestOp<"is_neg_inf">;
def CHLO_IsPosInfOp : CHLO_UnaryTestOp<"is_pos_inf">;

def CHLO_TopKOp : CHLO_PureOp<"top_k", [InferTypeOpAdaptorWithIsCompatible]> {
  let summary = "the k largest elements of the last dimension, and where";
  let arguments = (ins StableHLO_Tensor:$operand,
                       StableHLO_NonNegativeI64:$k);
  let results = (outs StableHLO_Tensor:$values, StableHLO_Tensor:$indices);
  let assemblyFormat = [{
    `(` $operand `,` `k` `=` $k `)` attr-dict `:` type($operand) `->`
    `(` type($values) `,` type($indices) `)`
  }];
}

#endif // SCALIFY_DIALECT_CHLO_CHLOOPS
