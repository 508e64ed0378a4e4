//===- Elementwise.td - Elementwise ops --------------------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_ELEMENTWISE
#define SCALIFY_DIALECT_STABLEHLO_ELEMENTWISE

include "scalify/Dialect/StableHLO/Base.td"

class StableHLO_ElementwiseOp<string mnemonic, list<Trait> traits>
    : StableHLO_PureOp<mnemonic, !listconcat([
          Elementwise, SameOperandsAndResultShape], traits)>;

// The result type follows the first operand's.
class StableHLO_SameTypeOp<string mnemonic, list<Trait> traits>
    : StableHLO_ElementwiseOp<mnemonic, !listconcat([
          InferTypeOpInterface], traits)> {
  let extraClassDeclaration = [{
    static ::llvm::LogicalResult inferReturnTypes(
        ::mlir::MLIRContext *context, std::optional<::mlir::Location> location,
        ::mlir::ValueRange operands, ::mlir::DictionaryAttr attributes,
        ::mlir::OpaqueProperties properties, ::mlir::RegionRange regions,
        ::llvm::SmallVectorImpl<::mlir::Type> &inferred) {
      return detail::inferElementwiseType(location, getOperationName(),
                                          operands, inferred);
    }
    static bool isCompatibleReturnTypes(::mlir::TypeRange lhs,
                                        ::mlir::TypeRange rhs) {
      return detail::areCompatibleTypes(lhs, rhs);
    }
  }];
}

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

class StableHLO_UnaryOp<string mnemonic, Type tensor, list<Trait> traits = []>
    : StableHLO_SameTypeOp<mnemonic, !listconcat([StableHLO_UnaryElementwise],
                                                 traits)> {
  let arguments = (ins tensor:$operand);
  let results = (outs tensor:$result);
  let assemblyFormat = [{
    $operand attr-dict `:`
    custom<SameOperandsAndResultType>(type($operand), type($result))
  }];
}

// A transcendental function with an optional required accuracy.
class StableHLO_UnaryAccuracyOp<string mnemonic, Type tensor>
    : StableHLO_UnaryOp<mnemonic, tensor> {
  let arguments = (ins tensor:$operand,
                       StableHLO_DefaultAccuracy:$result_accuracy);
}

def StableHLO_CbrtOp
    : StableHLO_UnaryAccuracyOp<"cbrt", StableHLO_FloatOrComplexTensor>;
def StableHLO_CeilOp : StableHLO_UnaryOp<"ceil", StableHLO_FloatTensor>;
def StableHLO_ClzOp
    : StableHLO_UnaryOp<"count_leading_zeros", StableHLO_IntTensor>;
def StableHLO_CosineOp
    : StableHLO_UnaryAccuracyOp<"cosine", StableHLO_FloatOrComplexTensor>;
def StableHLO_ExpOp
    : StableHLO_UnaryAccuracyOp<"exponential", StableHLO_FloatOrComplexTensor>;
def StableHLO_Expm1Op : StableHLO_UnaryAccuracyOp<
    "exponential_minus_one", StableHLO_FloatOrComplexTensor>;
def StableHLO_FloorOp : StableHLO_UnaryOp<"floor", StableHLO_FloatTensor>;
def StableHLO_LogOp
    : StableHLO_UnaryAccuracyOp<"log", StableHLO_FloatOrComplexTensor>;
def StableHLO_Log1pOp : StableHLO_UnaryAccuracyOp<
    "log_plus_one", StableHLO_FloatOrComplexTensor>;
def StableHLO_LogisticOp
    : StableHLO_UnaryAccuracyOp<"logistic", StableHLO_FloatOrComplexTensor>;
def StableHLO_NegOp
    : StableHLO_UnaryOp<"negate", StableHLO_IntFloatOrComplexTensor>;
def StableHLO_NotOp : StableHLO_UnaryOp<"not", StableHLO_PredOrIntTensor>;
def StableHLO_PopulationCountOp
    : StableHLO_UnaryOp<"popcnt", StableHLO_IntTensor>;
def StableHLO_RoundOp
    : StableHLO_UnaryOp<"round_nearest_afz", StableHLO_FloatTensor>;
def StableHLO_RoundNearestEvenOp
    : StableHLO_UnaryOp<"round_nearest_even", StableHLO_FloatTensor>;
def StableHLO_RsqrtOp
    : StableHLO_UnaryAccuracyOp<"rsqrt", StableHLO_FloatOrComplexTensor>;
def StableHLO_SignOp
    : StableHLO_UnaryOp<"sign", StableHLO_IntFloatOrComplexTensor>;
def StableHLO_SineOp
    : StableHLO_UnaryAccuracyOp<"sine", StableHLO_FloatOrComplexTensor>;
def StableHLO_SqrtOp
    : StableHLO_UnaryAccuracyOp<"sqrt", StableHLO_FloatOrComplexTensor>;
def StableHLO_TanOp
    : StableHLO_UnaryAccuracyOp<"tan", StableHLO_FloatOrComplexTensor>;
