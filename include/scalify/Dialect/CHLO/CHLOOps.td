//===- CHLOOps.td - Ops of the chlo dialect ----------------*- tablegen -*-===//
//
// The client-level ops that frameworks leave in their text. Each abbreviates an
// expression over stablehlo ops; the import stage expands them.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_CHLO_CHLOOPS
#define SCALIFY_DIALECT_CHLO_CHLOOPS

include "scalify/Dialect/CHLO/CHLOAttrs.td"
include "scalify/Dialect/StableHLO/Base.td"

class CHLO_PureOp<string mnemonic, list<Trait> traits = []>
    : Op<CHLO_Dialect, mnemonic, !listconcat([Pure], traits)>;

// One operand, one result of its type; prints `chlo.op %x : T -> T`.
class CHLO_UnaryOp<string mnemonic, Type tensor>
    : CHLO_PureOp<mnemonic, [
          Elementwise, SameOperandsAndResultShape, StableHLO_UnaryElementwise,
          InferTypeOpAdaptorWithIsCompatible]>,
      StableHLO_ComparesTypes {
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
          InferTypeOpAdaptorWithIsCompatible]>,
      StableHLO_ComparesTypes {
  let arguments = (ins StableHLO_FloatTensor:$operand);
  let results = (outs StableHLO_PredTensor:$result);
  let assemblyFormat = [{
    $operand attr-dict `:` type($operand) `->` type($result)
  }];
}

def CHLO_IsInfOp : CHLO_UnaryTestOp<"is_inf">;
def CHLO_IsNegInfOp : CHLO_UnaryTestOp<"is_neg_inf">;
def CHLO_IsPosInfOp : CHLO_UnaryTestOp<"is_pos_inf">;

def CHLO_TopKOp : CHLO_PureOp<"top_k", [InferTypeOpAdaptorWithIsCompatible]>,
    StableHLO_ComparesTypes {
  let summary = "find the k largest elements of the last dimension";
  let arguments = (ins StableHLO_Tensor:$operand,
                       StableHLO_NonNegativeI64:$k);
  let results = (outs StableHLO_Tensor:$values, StableHLO_Tensor:$indices);
  let assemblyFormat = [{
    `(` $operand `,` `k` `=` $k `)` attr-dict `:` type($operand) `->`
    `(` type($values) `,` type($indices) `)`
  }];
}

def CHLO_RaggedDotOp : CHLO_PureOp<"ragged_dot"> {
  let summary = "multiply groups of rows whose sizes are known at run time";
  let arguments = (ins
    StableHLO_Tensor:$lhs, StableHLO_Tensor:$rhs,
    StableHLO_IntTensor:$group_sizes,
    CHLO_RaggedDotDimensionNumbersAttr:$ragged_dot_dimension_numbers,
    OptionalAttr<CHLO_PrecisionConfigAttr>:$precision_config);
  let results = (outs StableHLO_Tensor:$result);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

def CHLO_ConstantOp : CHLO_PureOp<"constant", [
    ConstantLike, AllTypesMatch<["value", "output"]>]> {
  let summary = "make a constant tensor";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs StableHLO_Tensor:$output);
  let assemblyFormat = "attr-dict $value";
  let builders = [OpBuilder<(ins "::mlir::ElementsAttr":$value)>];
  let hasFolder = 1;
}

def CHLO_ConstantLikeOp : CHLO_PureOp<"constant_like", [
    SameOperandsAndResultShape]> {
  let summary = "make a splat of the operand's shape";
  let arguments = (ins TypedAttrInterface:$value, StableHLO_Tensor:$operand);
  let results = (outs StableHLO_Tensor:$result);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

class CHLO_BinaryOp<string mnemonic, Type tensor = StableHLO_FloatTensor>
    : CHLO_PureOp<mnemonic, [
          Elementwise, SameOperandsAndResultShape, StableHLO_BinaryElementwise,
          SameOperandsAndResultElementType]> {
  let arguments = (ins tensor:$lhs, tensor:$rhs);
  let results = (outs tensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

def CHLO_MulhiOp : CHLO_BinaryOp<"mulhi", StableHLO_IntTensor>;
def CHLO_NextAfterOp : CHLO_BinaryOp<"next_after">;
def CHLO_PolygammaOp : CHLO_BinaryOp<"polygamma">;
def CHLO_ZetaOp : CHLO_BinaryOp<"zeta">;

// Binary ops that broadcast the operand of lower rank.
class CHLO_BroadcastOp<string mnemonic> : CHLO_PureOp<mnemonic> {
  let arguments = (ins StableHLO_Tensor:$lhs, StableHLO_Tensor:$rhs,
                       OptionalAttr<DenseI64ArrayAttr>:$broadcast_dimensions);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` `(` type($lhs) `,` type($rhs) `)` `->`
    type($result)
  }];
  let hasVerifier = 1;
}

def CHLO_BroadcastAddOp : CHLO_BroadcastOp<"broadcast_add">;
def CHLO_BroadcastAndOp : CHLO_BroadcastOp<"broadcast_and">;
def CHLO_BroadcastAtan2Op : CHLO_BroadcastOp<"broadcast_atan2">;
def CHLO_BroadcastComplexOp : CHLO_BroadcastOp<"broadcast_complex">;
def CHLO_BroadcastDivOp : CHLO_BroadcastOp<"broadcast_divide">;
def CHLO_BroadcastMaxOp : CHLO_BroadcastOp<"broadcast_maximum">;
def CHLO_BroadcastMinOp : CHLO_BroadcastOp<"broadcast_minimum">;
def CHLO_BroadcastMulOp : CHLO_BroadcastOp<"broadcast_multiply">;
def CHLO_BroadcastNextAfterOp : CHLO_BroadcastOp<"broadcast_next_after">;
def CHLO_BroadcastOrOp : CHLO_BroadcastOp<"broadcast_or">;
def CHLO_BroadcastPolygammaOp : CHLO_BroadcastOp<"broadcast_polygamma">;
def CHLO_BroadcastPowOp : CHLO_BroadcastOp<"broadcast_power">;
def CHLO_BroadcastRemOp : CHLO_BroadcastOp<"broadcast_remainder">;
def CHLO_BroadcastShiftLeftOp : CHLO_BroadcastOp<"broadcast_shift_left">;
def CHLO_BroadcastShiftRightArithmeticOp
    : CHLO_BroadcastOp<"broadcast_shift_right_arithmetic">;
def CHLO_BroadcastShiftRightLogicalOp
    : CHLO_BroadcastOp<"broadcast_shift_right_logical">;
def CHLO_BroadcastSubOp : CHLO_BroadcastOp<"broadcast_subtract">;
def CHLO_BroadcastXorOp : CHLO_BroadcastOp<"broadcast_xor">;
def CHLO_BroadcastZetaOp : CHLO_BroadcastOp<"broadcast_zeta">;

def CHLO_BroadcastSelectOp : CHLO_PureOp<"broadcast_select"> {
  let arguments = (ins StableHLO_PredTensor:$pred, StableHLO_Tensor:$on_true,
                       StableHLO_Tensor:$on_false);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $pred `,` $on_true `,` $on_false attr-dict `:` `(` type($pred) `,`
    type($on_true) `,` type($on_false) `)` `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // SCALIFY_DIALECT_CHLO_CHLOOPS
