//===- MeasuredScale.cpp - Scales measured in the step --------------------===//

#include "scalify/Precision/MeasuredScale.h"

#include "MeasuredScaleOps.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Reductions.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

namespace {
/// Builds rank-0 arithmetic, or the same arithmetic for each row of a value.
class ScalarBuilder {
public:
  ScalarBuilder(OpBuilder &builder, Location loc)
      : builder(builder), loc(loc), f32(builder.getF32Type()),
        i32(builder.getI32Type()) {}
  /// Builds a scalar for each row of `value`, as a tensor of its shape with
  /// size 1 along the axes.
  ScalarBuilder(OpBuilder &builder, Location loc, Value value,
                ArrayRef<int64_t> axes)
      : ScalarBuilder(builder, loc) {
    this->axes.assign(axes.begin(), axes.end());
    if (axes.empty())
      return;
    llvm::append_range(shape, cast<ShapedType>(value.getType()).getShape());
    for (int64_t axis : axes)
      shape[axis] = 1;
  }

  Value constant(float x) { return makeConstant(f32, x); }
  Value bits(int32_t x) { return makeConstant(i32, x); }
  Value reduce(Value value, bool maximum);
  Value roundToPowerOfTwo(Value x, bool up);
  Value isBetween(Value x, float least, float most);
  Value selectInRangeOrOne(Value x, float least, float most);
  Value timesPowerOfTwo(Value x, int64_t exponent);
  Value toF32(Value value);
  /// Broadcasts a rank-0 value to all rows.
  Value spread(Value scalar);
  /// Returns the number of elements that are reduced to one.
  int64_t count(Value value) const;

private:
  template <typename T> Value makeConstant(Type element, T x) {
    auto type = RankedTensorType::get(shape, element);
    return stablehlo::buildConstant(builder, loc, type, x);
  }

  OpBuilder &builder;
  Location loc;
  Type f32, i32;
  /// Empty for one scalar for all elements.
  SmallVector<int64_t> axes, shape;
};
} // namespace

Value ScalarBuilder::spread(Value scalar) {
  if (axes.empty())
    return scalar;
  return stablehlo::BroadcastInDimOp::create(builder, loc,
                                             RankedTensorType::get(shape, f32),
                                             scalar, ArrayRef<int64_t>{});
}

int64_t ScalarBuilder::count(Value value) const {
  int64_t rows = 1;
  for (int64_t extent : shape)
    rows *= extent;
  return cast<ShapedType>(value.getType()).getNumElements() / rows;
}

Value ScalarBuilder::toF32(Value value) {
  if (cast<ShapedType>(value.getType()).getElementType().isF32())
    return value;
  return stablehlo::ConvertOp::create(builder, loc, value, f32);
}

/// Builds the maximum or the sum of all elements, or of each row.
Value ScalarBuilder::reduce(Value value, bool maximum) {
  SmallVector<int64_t> dims(axes);
  if (dims.empty())
    dims = llvm::to_vector(
        llvm::seq<int64_t>(0, cast<ShapedType>(value.getType()).getRank()));
  Value zero = ScalarBuilder(builder, loc).constant(0.0f);
  Value result = maximum ? stablehlo::buildReduce<stablehlo::MaxOp>(
                               builder, loc, value, zero, dims)
                         : stablehlo::buildReduce<stablehlo::AddOp>(
                               builder, loc, value, zero, dims);
  if (axes.empty())
    return result;
  return stablehlo::ReshapeOp::create(
      builder, loc, RankedTensorType::get(shape, f32), result);
}

/// Drops the mantissa from the bits of a positive x. To round up, any nonzero
/// mantissa first carries into the exponent.
Value ScalarBuilder::roundToPowerOfTwo(Value x, bool up) {
  auto type = RankedTensorType::get(shape, i32);
  Value word = stablehlo::BitcastConvertOp::create(builder, loc, type, x);
  if (up)
    word = stablehlo::AddOp::create(builder, loc, word, bits(0x7fffff));
  word = stablehlo::AndOp::create(builder, loc, word, bits(0x7f800000));
  return stablehlo::BitcastConvertOp::create(builder, loc, x.getType(), word);
}

