//===- BitFunctions.cpp - Functions on the bits of floats -----------------===//
//
// Without the sign, the bits of IEEE 754 numbers are integers in the order of
// magnitudes: the next number is one more or one less. All comparisons are on
// bits, so that flushing subnormal numbers to zero does not affect the result.
//
//===----------------------------------------------------------------------===//

#include "BitFunctions.h"

#include "scalify/Dialect/StableHLO/Values.h"

using namespace mlir;
using namespace scalify;
using stablehlo::ComparisonDirection;

static Value splat(ImplicitLocOpBuilder &b, Value like, const APInt &number) {
  return stablehlo::buildConstant(b, like.getType(), number);
}

static Value compare(ImplicitLocOpBuilder &b, ComparisonDirection direction,
                     Value x, Value y) {
  return stablehlo::CompareOp::create(b, x, y, direction,
                                      stablehlo::ComparisonType::SIGNED);
}

Value import::buildNextAfter(ImplicitLocOpBuilder &b, Value from, Value to) {
  auto type = cast<RankedTensorType>(from.getType());
  auto element = cast<FloatType>(type.getElementType());
  const llvm::fltSemantics &semantics = element.getFloatSemantics();
  unsigned width = element.getWidth();
  auto bitsType = type.clone(b.getIntegerType(width));
  Value x = stablehlo::BitcastConvertOp::create(b, bitsType, from);
  Value y = stablehlo::BitcastConvertOp::create(b, bitsType, to);
  auto number = [&](const APInt &value) { return splat(b, x, value); };
  Value magnitudeMask = number(APInt::getSignedMaxValue(width));
  Value signMask = number(APInt::getSignMask(width));
  Value one = number(APInt(width, 1));
  Value zero = number(APInt(width, 0));

  Value sizeX = stablehlo::AndOp::create(b, x, magnitudeMask);
  Value sizeY = stablehlo::AndOp::create(b, y, magnitudeMask);
  Value signs = stablehlo::XorOp::create(b, x, y);
  Value isTowardsZero = stablehlo::OrOp::create(
      b, compare(b, ComparisonDirection::GT, sizeX, sizeY),
      compare(b, ComparisonDirection::LT, signs, zero));
  Value next = stablehlo::SelectOp::create(
      b, isTowardsZero, stablehlo::SubtractOp::create(b, x, one),
      stablehlo::AddOp::create(b, x, one));

  // The number next to a zero has the sign of `to`.
  Value least =
      stablehlo::OrOp::create(b, stablehlo::AndOp::create(b, y, signMask), one);
  next = stablehlo::SelectOp::create(
      b, compare(b, ComparisonDirection::EQ, sizeX, zero), least, next);
  Value isEqual = stablehlo::OrOp::create(
      b, compare(b, ComparisonDirection::EQ, x, y),
      compare(b, ComparisonDirection::EQ,
              stablehlo::OrOp::create(b, sizeX, sizeY), zero));
  next = stablehlo::SelectOp::create(b, isEqual, y, next);

  bool hasInfinity = APFloat::semanticsHasInf(semantics);
  Value last = number((hasInfinity ? APFloat::getInf(semantics)
                                   : APFloat::getLargest(semantics))
                          .bitcastToAPInt());
  Value isNaN = stablehlo::OrOp::create(
      b, compare(b, ComparisonDirection::GT, sizeX, last),
      compare(b, ComparisonDirection::GT, sizeY, last));
  Value nan = number(APFloat::getQNaN(semantics).bitcastToAPInt());
  next = stablehlo::SelectOp::create(b, isNaN, nan, next);
  return stablehlo::BitcastConvertOp::create(b, type, next);
}

Value import::buildMulhi(ImplicitLocOpBuilder &b, Value lhs, Value rhs) {
  auto type = cast<RankedTensorType>(lhs.getType());
  auto element = cast<IntegerType>(type.getElementType());
  unsigned width = element.getWidth();
  auto wide =
      IntegerType::get(b.getContext(), 2 * width, element.getSignedness());
  Value product =
      stablehlo::MulOp::create(b, stablehlo::ConvertOp::create(b, lhs, wide),
                               stablehlo::ConvertOp::create(b, rhs, wide));
  // The conversion truncates, so that any shift will do.
  Value upper = stablehlo::ShiftRightLogicalOp::create(
      b, product, splat(b, product, APInt(2 * width, width)));
  return stablehlo::ConvertOp::create(b, upper, element);
}
