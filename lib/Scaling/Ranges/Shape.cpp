//===- Shape.cpp - Bounds of ops that move elements -----------------------===//
//
// Moving elements keeps the interval. A norm is kept if its rows stay rows: a
// part of a row has at most the row's norm.
//
//===----------------------------------------------------------------------===//

#include "Transfer.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Dialect/StableHLO/Values.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

RangeState scalify::sameInterval(const RangeQuery &query, unsigned result,
                                 const RangeState &source) {
  return RangeState::interval(query.getType(result), source.lo, source.hi,
                              source.nan);
}

/// Moves each norm along `map`, which gives for each axis of the source the
/// corresponding axis of the result, or -1. Drops the norm of a set with a lost
/// axis.
static void mapNorms(const RangeState &source, ArrayRef<int64_t> map,
                     RangeState &state) {
  auto mapped = [&](AxisSet axes) -> std::optional<AxisSet> {
    AxisSet result = 0;
    for (auto [i, to] : llvm::enumerate(map)) {
      if (!(axes >> i & 1))
        continue;
      if (to < 0)
        return std::nullopt;
      result |= AxisSet(1) << to;
    }
    return result;
  };
  for (const NormBound &norm : source.l2)
    if (std::optional<AxisSet> axes = mapped(norm.axes))
      state.addL2(*axes, norm.bound);
  for (const NormBound &norm : source.l1)
    if (std::optional<AxisSet> axes = mapped(norm.axes))
      state.addL1(*axes, norm.bound);
}

static RangeState broadcast(const RangeQuery &query, ArrayRef<int64_t> dims) {
  RangeState state = sameInterval(query, 0, query[0]);
  mapNorms(query[0], dims, state);
  return state;
}

static RangeState transpose(const RangeQuery &query, hlo::TransposeOp op) {
  RangeState state = sameInterval(query, 0, query[0]);
  SmallVector<int64_t> map(op.getPermutation().size());
  for (auto [to, from] : llvm::enumerate(op.getPermutation()))
    map[from] = to;
  mapNorms(query[0], map, state);
  return state;
}

namespace {
/// Axes of the operand and of the result of a reshape that hold the same
/// elements in the same order.
struct AxisGroup {
  AxisSet from = 0, to = 0;
};
} // namespace

static SmallVector<AxisGroup> groupAxes(ArrayRef<int64_t> from,
                                        ArrayRef<int64_t> to) {
  SmallVector<AxisGroup> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    AxisGroup group;
    int64_t left = 1, right = 1;
    do {
      bool takeLeft = i < from.size() && (left <= right || j == to.size());
      if (takeLeft) {
        left *= from[i];
        group.from |= AxisSet(1) << i++;
      } else {
        right *= to[j];
        group.to |= AxisSet(1) << j++;
      }
    } while (left != right && (i < from.size() || j < to.size()));
    groups.push_back(group);
  }
  return groups;
}

/// Maps a set of axes to all groups that it touches, with the norm of the whole
/// groups as bound.
static RangeState reshape(const RangeQuery &query) {
  const RangeState &x = query[0];
  RangeState state = sameInterval(query, 0, x);
  if (x.getShape().empty() || state.getShape().empty() || x.count(~0u) == 0)
    return state;
  SmallVector<AxisGroup> groups = groupAxes(x.getShape(), state.getShape());
  for (AxisSet axes : x.getNormAxes()) {
    AxisSet whole = 0, mapped = 0;
    for (const AxisGroup &group : groups)
      if (axes & group.from & x.allAxes()) {
        whole |= group.from;
        mapped |= group.to;
      }
    state.addL2(mapped, x.getL2(whole));
    state.addL1(mapped, x.getL1(whole));
  }
  return state;
}

/// Bounds a part of a tensor along its own axes, such as a slice.
static RangeState part(const RangeQuery &query, unsigned result = 0) {
  const RangeState &x = query[result];
  RangeState state = sameInterval(query, result, x);
  mapNorms(x, llvm::to_vector(llvm::seq<int64_t>(x.getRank())), state);
  return state;
}

static RangeState concatenate(const RangeQuery &query, unsigned dimension) {
  RangeState state = sameInterval(query, 0, query[0]);
  SmallVector<AxisSet, 8> candidates;
  for (const RangeState *x : query.operands) {
    state.lo = std::min(state.lo, x->lo);
    state.hi = std::max(state.hi, x->hi);
    state.nan |= x->nan;
    candidates.append(x->getNormAxes());
  }
  llvm::sort(candidates);
  candidates.erase(llvm::unique(candidates), candidates.end());
  for (AxisSet axes : candidates) {
    bool isJoined = axes >> dimension & 1;
    double squares = 0, sum = 0;
    for (const RangeState *x : query.operands) {
      double l2 = x->getL2(axes), l1 = x->getL1(axes);
      squares = isJoined ? squares + l2 * l2 : std::max(squares, l2 * l2);
      sum = isJoined ? sum + l1 : std::max(sum, l1);
    }
    state.addL2(axes, std::sqrt(squares));
    state.addL1(axes, sum);
  }
  return state;
}

