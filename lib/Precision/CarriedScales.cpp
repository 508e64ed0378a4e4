//===- CarriedScales.cpp - Arithmetic on carried scales -------------------===//
//
// A scale keeps its value, and the step its bits, as long as the format holds
// the values of the cast. It moves for two reasons: the largest value nears the
// top of the format, or the bulk of the values nears the bottom. Both moves put
// the largest value near the top, with room to grow, so that the next step
// casts by an amax that is one step old.
//
//===----------------------------------------------------------------------===//

#include "CarriedScales.h"

#include "DelayedHistory.h"
#include "RowBuilder.h"
#include "RowMaxima.h"
#include "scalify/Precision/CarriedLimits.h"
#include "scalify/Precision/RankMaxima.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/ValueOrigin.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace scalify;
using stablehlo::ComparisonDirection;

CarriedRow scalify::getCarriedRow(Value value, FloatType format,
                                  float predicted) {
  CarriedRow row;
  row.largest = static_cast<float>(getLargestFinite(format));
  row.high = row.largest;
  row.low = static_cast<float>(
      APFloat::getSmallestNormalized(format.getFloatSemantics())
          .convertToDouble());
  row.predicted = predicted;
  const CarriedWindow &window = isa<Float8E4M3FNType>(format) ? kNarrowWindow
                                : isGradient(value)           ? kGradientWindow
                                                              : kForwardWindow;
  row.low *= window.low;
  row.high *= window.high;
  row.room = window.room;
  return row;
}

/// Builds the sum of the weights of all elements: above 0 if the cast flushes
/// too many. The sum is of integers if they hold it: such sums may be split.
static Value buildExcess(OpBuilder &builder, Location loc, Value x, Value scale,
                         FloatType format) {
  Type f32 = builder.getF32Type();
  if (getElementTypeOrSelf(x.getType()) != f32)
    x = stablehlo::ConvertOp::create(builder, loc, x, f32);
  ArrayRef<int64_t> shape = mlir::cast<ShapedType>(x.getType()).getShape();
  RowBuilder elements(builder, loc, shape), scalar(builder, loc, {});
  // Half of the smallest number is a tie, which rounds to zero.
  auto half = static_cast<float>(
      APFloat::getSmallest(format.getFloatSemantics()).convertToDouble() / 2);
  Value least;
  {
    // Built at the scale, so that it is available before the cast.
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(scale);
    least = stablehlo::MulOp::create(builder, loc, scale, scalar.splat(half));
  }
  Value spread = stablehlo::BroadcastInDimOp::create(
      builder, loc, x.getType(), least, ArrayRef<int64_t>{});
  Value magnitude = stablehlo::AbsOp::create(builder, loc, x);
  Value isKept = stablehlo::CompareOp::create(builder, loc, magnitude, spread,
                                              ComparisonDirection::GT);
  Value isZero = stablehlo::CompareOp::create(
      builder, loc, magnitude, elements.splat(0.0f), ComparisonDirection::EQ);
  bool isInteger = ShapedType::getNumElements(shape) <
                   std::numeric_limits<int32_t>::max() / kFlushedWeight;
  Type counted = isInteger ? builder.getI32Type() : f32;
  auto number = [&](RowBuilder &values, int32_t x) {
    return isInteger ? values.constant(counted, x)
                     : values.splat(static_cast<float>(x));
  };
  Value weight = stablehlo::SelectOp::create(builder, loc, isKept,
                                             number(elements, kKeptWeight),
                                             number(elements, kFlushedWeight));
  weight = stablehlo::SelectOp::create(builder, loc, isZero,
                                       number(elements, 0), weight);
  auto dims = llvm::to_vector(
      llvm::seq<int64_t>(0, static_cast<int64_t>(shape.size())));
  Value sum = stablehlo::buildReduce<stablehlo::AddOp>(builder, loc, weight,
                                                       number(scalar, 0), dims);
  return isInteger
             ? stablehlo::ConvertOp::create(builder, loc, sum, f32).getResult()
             : sum;
}

