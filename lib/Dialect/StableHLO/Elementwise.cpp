//===- Elementwise.cpp - Elementwise ops ----------------------------------===//

#include "Assembly.h"
#include "Verification.h"

#include "scalify/Dialect/StableHLO/Integers.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify::stablehlo;

/// Returns the operand's shape with another element type.
static Type withElementType(Type tensor, Type element) {
  return cast<ShapedType>(tensor).clone(element);
}

/// Returns the real type of a complex element type; other types are unchanged.
static Type realPart(Type tensor) {
  if (auto complex = dyn_cast<ComplexType>(getElementTypeOrSelf(tensor)))
    return withElementType(tensor, complex.getElementType());
  return tensor;
}

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

// abs_c2: for complex operands the result is real.
LogicalResult AbsOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                      Adaptor adaptor,
                                      SmallVectorImpl<Type> &types) {
  types.push_back(realPart(adaptor.getOperand().getType()));
  return success();
}

LogicalResult ImagOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  types.push_back(realPart(adaptor.getOperand().getType()));
  return success();
}

LogicalResult RealOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  types.push_back(realPart(adaptor.getOperand().getType()));
  return success();
}

LogicalResult IsFiniteOp::inferReturnTypes(MLIRContext *context,
                                           std::optional<Location>,
                                           Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  types.push_back(
      withElementType(adaptor.getX().getType(), IntegerType::get(context, 1)));
  return success();
}

LogicalResult
ReducePrecisionOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                    Adaptor adaptor,
                                    SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getOperand().getType());
  return success();
}

void ConvertOp::build(OpBuilder &builder, OperationState &state, Value operand,
                      Type elementType) {
  build(builder, state,
        TypeRange{withElementType(operand.getType(), elementType)}, operand);
}

LogicalResult UniformQuantizeOp::verify() {
  auto quantized = cast<quant::QuantizedType>(getElementTypeOrSelf(getType()));
  Type element = getElementTypeOrSelf(getOperand().getType());
  // uniform_quantize_c2; a quantized operand is requantized.
  if (isa<FloatType>(element) && quantized.getExpressedType() != element)
    return emitOpError() << "needs a result that expresses " << element
                         << " but got " << quantized;
  return success();
}

LogicalResult UniformDequantizeOp::verify() {
  auto quantized =
      cast<quant::QuantizedType>(getElementTypeOrSelf(getOperand().getType()));
  // uniform_dequantize_c2
  if (quantized.getExpressedType() != getElementTypeOrSelf(getType()))
    return emitOpError() << "needs a result of " << quantized.getExpressedType()
                         << " but got " << getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context,
                                          std::optional<Location> location,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  if (failed(detail::inferElementwiseType(location, getOperationName(),
                                          adaptor.getOperands(), types)))
    return failure();
  types.back() = withElementType(types.back(), IntegerType::get(context, 1));
  return success();
}

void CompareOp::build(OpBuilder &builder, OperationState &state, Value lhs,
                      Value rhs, ComparisonDirection direction,
                      ComparisonType type) {
  ComparisonTypeAttr typeAttr;
  if (type != ComparisonType::NOTYPE)
    typeAttr = ComparisonTypeAttr::get(builder.getContext(), type);
  build(builder, state, lhs, rhs,
        ComparisonDirectionAttr::get(builder.getContext(), direction),
        typeAttr);
}

LogicalResult CompareOp::verify() {
  if (!getCompareType() || *getCompareType() == ComparisonType::NOTYPE)
    return success();
  Type element = getElementTypeOrSelf(getLhs().getType());
  if (isa<quant::QuantizedType>(element))
    return success();
  ComparisonType type = *getCompareType();
  bool legal = false;
  if (isa<FloatType>(element))
    legal = type == ComparisonType::FLOAT || type == ComparisonType::TOTALORDER;
  else if (isa<ComplexType>(element))
    legal = type == ComparisonType::FLOAT;
  else if (hasUnsignedElements(element))
    legal = type == ComparisonType::UNSIGNED;
  else
    legal = type == ComparisonType::SIGNED;
  // compare_c4
  if (!legal)
    return emitOpError() << "cannot compare elements of type " << element
                         << " as " << stringifyComparisonType(type);
  return success();
}

LogicalResult ComplexOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> location,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  if (failed(detail::inferElementwiseType(location, getOperationName(),
                                          adaptor.getOperands(), types)))
    return failure();
  types.back() = withElementType(
      types.back(), ComplexType::get(getElementTypeOrSelf(types.back())));
  return success();
}

//===----------------------------------------------------------------------===//
// Ternary
//===----------------------------------------------------------------------===//

LogicalResult ClampOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getOperand().getType());
  return success();
}

LogicalResult ClampOp::verify() {
  for (auto [name, bound] :
       {std::pair<StringRef, Value>{"min", getMin()}, {"max", getMax()}}) {
    auto type = cast<RankedTensorType>(bound.getType());
    // clamp_c1, clamp_c2
    if (type.getRank() != 0 &&
        failed(verifyCompatibleShape(type, getOperand().getType())))
      return emitOpError() << "needs '" << name << "' to be a scalar or of the "
                           << "operand's shape but got " << type << " and "
                           << getOperand().getType();
  }
  return success();
}

LogicalResult SelectOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> location,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  return detail::inferElementwiseType(
      location, getOperationName(), adaptor.getOperands().drop_front(), types);
}

LogicalResult SelectOp::verify() {
  auto pred = cast<RankedTensorType>(getPred().getType());
  // select_c1
  if (pred.getRank() != 0 &&
      failed(verifyCompatibleShape(pred, getOnTrue().getType())))
    return emitOpError() << "needs a predicate that is a scalar or of the "
                            "values' shape but got "
                         << pred << " and " << getOnTrue().getType();
  // select_c2
  if (getElementTypeOrSelf(getOnTrue()) != getElementTypeOrSelf(getOnFalse()))
    return emitOpError() << "needs values of one element type but got "
                         << getOnTrue().getType() << " and "
                         << getOnFalse().getType();
  return success();
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Elementwise.cpp.inc"