static RangeState pad(const RangeQuery &query) {
  const RangeState &x = query[0], &fill = query[1];
  RangeState state = sameInterval(query, 0, x);
  state.lo = std::min(x.lo, fill.lo);
  state.hi = std::max(x.hi, fill.hi);
  state.nan |= fill.nan;
  if (fill.lo == 0 && fill.hi == 0)
    mapNorms(x, llvm::to_vector(llvm::seq<int64_t>(x.getRank())), state);
  return state;
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

static void extend(RangeState &state, double element) {
  if (std::isnan(element)) {
    state.nan = true;
    return;
  }
  state.lo = std::min(state.lo, element);
  state.hi = std::max(state.hi, element);
}

/// Computes the row norms of a small constant; larger ones are rare.
static void addConstantNorms(DenseFPElementsAttr values, RangeState &state) {
  SmallVector<double> squares(values.getNumElements());
  for (auto [i, value] : llvm::enumerate(values.getValues<APFloat>())) {
    double number = value.convertToDouble();
    squares[i] = number * number;
  }
  int64_t stride = values.getNumElements();
  for (auto [axis, size] : llvm::enumerate(state.getShape())) {
    stride /= size;
    double most = 0;
    for (int64_t i = 0, e = squares.size(); i < e; ++i) {
      if (i / stride % size != 0)
        continue;
      double row = 0;
      for (int64_t j = 0; j < size; ++j)
        row += squares[i + j * stride];
      most = std::max(most, row);
    }
    state.addL2(AxisSet(1) << axis, std::sqrt(most) * (1 + 0x1p-40));
  }
}

static RangeState constant(const RangeQuery &query, hlo::ConstantOp op) {
  RangeState state = RangeState::unknown(query.getType());
  double inf = RangeState::infinity();
  if (auto values = dyn_cast<DenseFPElementsAttr>(op.getValue())) {
    if (values.empty())
      return RangeState::interval(query.getType(), 0, 0);
    state.lo = inf;
    state.hi = -inf;
    state.nan = false;
    hlo::visitNumbers(values, [&](double value) { extend(state, value); });
    if (!values.isSplat() && values.getNumElements() <= 4096 &&
        state.isFinite())
      addConstantNorms(values, state);
    // All elements are NaN: any interval holds.
    if (state.lo > state.hi)
      state.lo = state.hi = 0;
    return state;
  }
  if (auto values = dyn_cast<DenseIntElementsAttr>(op.getValue())) {
    bool isSigned = !hlo::hasUnsignedElements(query.getElement());
    double lo = inf, hi = -inf;
    for (const APInt &value : values.getValues<APInt>()) {
      double number = value.roundToDouble(isSigned);
      lo = std::min(lo, number);
      hi = std::max(hi, number);
      if (values.isSplat())
        break;
    }
    return values.empty() ? state
                          : RangeState::interval(query.getType(), lo, hi);
  }
  return state;
}

static RangeState iota(const RangeQuery &query, hlo::IotaOp op) {
  auto type = dyn_cast<RankedTensorType>(query.getType());
  if (!type || isa<ComplexType>(type.getElementType()))
    return RangeState::unknown(query.getType());
  double last = type.getDimSize(op.getIotaDimension()) - 1;
  RangeState state =
      RangeState::interval(query.getType(), 0, std::max(last, 0.0));
  state.round(query.getElement());
  return state;
}

MaybeRange scalify::transferShape(const RangeQuery &query, unsigned result) {
  return llvm::TypeSwitch<Operation *, MaybeRange>(query.op)
      .Case<hlo::BroadcastInDimOp>([&](auto op) {
        return broadcast(query, op.getBroadcastDimensions());
      })
      .Case<hlo::BroadcastOp>([&](hlo::BroadcastOp op) {
        int64_t added = op.getBroadcastSizes().size();
        return broadcast(query, llvm::to_vector(llvm::seq<int64_t>(
                                    added, added + query[0].getRank())));
      })
      .Case<hlo::ConcatenateOp>(
          [&](auto op) { return concatenate(query, op.getDimension()); })
      .Case<hlo::ConstantOp>([&](auto op) { return constant(query, op); })
      .Case<hlo::IotaOp>([&](auto op) { return iota(query, op); })
      .Case<hlo::OptimizationBarrierOp>([&](auto) {
        RangeState state = query[result];
        state.sources = uint64_t(1) << result;
        return state;
      })
      .Case<hlo::PadOp>([&](auto) { return pad(query); })
      .Case<hlo::ReshapeOp>([&](auto) { return reshape(query); })
      .Case<hlo::ReverseOp, hlo::SliceOp>([&](auto) { return part(query); })
      .Case<hlo::TransposeOp>([&](auto op) { return transpose(query, op); })
      .Default([](Operation *) { return std::nullopt; });
}
