//===- Indexing.cpp - Bounds of gathers, scatters and sorts ---------------===//
//
// An index out of range is clamped (gather, dynamic slices) or dropped
// (scatter), so that no bound depends on an index.
//
//===----------------------------------------------------------------------===//

#include "Transfer.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

/// The slice's axes are parts of the operand's axes; a collapsed axis
/// contributes one element. A norm over both bounds the norm over the slice's
/// axes.
static RangeState gather(const RangeQuery &query, hlo::GatherOp op) {
  const RangeState &x = query[0];
  RangeState state = sameInterval(query, 0, x);
  hlo::GatherDimensionNumbersAttr numbers = op.getDimensionNumbers();
  SmallVector<int64_t> to(x.getRank(), -1);
  size_t next = 0;
  for (int64_t axis = 0; axis < x.getRank(); ++axis)
    if (!llvm::is_contained(numbers.getCollapsedSliceDims(), axis) &&
        !llvm::is_contained(numbers.getOperandBatchingDims(), axis) &&
        next < numbers.getOffsetDims().size())
      to[axis] = numbers.getOffsetDims()[next++];
  for (AxisSet axes : x.getNormAxes()) {
    AxisSet mapped = 0;
    for (int64_t axis = 0; axis < x.getRank(); ++axis)
      if ((axes >> axis & 1) && to[axis] >= 0)
        mapped |= AxisSet(1) << to[axis];
    state.addL2(mapped, x.getL2(axes));
    state.addL1(mapped, x.getL1(axes));
  }
  return state;
}

static RangeState dynamicUpdate(const RangeQuery &query) {
  const RangeState &x = query[0], &update = query[1];
  RangeState state =
      RangeState::interval(query.getType(), std::min(x.lo, update.lo),
                           std::max(x.hi, update.hi), x.nan || update.nan);
  SmallVector<AxisSet, 4> candidates(x.getNormAxes());
  candidates.append(update.getNormAxes());
  for (AxisSet axes : candidates) {
    // A row has old elements and new ones.
    state.addL2(axes, std::hypot(x.getL2(axes), update.getL2(axes)));
    state.addL1(axes, x.getL1(axes) + update.getL1(axes));
  }
  return state;
}

/// Returns the most updates that may meet in one element: those that differ in
/// a non-batch axis of the indices.
static double countCollisions(hlo::ScatterOp op) {
  if (op.getUniqueIndices())
    return 1;
  auto numbers = op.getScatterDimensionNumbers();
  auto indices = cast<ShapedType>(op.getScatterIndices().getType());
  double count = 1;
  for (int64_t axis = 0; axis < indices.getRank(); ++axis)
    if (axis != numbers.getIndexVectorDim() &&
        !llvm::is_contained(numbers.getScatterIndicesBatchingDims(), axis))
      count *= indices.getDimSize(axis);
  return count;
}

static RangeState scatterAdd(const RangeQuery &query, hlo::ScatterOp op,
                             unsigned result) {
  const RangeState &x = query[result];
  const RangeState &update = query[op.getInputs().size() + 1 + result];
  double count = countCollisions(op);
  double lo = x.lo + std::min(0.0, product(count, update.lo));
  double hi = x.hi + std::max(0.0, product(count, update.hi));
  double factor =
      Rounding::ofSum(query.getElement(result), count, /*wide=*/false);
  // The rounding error does not cancel with the terms of the sum.
  double error = (factor - 1) * (x.maxAbs() + product(count, update.maxAbs()));
  if (query.isFloat() && !(x.isNonNegative() && update.isNonNegative())) {
    lo -= error;
    hi += error;
  }
  RangeState state = RangeState::interval(query.getType(result), lo, hi,
                                          !x.isFinite() || !update.isFinite());
  // All updates that are scattered along the axes of one batch.
  auto numbers = op.getScatterDimensionNumbers();
  AxisSet axes = toAxisSet(numbers.getScatterDimsToOperandDims());
  if (numbers.getUpdateWindowDims().empty()) {
    double updates = op.getUniqueIndices() ? RangeState::infinity()
                                           : product(count, update.maxAbs());
    state.addL1(axes, x.getL1(axes) + updates);
    if (count == 1)
      state.addL2(axes, x.getL2(axes) + updates);
  }
  state.round(query.getElement(result), factor);
  return state;
}

static RangeState scatter(const RangeQuery &query, hlo::ScatterOp op,
                          unsigned result) {
  unsigned count = op.getInputs().size();
  const RangeState &x = query[result], &update = query[count + 1 + result];
  RangeState replaced =
      RangeState::interval(query.getType(result), std::min(x.lo, update.lo),
                           std::max(x.hi, update.hi), x.nan || update.nan);
  switch (getReductionKind(op.getUpdateComputation(), result)) {
  case ReductionKind::Add:
    return scatterAdd(query, op, result);
  case ReductionKind::Max:
  case ReductionKind::Min:
  case ReductionKind::First:
  case ReductionKind::Second:
    return replaced;
  case ReductionKind::Multiply:
  case ReductionKind::Unknown:
    break;
  }
  return RangeState::unknown(query.getType(result));
}

/// Permutes each row along one axis separately.
static RangeState sort(const RangeQuery &query, hlo::SortOp op,
                       unsigned result) {
  const RangeState &x = query[result];
  RangeState state = sameInterval(query, result, x);
  int64_t dimension = op.getDimension();
  if (dimension < 0)
    dimension += x.getRank();
  for (const NormBound &norm : x.l2)
    if (norm.axes >> dimension & 1)
      state.addL2(norm.axes, norm.bound);
  for (const NormBound &norm : x.l1)
    if (norm.axes >> dimension & 1)
      state.addL1(norm.axes, norm.bound);
  return state;
}

MaybeRange scalify::transferIndexing(const RangeQuery &query, unsigned result) {
  return llvm::TypeSwitch<Operation *, MaybeRange>(query.op)
      .Case<hlo::DynamicSliceOp>([&](auto) {
        RangeState state = sameInterval(query, 0, query[0]);
        for (AxisSet axes : query[0].getNormAxes()) {
          state.addL2(axes, query[0].getL2(axes));
          state.addL1(axes, query[0].getL1(axes));
        }
        return state;
      })
      .Case<hlo::DynamicUpdateSliceOp>(
          [&](auto) { return dynamicUpdate(query); })
      .Case<hlo::GatherOp>([&](auto op) { return gather(query, op); })
      .Case<hlo::ScatterOp>([&](auto op) { return scatter(query, op, result); })
      .Case<hlo::SortOp>([&](auto op) { return sort(query, op, result); })
      .Case<hlo::TorchIndexSelectOp>(
          [&](auto) { return sameInterval(query, 0, query[0]); })
      .Default([](Operation *) { return std::nullopt; });
}
