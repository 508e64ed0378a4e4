//===- RowBuilder.cpp - Elementwise arithmetic on rows of state -----------===//

#include "RowBuilder.h"

using namespace mlir;
using namespace scalify;
using stablehlo::ComparisonDirection;

/// Works on the bits: any nonzero mantissa carries into the exponent.
Value RowBuilder::roundUpToPowerOfTwo(Value x) {
  Type i32 = builder.getI32Type();
  Value word = stablehlo::BitcastConvertOp::create(
      builder, loc, RankedTensorType::get(shape, i32), x);
  word = stablehlo::AddOp::create(builder, loc, word,
                                  constant(i32, int32_t(0x7fffff)));
  word = stablehlo::AndOp::create(builder, loc, word,
                                  constant(i32, int32_t(0x7f800000)));
  return stablehlo::BitcastConvertOp::create(builder, loc, x.getType(), word);
}

Value RowBuilder::selectWhereAbove(Value x, float least, Value value,
                                   Value other) {
  Value isAbove = stablehlo::CompareOp::create(builder, loc, x, splat(least),
                                               ComparisonDirection::GT);
  return stablehlo::SelectOp::create(builder, loc, isAbove, value, other);
}