Value ScalarBuilder::isBetween(Value x, float least, float most) {
  using stablehlo::ComparisonDirection;
  // GE and LE are false for NaN.
  Value above = stablehlo::CompareOp::create(builder, loc, x, constant(least),
                                             ComparisonDirection::GE);
  Value below = stablehlo::CompareOp::create(builder, loc, x, constant(most),
                                             ComparisonDirection::LE);
  return stablehlo::AndOp::create(builder, loc, above, below);
}

Value ScalarBuilder::selectInRangeOrOne(Value x, float least, float most) {
  return stablehlo::SelectOp::create(builder, loc, isBetween(x, least, most), x,
                                     constant(1.0f));
}

/// Clamps to the range of scales: beyond 2^100 an inverse would have no
/// headroom.
Value ScalarBuilder::timesPowerOfTwo(Value x, int64_t exponent) {
  Value factor = constant(std::ldexp(1.0f, static_cast<int>(exponent)));
  return stablehlo::ClampOp::create(
      builder, loc, constant(0x1p-100f),
      stablehlo::MulOp::create(builder, loc, x, factor), constant(0x1p100f));
}

/// Builds the scale for all magnitudes, or one for each row.
static Value buildScaleOf(ScalarBuilder &scalar, OpBuilder &builder,
                          Location loc, Value magnitude, FloatType format,
                          int64_t margin) {
  Value amax = scalar.reduce(magnitude, /*maximum=*/true);
  Value largest = scalar.constant(static_cast<float>(getLargestFinite(format)));
  Value ratio = stablehlo::DivOp::create(builder, loc, amax, largest);
  Value scale = scalar.roundToPowerOfTwo(ratio, /*up=*/true);
  if (margin == 0)
    return scalar.selectInRangeOrOne(scale, 0x1p-100f, 0x1p100f);
  // Without an amax the scale stays 1, whatever the margin.
  return stablehlo::SelectOp::create(
      builder, loc, scalar.isBetween(scale, 0x1p-100f, 0x1p100f),
      scalar.timesPowerOfTwo(scale, margin), scalar.constant(1.0f));
}

Value scalify::buildAmaxScale(OpBuilder &builder, Location loc, Value value,
                              FloatType format, int64_t margin) {
  ScalarBuilder scalar(builder, loc);
  Value magnitude = stablehlo::AbsOp::create(builder, loc, value);
  return buildScaleOf(scalar, builder, loc, scalar.toF32(magnitude), format,
                      margin);
}

Value scalify::buildRowAmaxScales(OpBuilder &builder, Location loc,
                                  Value magnitude, FloatType format,
                                  int64_t margin, ArrayRef<int64_t> axes) {
  ScalarBuilder scalar(builder, loc, magnitude, axes);
  return buildScaleOf(scalar, builder, loc, magnitude, format, margin);
}

/// Builds the statistic of all elements, or of each row; infinite if a square
/// or a sum overflows.
static Value buildStatistic(ScalarBuilder &scalar, OpBuilder &builder,
                            Location loc, Value value, Statistic statistic) {
  Value wide = scalar.toF32(value);
  Value term =
      statistic == Statistic::L2
          ? stablehlo::MulOp::create(builder, loc, wide, wide).getResult()
          : stablehlo::AbsOp::create(builder, loc, wide).getResult();
  Value n = scalar.reduce(term, statistic == Statistic::Max);
  if (statistic != Statistic::Max) {
    auto count = static_cast<float>(scalar.count(value));
    n = stablehlo::DivOp::create(builder, loc, n, scalar.constant(count));
  }
  if (statistic == Statistic::L2)
    n = stablehlo::SqrtOp::create(builder, loc, n);
  return n;
}

