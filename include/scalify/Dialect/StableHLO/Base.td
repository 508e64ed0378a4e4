//===- Base.td - Type constraints and op classes -----------*- tablegen -*-===//
//
// Definitions common to all families of ops. A family's file includes this one
// and none of the other families, so that each generates its own pair of .inc
// files.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_STABLEHLO_BASE
#define SCALIFY_DIALECT_STABLEHLO_BASE

include "mlir/Dialect/Quant/IR/QuantBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "scalify/Dialect/StableHLO/Attrs.td"
include "scalify/Dialect/StableHLO/DataMovement.td"
include "scalify/Dialect/StableHLO/Types.td"

//===----------------------------------------------------------------------===//
// Element types
//===----------------------------------------------------------------------===//

def StableHLO_Pred : TypeAlias<I1, "pred (AKA boolean or 1-bit integer)">;
def StableHLO_SInt : SignlessIntOfWidths<[2, 4, 8, 16, 32, 64]>;
def StableHLO_UInt : UnsignedIntOfWidths<[2, 4, 8, 16, 32, 64]>;
def StableHLO_Int : AnyTypeOf<[StableHLO_SInt, StableHLO_UInt],
    "2/4/8/16/32/64-bit integer">;
def StableHLO_Float : AnyTypeOf<[
    F4E2M1FN, F6E2M3FN, F6E3M2FN, F8E3M4, F8E4M3, F8E4M3B11FNUZ, F8E4M3FN,
    F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, F16, F32, F64, BF16],
    "4/6/8/16/32/64-bit float">;
def StableHLO_Complex : AnyTypeOf<[Complex<F32>, Complex<F64>],
    "complex of 32/64-bit float">;
def StableHLO_Quantized : Type<quant_QuantizedType.predicate, "quantized">;

//===----------------------------------------------------------------------===//
// Tensor types
//===----------------------------------------------------------------------===//

class StableHLO_TensorOf<list<Type> elements> : RankedTensorOf<elements>;

def StableHLO_Tensor : StableHLO_TensorOf<[
    StableHLO_Pred, StableHLO_Int, StableHLO_Float, StableHLO_Complex,
    StableHLO_Quantized]>;
def StableHLO_PredTensor : StableHLO_TensorOf<[StableHLO_Pred]>;
def StableHLO_IntTensor : StableHLO_TensorOf<[StableHLO_Int]>;
def StableHLO_PredOrIntTensor
    : StableHLO_TensorOf<[StableHLO_Pred, StableHLO_Int]>;
def StableHLO_FloatTensor
    : StableHLO_TensorOf<[StableHLO_Float, StableHLO_Quantized]>;
def StableHLO_FloatOrComplexTensor : StableHLO_TensorOf<[
    StableHLO_Float, StableHLO_Complex, StableHLO_Quantized]>;
def StableHLO_IntFloatOrComplexTensor : StableHLO_TensorOf<[
    StableHLO_Int, StableHLO_Float, StableHLO_Complex, StableHLO_Quantized]>;
def StableHLO_ScalarIntTensor : 0DTensorOf<[StableHLO_Int]>;
def StableHLO_ScalarPredTensor : 0DTensorOf<[StableHLO_Pred]>;
def StableHLO_TensorOrToken : AnyTypeOf<[StableHLO_Tensor, StableHLO_Token]>;
def StableHLO_TensorTokenOrTuple
    : AnyTypeOf<[StableHLO_Tensor, StableHLO_Token, AnyTuple]>;

//===----------------------------------------------------------------------===//
// Attributes of ops
//===----------------------------------------------------------------------===//

def StableHLO_PrecisionConfigAttr : TypedArrayAttrBase<
    StableHLO_PrecisionAttr, "precision per operand">;
def StableHLO_DefaultAccuracy
    : DefaultValuedOptionalAttr<StableHLO_ResultAccuracyAttr, "DEFAULT">;
def StableHLO_NonNegativeI64 : ConfinedAttr<I64Attr, [IntNonNegative]>;

//===----------------------------------------------------------------------===//
// Op classes
//===----------------------------------------------------------------------===//

class StableHLO_Op<string mnemonic, list<Trait> traits = []>
    : Op<StableHLO_Dialect, mnemonic, traits>;

// An op without side effects.
class StableHLO_PureOp<string mnemonic, list<Trait> traits = []>
    : StableHLO_Op<mnemonic, !listconcat([Pure], traits)>;

// An op with inferred types, which may differ in dynamic dimensions.
class StableHLO_ComparesTypes {
  code extraClassDefinition = [{
    bool $cppClass::isCompatibleReturnTypes(::mlir::TypeRange lhs,
                                            ::mlir::TypeRange rhs) {
      return ::scalify::stablehlo::detail::areCompatibleTypes(lhs, rhs);
    }
  }];
}

// A pure op whose result types follow from its operands and attributes.
class StableHLO_InferredOp<string mnemonic, list<Trait> traits = []>
    : StableHLO_PureOp<mnemonic,
                       !listconcat([InferTypeOpAdaptorWithIsCompatible],
                                   traits)>,
      StableHLO_ComparesTypes;

class StableHLO_NativeTrait<string name> : NativeOpTrait<name> {
  let cppNamespace = "::scalify::stablehlo::OpTrait";
}

// Elementwise ops have MLIR's Elementwise trait and one of these, so that a
// rule can name a family. Ternary ops mix scalars with tensors, which MLIR's
// trait does not allow.
def StableHLO_TernaryElementwise : StableHLO_NativeTrait<"TernaryElementwise">;
def StableHLO_UnaryElementwise : StableHLO_NativeTrait<"UnaryElementwise">;
def StableHLO_BinaryElementwise : StableHLO_NativeTrait<"BinaryElementwise">;

#endif // SCALIFY_DIALECT_STABLEHLO_BASE