def StableHLO_TanhOp
    : StableHLO_UnaryAccuracyOp<"tanh", StableHLO_FloatOrComplexTensor>;

// Unary ops whose result has another element type than the operand.
class StableHLO_UnaryInferredOp<string mnemonic>
    : StableHLO_ElementwiseOp<mnemonic, [
          StableHLO_UnaryElementwise, InferTypeOpAdaptorWithIsCompatible]>,
      StableHLO_ComparesTypes;

def StableHLO_AbsOp : StableHLO_UnaryInferredOp<"abs"> {
  let summary = "take the absolute value, of a complex number its magnitude";
  let arguments = (ins StableHLO_IntFloatOrComplexTensor:$operand);
  let results = (outs StableHLO_IntFloatOrComplexTensor:$result);
  let assemblyFormat = [{
    $operand attr-dict `:`
    custom<SameOperandsAndResultType>(type($operand), type($result))
  }];
}

def StableHLO_ImagOp : StableHLO_UnaryInferredOp<"imag"> {
  let arguments = (ins StableHLO_FloatOrComplexTensor:$operand);
  let results = (outs StableHLO_FloatTensor:$result);
  let assemblyFormat = [{
    $operand attr-dict `:`
    custom<SameOperandsAndResultType>(type($operand), type($result))
  }];
}

def StableHLO_RealOp : StableHLO_UnaryInferredOp<"real"> {
  let arguments = (ins StableHLO_FloatOrComplexTensor:$operand);
  let results = (outs StableHLO_FloatTensor:$result);
  let assemblyFormat = [{
    $operand attr-dict `:`
    custom<SameOperandsAndResultType>(type($operand), type($result))
  }];
}