/// Builds the factor for a statistic `n` of data; 1 if it is zero or not
/// finite.
static Value buildFactor(ScalarBuilder &scalar, OpBuilder &builder,
                         Location loc, Value n) {
  Value isZero =
      stablehlo::CompareOp::create(builder, loc, n, scalar.constant(0.0f),
                                   stablehlo::ComparisonDirection::EQ);
  Value floor = stablehlo::MaxOp::create(
      builder, loc, scalar.roundToPowerOfTwo(n, /*up=*/false),
      scalar.constant(0x1p-14f));
  Value factor = scalar.selectInRangeOrOne(floor, 0x1p-14f, 0x1p126f);
  return stablehlo::SelectOp::create(builder, loc, isZero,
                                     scalar.constant(1.0f), factor);
}

/// Builds the slice of every `sample`-th row along the longest dimension but
/// the last.
static Value takeRows(OpBuilder &builder, Location loc, Value value,
                      int64_t sample) {
  auto type = cast<RankedTensorType>(value.getType());
  if (sample <= 1 || type.getRank() < 2)
    return value;
  SmallVector<int64_t> starts(type.getRank(), 0), strides(type.getRank(), 1);
  ArrayRef<int64_t> rows = type.getShape().drop_back();
  strides[llvm::max_element(rows) - rows.begin()] = sample;
  return stablehlo::SliceOp::create(builder, loc, value, starts,
                                    type.getShape(), strides);
}

/// Builds the value in F32, divided by the scalar `base`.
static Value buildQuotient(ScalarBuilder &scalar, OpBuilder &builder,
                           Location loc, Value value, Value base) {
  Value inverse = stablehlo::DivOp::create(
      builder, loc, ScalarBuilder(builder, loc).constant(1.0f), base);
  Value factor = stablehlo::BroadcastInDimOp::create(
      builder, loc,
      cast<RankedTensorType>(value.getType()).clone(builder.getF32Type()),
      inverse, ArrayRef<int64_t>{});
  return stablehlo::MulOp::create(builder, loc, scalar.toF32(value), factor);
}

Value scalify::buildMeasuredScale(OpBuilder &builder, Location loc, Value value,
                                  Value base, Statistic statistic,
                                  int64_t sample, ArrayRef<int64_t> axes) {
  value = takeRows(builder, loc, value, sample);
  ScalarBuilder scalar(builder, loc, value, axes);
  // Squares underflow F32 below 2^-75, a size that gradients can have, so they
  // are of value / base. The two other statistics are homogeneous, and divided
  // by base afterwards.
  Value n;
  if (statistic == Statistic::L2) {
    Value data = buildQuotient(scalar, builder, loc, value, base);
    n = buildStatistic(scalar, builder, loc, data, statistic);
  } else {
    n = stablehlo::DivOp::create(
        builder, loc, buildStatistic(scalar, builder, loc, value, statistic),
        scalar.spread(base));
  }
  Value scale = stablehlo::MulOp::create(builder, loc, scalar.spread(base),
                                         buildFactor(scalar, builder, loc, n));
  // Beyond 2^100 a scale's inverse would have no headroom.
  return stablehlo::ClampOp::create(builder, loc, scalar.constant(0x1p-100f),
                                    scale, scalar.constant(0x1p100f));
}

Value scalify::buildRootMeanSquare(OpBuilder &builder, Location loc,
                                   Value value, Value base) {
  ScalarBuilder scalar(builder, loc);
  Value data = buildQuotient(scalar, builder, loc, value, base);
  Value n = buildStatistic(scalar, builder, loc, data, Statistic::L2);
  // A value that is not finite counts as `base`, for want of information. Zeros
  // count as small: they contribute nothing to a sum.
  Value isZero =
      stablehlo::CompareOp::create(builder, loc, n, scalar.constant(0.0f),
                                   stablehlo::ComparisonDirection::EQ);
  n = stablehlo::SelectOp::create(builder, loc, isZero,
                                  scalar.constant(0x1p-40f), n);
  n = scalar.selectInRangeOrOne(n, 0x1p-80f, 0x1p80f);
  return stablehlo::MulOp::create(builder, loc, base, n);
}

Value scalify::buildRoundedScale(OpBuilder &builder, Location loc,
                                 Value scale) {
  ScalarBuilder scalar(builder, loc);
  return scalar.roundToPowerOfTwo(
      scalar.selectInRangeOrOne(scale, 0x1p-100f, 0x1p100f), /*up=*/false);
}
