//===- ScaleArithmetic.cpp - Building scale values ------------------------===//

#include "scalify/Scaling/ScaleArithmetic.h"

#include "scalify/Dialect/StableHLO/Values.h"

#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

std::optional<float> scalify::getConstantScale(Value scale) {
  DenseElementsAttr value;
  if (!matchPattern(scale, m_Constant(&value)) || !value.isSplat() ||
      !value.getElementType().isF32())
    return std::nullopt;
  return value.getSplatValue<float>();
}

bool scalify::isSameScale(Value a, Value b) {
  if (a == b)
    return true;
  std::optional<float> x = getConstantScale(a), y = getConstantScale(b);
  return x && y && *x == *y;
}

Value ScaleArithmetic::constant(float value) {
  Value &entry = constants[llvm::bit_cast<uint32_t>(value)];
  if (!entry) {
    OpBuilder builder = OpBuilder::atBlockBegin(&block);
    entry = stablehlo::buildScalar(builder, builder.getUnknownLoc(), value);
  }
  return entry;
}

Value ScaleArithmetic::powerOfTwo(int64_t exponent) {
  return constant(std::ldexp(1.0f, static_cast<int>(exponent)));
}

Value ScaleArithmetic::product(OpBuilder &builder, Location loc, Value a,
                               Value b) {
  std::optional<float> x = getConstantScale(a), y = getConstantScale(b);
  if (x && y)
    return constant(*x * *y);
  if (x == 1.0f)
    return b;
  if (y == 1.0f)
    return a;
  return stablehlo::MulOp::create(builder, loc, a, b);
}

Value ScaleArithmetic::quotient(OpBuilder &builder, Location loc, Value a,
                                Value b) {
  std::optional<float> x = getConstantScale(a), y = getConstantScale(b);
  if (x && y)
    return constant(*x / *y);
  if (y == 1.0f)
    return a;
  return stablehlo::DivOp::create(builder, loc, a, b);
}
