//===- Elementwise.cpp - Bounds of elementwise ops ------------------------===//

#include "Transfer.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

static bool allFinite(const RangeQuery &query) {
  return llvm::all_of(query.operands,
                      [](const RangeState *s) { return s->isFinite(); });
}

/// Returns an interval that is rounded once. NaN only if an operand is not
/// finite.
static RangeState rounded(const RangeQuery &query, double lo, double hi) {
  RangeState state =
      RangeState::interval(query.getType(), lo, hi, !allFinite(query));
  state.round(query.getElement());
  return state;
}

//===----------------------------------------------------------------------===//
// Sums and products
//===----------------------------------------------------------------------===//

static SmallVector<AxisSet, 8> unionOfAxes(const RangeState &a,
                                           const RangeState &b) {
  SmallVector<AxisSet, 8> axes(a.getNormAxes());
  for (AxisSet set : b.getNormAxes())
    if (!llvm::is_contained(axes, set))
      axes.push_back(set);
  return axes;
}

/// a + b, or a - b. If the operands' signs oppose, no product a_i * b_i adds to
/// the sum, and the squares of the norms add: one-hot minus probabilities has
/// norm sqrt(2), not 2.
static RangeState sum(const RangeQuery &query, bool negate) {
  const RangeState &a = query[0], &b = query[1];
  double lo = negate ? a.lo - b.hi : a.lo + b.lo;
  double hi = negate ? a.hi - b.lo : a.hi + b.hi;
  RangeState state =
      RangeState::interval(query.getType(), lo, hi, !allFinite(query));
  if (!query.isFloat())
    return state;
  bool opposed = negate ? (a.lo >= 0 && b.lo >= 0) || (a.hi <= 0 && b.hi <= 0)
                        : (a.lo >= 0 && b.hi <= 0) || (a.hi <= 0 && b.lo >= 0);
  for (AxisSet axes : unionOfAxes(a, b)) {
    double x = a.getL2(axes), y = b.getL2(axes);
    state.addL2(axes, opposed ? std::hypot(x, y) : x + y);
    state.addL1(axes, a.getL1(axes) + b.getL1(axes));
  }
  state.round(query.getElement());
  return state;
}

static void computeProductHull(const RangeState &a, const RangeState &b,
                               double &lo, double &hi) {
  double corners[] = {product(a.lo, b.lo), product(a.lo, b.hi),
                      product(a.hi, b.lo), product(a.hi, b.hi)};
  lo = *llvm::min_element(corners);
  hi = *llvm::max_element(corners);
}

static RangeState multiply(const RangeQuery &query) {
  const RangeState &a = query[0], &b = query[1];
  double lo, hi;
  computeProductHull(a, b, lo, hi);
  bool isSquare = query.op->getOperand(0) == query.op->getOperand(1);
  if (isSquare)
    lo = a.lo >= 0 ? product(a.lo, a.lo) : a.hi <= 0 ? product(a.hi, a.hi) : 0;
  RangeState state =
      RangeState::interval(query.getType(), lo, hi, !allFinite(query));
  if (!query.isFloat())
    return state;
  // A square is NaN only if its operand is.
  if (isSquare)
    state.nan = a.nan;
  for (AxisSet axes : unionOfAxes(a, b)) {
    state.addL2(axes, std::min(product(a.getL2(axes), b.maxAbs()),
                               product(a.maxAbs(), b.getL2(axes))));
    state.addL1(axes, std::min({product(a.getL1(axes), b.maxAbs()),
                                product(a.maxAbs(), b.getL1(axes)),
                                product(a.getL2(axes), b.getL2(axes))}));
  }
  state.round(query.getElement());
  return state;
}

static RangeState divide(const RangeQuery &query) {
  const RangeState &a = query[0], &b = query[1];
  if (!query.isFloat()) {
    // The quotient is no larger than the dividend. A division by zero, or of
    // the lowest integer by -1, may give any integer of the type.
    bool isSafe = b.lo > 0;
    return isSafe
               ? exact(query, std::min(a.lo, 0.0), std::max(a.hi, 0.0), false)
               : RangeState::unknown(query.getType());
  }
  double least = flushed(query, b.lo > 0 ? b.lo : b.hi < 0 ? -b.hi : 0);
  // Even the sign is unknown: the zero may be negative.
  if (least == 0)
    return RangeState::unknown(query.getType());
  double one = 1 / b.lo, other = 1 / b.hi;
  double corners[] = {product(a.lo, one), product(a.lo, other),
                      product(a.hi, one), product(a.hi, other)};
  RangeState state = exact(query, *llvm::min_element(corners),
                           *llvm::max_element(corners), !allFinite(query));
  // A finite number over an infinite one is zero.
  if (a.isFinite() && !b.nan)
    state.nan = false;
  for (AxisSet axes : a.getNormAxes()) {
    state.addL2(axes, a.getL2(axes) / least);
    state.addL1(axes, a.getL1(axes) / least);
  }
  state.round(query.getElement(), 1 + 0x1p-21);
  return state;
}

//===----------------------------------------------------------------------===//
// Selections
//===----------------------------------------------------------------------===//

/// Bounds a result whose elements each come from one of the operands.
static RangeState either(const RangeQuery &query, const RangeState &a,
                         const RangeState &b, double lo, double hi) {
  RangeState state = exact(query, lo, hi, a.nan || b.nan);
  for (AxisSet axes : unionOfAxes(a, b)) {
    state.addL2(axes, std::hypot(a.getL2(axes), b.getL2(axes)));
    state.addL1(axes, a.getL1(axes) + b.getL1(axes));
  }
  return state;
}