/// Returns the rank's own share if `value` is all-gathered; else `value`. One
/// all-reduce merges the statistics of all ranks anyway, and to read the
/// gathered value would take a wide all-gather. Does not look through slices: a
/// slice may drop the padding of the last share, whose content is arbitrary.
static Value findShare(Value value) {
  Value source = lookThrough(value, Move::Invariant | Move::Transpose |
                                        Move::Reshape | Move::Reverse);
  auto gather = source.getDefiningOp<stablehlo::AllGatherOp>();
  return gather && gather->getNumOperands() == 1 ? gather->getOperand(0)
                                                 : value;
}

SmallVector<Value> scalify::buildCarriedStatistics(OpBuilder &builder,
                                                   QuantizeOp cast) {
  auto format = mlir::cast<FloatType>(getElementTypeOrSelf(cast.getType()));
  Value value = findShare(cast.getValue());
  SmallVector<Value> statistics{buildFiniteAmax(builder, cast.getLoc(), value)};
  // Results of dots are nearly normally distributed, so that the amax suffices;
  // and a library's GEMM that casts its results returns the amax alone.
  Operation *maker = getDotOperandRoot(value).getDefiningOp();
  if (!maker || !isContraction(maker))
    statistics.push_back(
        buildExcess(builder, cast.getLoc(), value, cast.getScale(), format));
  return statistics;
}

/// Builds a constant vector with one number per row.
static Value
buildRowConstant(RowBuilder &vectors, ArrayRef<CarriedRow> rows,
                 llvm::function_ref<float(const CarriedRow &)> get) {
  return vectors.vector(llvm::map_to_vector(rows, get));
}

static RowBuilder makeVectors(OpBuilder &builder, Location loc,
                              ArrayRef<CarriedRow> rows) {
  return RowBuilder(builder, loc, {static_cast<int64_t>(rows.size())});
}

/// Negates the rows of factors, which are negative in the state and positive in
/// arithmetic.
static Value buildSigned(OpBuilder &builder, Location loc, RowBuilder &vectors,
                         Value state, ArrayRef<CarriedRow> rows) {
  if (llvm::none_of(rows, [](const CarriedRow &row) { return row.isFactor; }))
    return state;
  Value signs = buildRowConstant(vectors, rows, [](const CarriedRow &row) {
    return row.isFactor ? -1.0f : 1.0f;
  });
  return stablehlo::MulOp::create(builder, loc, state, signs);
}

Value scalify::buildCarriedScales(OpBuilder &builder, Location loc, Value state,
                                  ArrayRef<CarriedRow> rows) {
  RowBuilder vectors = makeVectors(builder, loc, rows);
  state = buildSigned(builder, loc, vectors, state, rows);
  Value predicted = buildRowConstant(
      vectors, rows, [](const CarriedRow &row) { return row.predicted; });
  return vectors.selectWhereAbove(state, 0.0f, state, predicted);
}

/// Builds a vector per kind of statistic, by rows: the maxima over ranks.
static SmallVector<Value> gatherStatistics(OpBuilder &builder, Location loc,
                                           ArrayRef<Value> statistics) {
  auto numRows =
      static_cast<int64_t>(statistics.size() / kNumCarriedStatistics);
  SmallVector<Value> ordered;
  for (unsigned kind = 0; kind != kNumCarriedStatistics; ++kind)
    for (int64_t row = 0; row != numRows; ++row)
      ordered.push_back(statistics[row * kNumCarriedStatistics + kind]);
  // One all-reduce. Of shares, too, the one that loses most counts.
  Value all =
      buildMaxOverRanks(builder, loc, buildVector(builder, loc, ordered));
  SmallVector<Value> kinds;
  for (int64_t kind = 0; kind != kNumCarriedStatistics; ++kind)
    kinds.push_back(stablehlo::SliceOp::create(
        builder, loc, all, 0, kind * numRows, (kind + 1) * numRows));
  return kinds;
}

