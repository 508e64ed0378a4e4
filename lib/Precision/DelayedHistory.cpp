//===- DelayedHistory.cpp - Arithmetic on the history of amaxes -----------===//
//
// The history has a row for each group of casts, the newest amax last. The
// arithmetic is elementwise on vectors of one entry per row, as in @rescale.
//
//===----------------------------------------------------------------------===//

#include "DelayedHistory.h"

#include "RowBuilder.h"
#include "RowMaxima.h"
#include "scalify/Precision/RankMaxima.h"

#include "scalify/Dialect/StableHLO/Reductions.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace scalify;
using stablehlo::ComparisonDirection;

/// Builds the largest magnitudes over `dims`; 0 where they are not finite.
static Value buildAmaxOver(OpBuilder &builder, Location loc, Value value,
                           ArrayRef<int64_t> dims) {
  Type f32 = builder.getF32Type();
  Value magnitude = stablehlo::AbsOp::create(builder, loc, value);
  if (getElementTypeOrSelf(value.getType()) != f32)
    magnitude = stablehlo::ConvertOp::create(builder, loc, magnitude, f32);
  Value amax = stablehlo::buildMaximum(builder, loc, magnitude, dims);
  RowBuilder rows(builder, loc,
                  mlir::cast<ShapedType>(amax.getType()).getShape());
  // LT is false for NaN.
  Value isFinite = stablehlo::CompareOp::create(
      builder, loc, amax, rows.splat(std::numeric_limits<float>::infinity()),
      ComparisonDirection::LT);
  return stablehlo::SelectOp::create(builder, loc, isFinite, amax,
                                     rows.splat(0.0f));
}

static SmallVector<int64_t> getDims(Value value, int64_t first) {
  int64_t rank = mlir::cast<ShapedType>(value.getType()).getRank();
  return llvm::to_vector(llvm::seq<int64_t>(first, rank));
}

Value scalify::buildFiniteAmax(OpBuilder &builder, Location loc, Value value) {
  return buildAmaxOver(builder, loc, value, getDims(value, 0));
}

Value scalify::buildFiniteAmaxes(OpBuilder &builder, Location loc, Value value,
                                 bool whole) {
  Value amax =
      buildAmaxOver(builder, loc, value, getDims(value, whole ? 0 : 1));
  if (!whole)
    return amax;
  auto one = RankedTensorType::get({1}, builder.getF32Type());
  return stablehlo::ReshapeOp::create(builder, loc, one, amax);
}

SmallVector<Value> scalify::splitEntries(OpBuilder &builder, Location loc,
                                         Value vector) {
  auto type = mlir::cast<RankedTensorType>(vector.getType());
  auto rankZero = RankedTensorType::get({}, type.getElementType());
  SmallVector<Value> entries;
  for (int64_t i = 0, end = type.getDimSize(0); i != end; ++i) {
    Value entry = stablehlo::SliceOp::create(builder, loc, vector, 0, i, i + 1);
    entries.push_back(
        stablehlo::ReshapeOp::create(builder, loc, rankZero, entry));
  }
  return entries;
}

static Value sliceColumns(OpBuilder &builder, Location loc, Value history,
                          int64_t first) {
  auto type = mlir::cast<RankedTensorType>(history.getType());
  return stablehlo::SliceOp::create(builder, loc, history, 1, first,
                                    type.getDimSize(1));
}

/// Builds the smallest powers of two by which amaxes fit their formats, `room`
/// binades up; `otherwise` where an amax is 0.
static Value buildFittingScales(OpBuilder &builder, Location loc, Value amaxes,
                                int64_t room, Value otherwise,
                                ArrayRef<HistoryRow> rows) {
  RowBuilder vectors(builder, loc,
                     mlir::cast<ShapedType>(amaxes.getType()).getShape());
  auto largest = llvm::map_to_vector(
      rows, [](const HistoryRow &row) { return row.largest; });
  Value ratio =
      stablehlo::DivOp::create(builder, loc, amaxes, vectors.vector(largest));
  Value scale = stablehlo::MulOp::create(
      builder, loc, vectors.roundUpToPowerOfTwo(ratio),
      vectors.splat(std::ldexp(1.0f, static_cast<int>(room))));
  // Beyond 2^100 a scale's inverse would have no headroom.
  scale = stablehlo::ClampOp::create(builder, loc, vectors.splat(0x1p-100f),
                                     scale, vectors.splat(0x1p100f));
  return vectors.selectWhereAbove(amaxes, 0.0f, scale, otherwise);
}

