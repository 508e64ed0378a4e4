//===- Reduction.cpp - Bounds of reductions and collectives ---------------===//

#include "Transfer.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

/// Maps a set of the operand's axes to the result's, which lack `removed`.
static AxisSet withoutAxes(AxisSet axes, AxisSet removed, int64_t rank) {
  AxisSet result = 0;
  for (int64_t axis = 0, next = 0; axis < rank; ++axis) {
    if (removed >> axis & 1)
      continue;
    if (axes >> axis & 1)
      result |= AxisSet(1) << next;
    ++next;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// reduce
//===----------------------------------------------------------------------===//

/// Bounds sums over `axes`: at most the 1-norm. The norm of the sums is at most
/// sqrt(N) times the norm of all terms, or N times the norm of one.
static RangeState boundSum(const RangeQuery &query, const RangeState &x,
                           AxisSet axes, unsigned result) {
  double n = x.count(axes), most = x.getL1(axes);
  double lo = std::max(-most, product(n, x.lo));
  double hi = std::min(most, product(n, x.hi));
  if (x.isNonNegative() && x.peak && (x.peak->axes & ~axes) == 0)
    lo = std::max(lo, x.peak->bound);
  RangeState state = RangeState::interval(query.getType(result), lo, hi, x.nan);
  if (!query.isFloat())
    return state;
  // The rounding error does not cancel with the terms of the sum.
  double factor = Rounding::ofSum(query.getElement(result), n, /*wide=*/false);
  double error = most == RangeState::infinity() ? 0 : most * (factor - 1);
  if (!x.isNonNegative()) {
    state.lo -= error;
    state.hi += error;
  }
  for (AxisSet set : x.getNormAxes()) {
    AxisSet rows = set & ~axes, mapped = withoutAxes(rows, axes, x.getRank());
    state.addL2(mapped, std::min(std::sqrt(n) * x.getL2(rows | axes),
                                 n * x.getL2(rows)) *
                            factor);
    state.addL1(mapped, x.getL1(rows | axes) * factor);
  }
  state.round(query.getElement(result), factor);
  // Infinite partial sums of both signs give NaN.
  state.nan |= !x.isNonNegative() && x.hi > 0 && !state.isBounded();
  return state;
}

/// Bounds sums that start at `init`. Adding each of the `n` terms to it rounds.
static RangeState addInitial(const RangeQuery &query, const RangeState &x,
                             const RangeState &init, double n,
                             const RangeState &sum, unsigned result) {
  double lo = sum.lo + init.lo, hi = sum.hi + init.hi;
  bool nan = sum.nan || !sum.isBounded() || !init.isFinite();
  if (query.isFloat()) {
    double factor =
        Rounding::ofSum(query.getElement(result), n + 1, /*wide=*/false);
    double error = (product(n, x.maxAbs()) + init.maxAbs()) * (factor - 1);
    lo -= error;
    hi += error;
  }
  RangeState state = RangeState::interval(query.getType(result), lo, hi, nan);
  state.round(query.getElement(result));
  return state;
}

static RangeState boundExtremum(const RangeQuery &query, const RangeState &x,
                                AxisSet axes, unsigned result, bool isMax) {
  RangeState state = sameInterval(query, result, x);
  // Targets differ in whether a maximum with NaN is NaN.
  if (isMax && !x.nan && x.peak && (x.peak->axes & ~axes) == 0)
    state.lo = std::max(state.lo, x.peak->bound);
  // The largest element of a row is no larger than the row's norm.
  for (AxisSet set : x.getNormAxes()) {
    AxisSet mapped = withoutAxes(set, axes, x.getRank());
    state.addL2(mapped, x.getL2(set | axes));
    state.addL1(mapped, x.getL1(set | axes));
  }
  return state;
}

static RangeState reduce(const RangeQuery &query, hlo::ReduceOp op,
                         unsigned result) {
  const RangeState &x = query[result];
  const RangeState &init = query[op.getInputs().size() + result];
  AxisSet axes = toAxisSet(op.getDimensions());
  bool isEmpty = x.count(~0u) == 0;
  ReductionKind kind = getReductionKind(op.getBody(), result);
  bool isPredicate = query.getElement(result).isInteger(1);
  // The conjunction of predicates is their minimum.
  if (isPredicate && kind == ReductionKind::Multiply)
    kind = ReductionKind::Min;
  if (kind == ReductionKind::Unknown || kind == ReductionKind::Multiply ||
      (isPredicate && kind == ReductionKind::Add) || isEmpty)
    return RangeState::unknown(query.getType(result));
  if (kind == ReductionKind::Add) {
    RangeState state = boundSum(query, x, axes, result);
    if (init.lo == 0 && init.hi == 0)
      return state;
    return addInitial(query, x, init, x.count(axes), state, result);
  }
  if (kind == ReductionKind::First || kind == ReductionKind::Second)
    return RangeState::join(sameInterval(query, result, x),
                            sameInterval(query, result, init));
  bool isMax = kind == ReductionKind::Max;
  RangeState state = boundExtremum(query, x, axes, result, isMax);
  // An initial value other than the identity may be the extreme.
  if (isMax ? init.hi > state.lo : init.lo < state.hi) {
    state = RangeState::interval(
        query.getType(result),
        isMax ? std::max(state.lo, init.lo) : std::min(state.lo, init.lo),
        isMax ? std::max(state.hi, init.hi) : std::min(state.hi, init.hi),
        state.nan || init.nan);
  }
  return state;
}

static RangeState reduceWindow(const RangeQuery &query, hlo::ReduceWindowOp op,
                               unsigned result) {
  const RangeState &x = query[result];
  const RangeState &init = query[op.getInputs().size() + result];
  double n = 1;
  for (int64_t size : op.getWindowDimensions())
    n *= size;
  bool nan = x.nan || init.nan;
  switch (getReductionKind(op.getBody(), result)) {
  case ReductionKind::Add: {
    // Padding removes terms.
    double lo = std::min(0.0, product(n, x.lo)) + std::min(0.0, init.lo);
    double hi = std::max(0.0, product(n, x.hi)) + std::max(0.0, init.hi);
    RangeState state = RangeState::interval(query.getType(result), lo, hi,
                                            nan || !x.isFinite());
    // The initial value may be padding too, and so a term.
    if (init.lo != 0 || init.hi != 0)
      return RangeState::unknown(query.getType(result));
    double factor =
        Rounding::ofSum(query.getElement(result), n, /*wide=*/false);
    double error = (factor - 1) * product(n, x.maxAbs());
    state.lo -= x.lo < 0 ? error : 0;
    state.hi += x.hi > 0 ? error : 0;
    state.round(query.getElement(result));
    // Infinite partial sums of both signs give NaN.
    state.nan |= !x.isNonNegative() && x.hi > 0 && !state.isBounded();
    return state;
  }
  case ReductionKind::Max:
  case ReductionKind::Min:
  case ReductionKind::First:
  case ReductionKind::Second:
    return RangeState::interval(query.getType(result), std::min(x.lo, init.lo),
                                std::max(x.hi, init.hi), nan);
  default:
    return RangeState::unknown(query.getType(result));
  }
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Returns the most devices that reduce together. Infinite if the op does not
/// specify them: all devices, or on a channel also those of all partitions.
template <typename Op> static double getGroupSize(Op op) {
  ShapedType groups = op.getReplicaGroups().getShapedType();
  bool isOpen = groups.getRank() != 2 || groups.getNumElements() == 0 ||
                (op.getChannelHandle() && !op.getUseGlobalDeviceIds());
  return isOpen ? RangeState::infinity() : groups.getDimSize(1);
}

/// Other devices run the same program on arguments of the same ranges.
static RangeState boundAcrossDevices(const RangeQuery &query,
                                     const RangeState &x, Region &body,
                                     double devices, unsigned result) {
  RangeState state = sameInterval(query, result, x);
  switch (getReductionKind(body)) {
  case ReductionKind::Add: {
    state.lo = product(devices, x.lo);
    state.hi = product(devices, x.hi);
    state.nan = !x.isFinite();
    double factor =
        Rounding::ofSum(query.getElement(result), devices, /*wide=*/false);
    double error = (factor - 1) * product(devices, x.maxAbs());
    if (!x.isNonNegative() && error < RangeState::infinity()) {
      state.lo -= error;
      state.hi += error;
    }
    bool sameShape = state.getShape() == x.getShape();
    for (AxisSet axes : x.getNormAxes())
      if (sameShape && query.isFloat()) {
        state.addL2(axes, devices * x.getL2(axes));
        state.addL1(axes, devices * x.getL1(axes));
      }
    state.round(query.getElement(result), factor);
    return query.isFloat() ? state : RangeState::unknown(query.getType(result));
  }
  case ReductionKind::Max:
  case ReductionKind::Min:
    return state;
  default:
    return RangeState::unknown(query.getType(result));
  }
}

/// Adds zero to the range: a device that receives nothing gets zero.
static RangeState includeZero(const RangeQuery &query) {
  RangeState state = query[0];
  state.sources = ~uint64_t(0);
  state.peak.reset();
  state.lo = std::min(state.lo, 0.0);
  state.hi = std::max(state.hi, 0.0);
  return state;
}

MaybeRange scalify::transferReduction(const RangeQuery &query,
                                      unsigned result) {
  auto interval = [&](auto) {
    return sameInterval(query, result, query[result]);
  };
  return llvm::TypeSwitch<Operation *, MaybeRange>(query.op)
      .Case<hlo::AllGatherOp, hlo::AllToAllOp>(interval)
      .Case<hlo::AllReduceOp>([&](auto op) {
        return boundAcrossDevices(query, query[result], op.getComputation(),
                                  getGroupSize(op), result);
      })
      .Case<hlo::CollectiveBroadcastOp, hlo::CollectivePermuteOp>(
          [&](auto) { return includeZero(query); })
      .Case<hlo::ReduceOp>([&](auto op) { return reduce(query, op, result); })
      .Case<hlo::ReduceScatterOp>([&](auto op) {
        return boundAcrossDevices(query, query[0], op.getComputation(),
                                  getGroupSize(op), 0);
      })
      .Case<hlo::ReduceWindowOp>(
          [&](auto op) { return reduceWindow(query, op, result); })
      .Default([](Operation *) { return std::nullopt; });
}