/// Builds the new scales, from the amax and from the excess of flushed elements
/// at `scales`, for scales that move; `otherwise` for others.
static Value buildMoved(OpBuilder &builder, Location loc, RowBuilder &vectors,
                        Value amax, Value excess, Value scales, Value otherwise,
                        ArrayRef<CarriedRow> rows) {
  auto times = [&](Value x,
                   llvm::function_ref<float(const CarriedRow &)> get) -> Value {
    return stablehlo::MulOp::create(builder, loc, x,
                                    buildRowConstant(vectors, rows, get));
  };
  auto compare = [&](Value x, ComparisonDirection direction, Value y) -> Value {
    return stablehlo::CompareOp::create(builder, loc, x, y, direction);
  };
  Value largest = buildRowConstant(
      vectors, rows, [](const CarriedRow &row) { return row.largest; });
  Value fitting = vectors.roundUpToPowerOfTwo(
      stablehlo::DivOp::create(builder, loc, amax, largest));
  fitting = times(fitting, [](const CarriedRow &row) {
    return std::ldexp(1.0f, row.room);
  });
  // Beyond 2^100 a scale's inverse would have no headroom.
  fitting = stablehlo::ClampOp::create(builder, loc, vectors.splat(0x1p-100f),
                                       fitting, vectors.splat(0x1p100f));
  Value high = times(scales, [](const CarriedRow &row) { return row.high; });
  Value low = times(scales, [](const CarriedRow &row) { return row.low; });
  Value top = times(
      scales, [](const CarriedRow &row) { return kCarriedTop * row.largest; });
  Value zero = vectors.splat(0.0f);
  Value moves = stablehlo::AndOp::create(
      builder, loc, compare(excess, ComparisonDirection::GT, zero),
      compare(amax, ComparisonDirection::LT, top));
  moves = stablehlo::OrOp::create(builder, loc, moves,
                                  compare(amax, ComparisonDirection::LT, low));
  moves = stablehlo::OrOp::create(builder, loc, moves,
                                  compare(amax, ComparisonDirection::GT, high));
  // The amax is 0 for zeros and for values that are not finite: both move
  // nothing.
  moves = stablehlo::AndOp::create(
      builder, loc, moves, compare(amax, ComparisonDirection::GT, zero));
  return stablehlo::SelectOp::create(builder, loc, moves, fitting, otherwise);
}

Value scalify::buildNextCarried(OpBuilder &builder, Location loc, Value state,
                                Value scales, ArrayRef<Value> statistics,
                                ArrayRef<CarriedRow> rows) {
  RowBuilder vectors = makeVectors(builder, loc, rows);
  SmallVector<Value> kinds = gatherStatistics(builder, loc, statistics);
  state = buildSigned(builder, loc, vectors, state, rows);
  Value next = buildMoved(builder, loc, vectors, kinds[0], kinds[1], scales,
                          state, rows);
  // A scale falls by its headroom at most: values that return to their former
  // size after a step of small ones, as of a blank batch, do not clip.
  Value headroom = buildRowConstant(vectors, rows, [](const CarriedRow &row) {
    return row.high / row.largest;
  });
  Value least = stablehlo::MulOp::create(builder, loc, scales, headroom);
  next = vectors.selectWhereAbove(
      next, 0.0f, stablehlo::MaxOp::create(builder, loc, next, least), next);
  return buildSigned(builder, loc, vectors, next, rows);
}

Value scalify::buildFittedScale(OpBuilder &builder, Location loc, Value value,
                                Value constant, FloatType format) {
  RowBuilder scalar(builder, loc, {});
  Value amax = buildFiniteAmax(builder, loc, value);
  Value excess = buildExcess(builder, loc, value, constant, format);
  CarriedRow row = getCarriedRow(value, format, /*predicted=*/1);
  return buildMoved(builder, loc, scalar, amax, excess, constant, constant,
                    row);
}