static RangeState select(const RangeQuery &query) {
  const RangeState &predicate = query[0], &a = query[1], &b = query[2];
  if (predicate.lo >= 1 || predicate.hi <= 0) {
    unsigned taken = predicate.lo >= 1 ? 1 : 2;
    RangeState state = query[taken];
    state.sources = uint64_t(1) << taken;
    return state;
  }
  return either(query, a, b, std::min(a.lo, b.lo), std::max(a.hi, b.hi));
}

static RangeState clamp(const RangeQuery &query) {
  const RangeState &min = query[0], &x = query[1], &max = query[2];
  double lo = std::min(std::max(x.lo, min.lo), max.lo);
  double hi = std::min(std::max(x.hi, min.hi), max.hi);
  RangeState state = exact(query, lo, hi, x.nan || min.nan || max.nan);
  // Clamping to an interval around zero only shrinks magnitudes.
  if (min.hi <= 0 && max.lo >= 0)
    for (AxisSet axes : x.getNormAxes()) {
      state.addL2(axes, x.getL2(axes));
      state.addL1(axes, x.getL1(axes));
    }
  return state;
}

static RangeState compare(const RangeQuery &query, hlo::CompareOp op) {
  const RangeState &a = query[0], &b = query[1];
  using Direction = hlo::ComparisonDirection;
  // A total order includes NaNs and distinguishes two zeros.
  if (op.getCompareType() == hlo::ComparisonType::TOTALORDER)
    return exact(query, 0, 1, false);
  // A comparison with NaN is false, except for `not equal`.
  auto decide = [&](bool always, bool never) {
    bool isTrue = always && !a.nan && !b.nan;
    return exact(query, isTrue ? 1 : 0, never ? 0 : 1, false);
  };
  switch (op.getComparisonDirection()) {
  case Direction::EQ:
    return decide(a.lo == a.hi && b.lo == b.hi && a.lo == b.lo,
                  a.hi < b.lo || b.hi < a.lo);
  case Direction::NE:
    return decide(a.hi < b.lo || b.hi < a.lo, false);
  case Direction::GE:
    return decide(a.lo >= b.hi, a.hi < b.lo);
  case Direction::GT:
    return decide(a.lo > b.hi, a.hi <= b.lo);
  case Direction::LE:
    return decide(a.hi <= b.lo, a.lo > b.hi);
  case Direction::LT:
    return decide(a.hi < b.lo, a.lo >= b.hi);
  }
  return RangeState::unknown(query.getType());
}

static RangeState power(const RangeQuery &query) {
  const RangeState &x = query[0], &y = query[1];
  if (!query.isFloat() || x.lo < 0 || !x.isBounded() || !y.isBounded() ||
      (x.lo == 0 && y.lo < 0)) {
    // An even constant power is not negative.
    RangeState state = RangeState::unknown(query.getType());
    if (query.isFloat() && y.lo == y.hi && std::fmod(y.lo, 2) == 0)
      state.lo = 0;
    return state;
  }
  double corners[] = {std::pow(x.lo, y.lo), std::pow(x.lo, y.hi),
                      std::pow(x.hi, y.lo), std::pow(x.hi, y.hi)};
  RangeState state = exact(query, *llvm::min_element(corners),
                           *llvm::max_element(corners), !allFinite(query));
  // Computed as exp(y log x), whose exponent, up to 89, is off by its own
  // units.
  state.round(query.getElement(), 1 + 0x1p-14);
  return state;
}

static RangeState remainder(const RangeQuery &query) {
  const RangeState &a = query[0], &b = query[1];
  double most = std::min(a.maxAbs(), b.maxAbs());
  bool isSafe = query.isFloat() || b.lo > 0;
  if (!isSafe)
    return RangeState::unknown(query.getType());
  bool nan = query.isFloat() && (!allFinite(query) || (b.lo <= 0 && b.hi >= 0));
  return exact(query, a.lo < 0 ? -most : 0, a.hi > 0 ? most : 0, nan);
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

MaybeRange scalify::transferElementwise(const RangeQuery &query) {
  if (query.operands.size() < 2)
    return std::nullopt;
  const RangeState &a = query[0], &b = query[1];
  return llvm::TypeSwitch<Operation *, MaybeRange>(query.op)
      .Case<hlo::AddOp>([&](auto) { return sum(query, /*negate=*/false); })
      .Case<hlo::Atan2Op>([&](auto) { return rounded(query, -M_PI, M_PI); })
      .Case<hlo::ClampOp>([&](auto) { return clamp(query); })
      .Case<hlo::CompareOp>([&](auto op) { return compare(query, op); })
      .Case<hlo::DivOp>([&](auto) { return divide(query); })
      .Case<hlo::MaxOp>([&](auto) {
        return either(query, a, b, std::max(a.lo, b.lo), std::max(a.hi, b.hi));
      })
      .Case<hlo::MinOp>([&](auto) {
        return either(query, a, b, std::min(a.lo, b.lo), std::min(a.hi, b.hi));
      })
      .Case<hlo::MulOp>([&](auto) { return multiply(query); })
      .Case<hlo::PowOp>([&](auto) { return power(query); })
      .Case<hlo::RemOp>([&](auto) { return remainder(query); })
      .Case<hlo::SelectOp>([&](auto) { return select(query); })
      .Case<hlo::SubtractOp>([&](auto) { return sum(query, /*negate=*/true); })
      .Default([](Operation *) { return std::nullopt; });
}