def StableHLO_IsFiniteOp : StableHLO_UnaryInferredOp<"is_finite"> {
  let arguments = (ins StableHLO_FloatTensor:$x);
  let results = (outs StableHLO_PredTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

def StableHLO_ConvertOp : StableHLO_ElementwiseOp<"convert", [
    StableHLO_UnaryElementwise, Moves<"Convert">]> {
  let summary = "convert between element types";
  let arguments = (ins StableHLO_Tensor:$operand);
  let results = (outs StableHLO_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$operand,
                                 "::mlir::Type":$elementType)>];
  let assemblyFormat = [{
    $operand attr-dict `:`
    custom<SameOperandsAndResultType>(type($operand), type($result))
  }];
}

def StableHLO_ReducePrecisionOp : StableHLO_ElementwiseOp<"reduce_precision", [
    StableHLO_UnaryElementwise, InferTypeOpAdaptorWithIsCompatible]>,
    StableHLO_ComparesTypes {
  let summary = "round to a float of fewer bits and back";
  let arguments = (ins StableHLO_FloatTensor:$operand,
                       ConfinedAttr<I32Attr, [IntPositive]>:$exponent_bits,
                       ConfinedAttr<I32Attr, [IntNonNegative]>:$mantissa_bits);
  let results = (outs StableHLO_FloatTensor:$output);
  let assemblyFormat = [{
    $operand `,` `format` `=`
    custom<ExponentMantissa>($exponent_bits, $mantissa_bits) attr-dict `:`
    custom<SameOperandsAndResultType>(type($operand), type($output))
  }];
}

class StableHLO_QuantizationOp<string mnemonic>
    : StableHLO_ElementwiseOp<mnemonic, [StableHLO_UnaryElementwise]> {
  let assemblyFormat = [{
    $operand attr-dict `:`
    custom<SameOperandsAndResultType>(type($operand), type($result))
  }];
  let hasVerifier = 1;
}

def StableHLO_UniformQuantizeOp
    : StableHLO_QuantizationOp<"uniform_quantize"> {
  let summary = "convert to a quantized type";
  let arguments = (ins StableHLO_FloatTensor:$operand);
  let results = (outs StableHLO_TensorOf<[StableHLO_Quantized]>:$result);
}

def StableHLO_UniformDequantizeOp
    : StableHLO_QuantizationOp<"uniform_dequantize"> {
  let summary = "convert from a quantized type to the type it expresses";
  let arguments = (ins StableHLO_TensorOf<[StableHLO_Quantized]>:$operand);
  let results = (outs StableHLO_TensorOf<[StableHLO_Float]>:$result);
}

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

class StableHLO_BinaryOp<string mnemonic, Type tensor, list<Trait> traits = []>
    : StableHLO_SameTypeOp<mnemonic, !listconcat([
          StableHLO_BinaryElementwise, SameOperandsElementType], traits)> {
  let arguments = (ins tensor:$lhs, tensor:$rhs);
  let results = (outs tensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:`
    custom<SameOperandsAndResultType>(type($lhs), type($rhs), type($result))
  }];
}

def StableHLO_AddOp
    : StableHLO_BinaryOp<"add", StableHLO_Tensor, [Commutative]>;
def StableHLO_AndOp
    : StableHLO_BinaryOp<"and", StableHLO_PredOrIntTensor, [Commutative]>;
def StableHLO_Atan2Op
    : StableHLO_BinaryOp<"atan2", StableHLO_FloatOrComplexTensor>;
def StableHLO_DivOp
    : StableHLO_BinaryOp<"divide", StableHLO_IntFloatOrComplexTensor>;
def StableHLO_MaxOp
    : StableHLO_BinaryOp<"maximum", StableHLO_Tensor, [Commutative]>;
def StableHLO_MinOp
    : StableHLO_BinaryOp<"minimum", StableHLO_Tensor, [Commutative]>;
def StableHLO_MulOp
    : StableHLO_BinaryOp<"multiply", StableHLO_Tensor, [Commutative]>;
def StableHLO_OrOp
    : StableHLO_BinaryOp<"or", StableHLO_PredOrIntTensor, [Commutative]>;
def StableHLO_PowOp
    : StableHLO_BinaryOp<"power", StableHLO_IntFloatOrComplexTensor>;
def StableHLO_RemOp
    : StableHLO_BinaryOp<"remainder", StableHLO_IntFloatOrComplexTensor>;
def StableHLO_ShiftLeftOp
    : StableHLO_BinaryOp<"shift_left", StableHLO_IntTensor>;
def StableHLO_ShiftRightArithmeticOp
    : StableHLO_BinaryOp<"shift_right_arithmetic", StableHLO_IntTensor>;
def StableHLO_ShiftRightLogicalOp
    : StableHLO_BinaryOp<"shift_right_logical", StableHLO_IntTensor>;
def StableHLO_SubtractOp
    : StableHLO_BinaryOp<"subtract", StableHLO_IntFloatOrComplexTensor>;
def StableHLO_XorOp
    : StableHLO_BinaryOp<"xor", StableHLO_PredOrIntTensor, [Commutative]>;

def StableHLO_CompareOp : StableHLO_ElementwiseOp<"compare", [
    SameOperandsElementType, InferTypeOpAdaptorWithIsCompatible]>,
    StableHLO_ComparesTypes {
  let summary = "compare two tensors by element";
  let arguments = (ins
    StableHLO_Tensor:$lhs, StableHLO_Tensor:$rhs,
    StableHLO_ComparisonDirectionAttr:$comparison_direction,
    OptionalAttr<StableHLO_ComparisonTypeAttr>:$compare_type);
  let results = (outs StableHLO_PredTensor:$result);
  let builders = [OpBuilder<(ins
    "::mlir::Value":$lhs, "::mlir::Value":$rhs,
    "::scalify::stablehlo::ComparisonDirection":$direction,
    CArg<"::scalify::stablehlo::ComparisonType",
         "::scalify::stablehlo::ComparisonType::NOTYPE">:$type)>];
  let assemblyFormat = [{
    `` $comparison_direction `,` $lhs `,` $rhs (`,` `` $compare_type^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_ComplexOp : StableHLO_ElementwiseOp<"complex", [
    SameOperandsElementType, InferTypeOpAdaptorWithIsCompatible]>,
    StableHLO_ComparesTypes {
  let summary = "join real and imaginary parts to a complex tensor";
  let arguments = (ins StableHLO_TensorOf<[F32, F64]>:$lhs,
                       StableHLO_TensorOf<[F32, F64]>:$rhs);
  let results = (outs StableHLO_TensorOf<[StableHLO_Complex]>:$result);
  let assemblyFormat = [{
    operands attr-dict `:`
    custom<ComplexOpType>(type($lhs), type($rhs), type($result))
  }];
}

//===----------------------------------------------------------------------===//
// Ternary
//===----------------------------------------------------------------------===//

def StableHLO_ClampOp : StableHLO_PureOp<"clamp", [
    StableHLO_TernaryElementwise, SameOperandsAndResultElementType,
    InferTypeOpAdaptorWithIsCompatible]>, StableHLO_ComparesTypes {
  let summary = "limit elements to a range whose bounds may be scalars";
  let arguments = (ins StableHLO_Tensor:$min, StableHLO_Tensor:$operand,
                       StableHLO_Tensor:$max);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $min `,` $operand `,` $max attr-dict `:`
    custom<SameOperandsAndResultType>(type($min), type($operand), type($max),
                                      type($result))
  }];
  let hasVerifier = 1;
}

def StableHLO_SelectOp : StableHLO_PureOp<"select", [
    StableHLO_TernaryElementwise, InferTypeOpAdaptorWithIsCompatible]>,
    StableHLO_ComparesTypes {
  let summary = "take each element from one of two tensors";
  let arguments = (ins StableHLO_PredTensor:$pred, StableHLO_Tensor:$on_true,
                       StableHLO_Tensor:$on_false);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    operands attr-dict `:`
    custom<SelectOpType>(type($pred), type($on_true), type($on_false),
                         type($result))
  }];
  let hasVerifier = 1;
}

#endif // SCALIFY_DIALECT_STABLEHLO_ELEMENTWISE