Value scalify::buildScalesOfAmaxes(OpBuilder &builder, Location loc,
                                   Value amaxes, float largest,
                                   int64_t margin) {
  ArrayRef<int64_t> shape = mlir::cast<ShapedType>(amaxes.getType()).getShape();
  SmallVector<HistoryRow> rows(shape.front(), HistoryRow{largest, 1.0f});
  Value zeros = RowBuilder(builder, loc, shape).splat(0.0f);
  return buildFittingScales(builder, loc, amaxes, margin, zeros, rows);
}

static Value buildPredictedScales(OpBuilder &builder, Location loc,
                                  ArrayRef<HistoryRow> rows) {
  auto predicted = llvm::map_to_vector(
      rows, [](const HistoryRow &row) { return row.predicted; });
  return RowBuilder(builder, loc, {static_cast<int64_t>(rows.size())})
      .vector(predicted);
}

Value scalify::buildDelayedScales(OpBuilder &builder, Location loc,
                                  Value history, DelayedScaling delayed,
                                  ArrayRef<HistoryRow> rows) {
  auto type = mlir::cast<RankedTensorType>(history.getType());
  Value amax;
  if (delayed.use == HistoryUse::Max)
    amax = stablehlo::buildMaximum(builder, loc, history, 1);
  else
    amax = stablehlo::ReshapeOp::create(
        builder, loc,
        RankedTensorType::get({type.getDimSize(0)}, builder.getF32Type()),
        sliceColumns(builder, loc, history, type.getDimSize(1) - 1));
  return buildFittingScales(builder, loc, amax, delayed.margin,
                            buildPredictedScales(builder, loc, rows), rows);
}

Value scalify::buildNextHistory(OpBuilder &builder, Location loc, Value history,
                                ArrayRef<Value> amaxes) {
  auto type = mlir::cast<RankedTensorType>(history.getType());
  auto one = RankedTensorType::get({1, 1}, builder.getF32Type());
  auto entries = llvm::map_to_vector(amaxes, [&](Value amax) -> Value {
    return stablehlo::ReshapeOp::create(builder, loc, one, amax);
  });
  Value column =
      stablehlo::ConcatenateOp::create(builder, loc, entries, /*dimension=*/0);
  column = buildMaxOverRanks(builder, loc, column);
  Value moved = column;
  if (type.getDimSize(1) > 1)
    moved = stablehlo::ConcatenateOp::create(
        builder, loc,
        ValueRange{sliceColumns(builder, loc, history, 1), column},
        /*dimension=*/1);
  Value seen = stablehlo::BroadcastInDimOp::create(builder, loc, type, column,
                                                   ArrayRef<int64_t>{0, 1});
  return RowBuilder(builder, loc, type.getShape())
      .selectWhereAbove(seen, 0.0f, moved, history);
}

Value scalify::buildStoredScales(OpBuilder &builder, Location loc, Value stored,
                                 ArrayRef<HistoryRow> rows) {
  return RowBuilder(builder, loc,
                    mlir::cast<ShapedType>(stored.getType()).getShape())
      .selectWhereAbove(stored, 0.0f, stored,
                        buildPredictedScales(builder, loc, rows));
}

Value scalify::buildNextScales(OpBuilder &builder, Location loc, Value amaxes,
                               Value scales, ArrayRef<HistoryRow> rows) {
  return buildFittingScales(builder, loc, amaxes, /*room=*/0, scales, rows);
}

Value scalify::buildNextAmaxes(OpBuilder &builder, Location loc, Value amaxes,
                               ArrayRef<Value> measured) {
  Value column =
      buildMaxOverRanks(builder, loc, buildVector(builder, loc, measured));
  return RowBuilder(builder, loc,
                    mlir::cast<ShapedType>(amaxes.getType()).getShape())
      .selectWhereAbove(column, 0.0f, column, amaxes);
}
