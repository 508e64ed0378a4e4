//===- Elementwise.cpp - Bounds through elementwise ops -------------------===//

#include "Transfer.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

static constexpr double kInf = std::numeric_limits<double>::infinity();

/// What targets may flush to zero counts as zero.
static double flushed(const RangeQuery &query, double x) {
  return std::fabs(x) < Rounding::of(query.getElement()).normal ? 0 : x;
}

static bool allFinite(const RangeQuery &query) {
  return llvm::all_of(query.operands,
                      [](const RangeState *s) { return s->isFinite(); });
}

/// An interval that is rounded once; NaN only where an operand is not finite.
static RangeState rounded(const RangeQuery &query, double lo, double hi) {
  RangeState state =
      RangeState::interval(query.getType(), lo, hi, !allFinite(query));
  state.round(query.getElement());
  return state;
}

/// An exact interval.
static RangeState exact(const RangeQuery &query, double lo, double hi,
                        bool nan) {
  return RangeState::interval(query.getType(), lo, hi, nan);
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

/// a + b, or a - b. Where no product a_i * b_i helps the sum, that is where
/// their signs oppose, the squares of the norms add: one-hot minus
/// probabilities has norm sqrt(2), not 2.
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

static void hullOfProducts(const RangeState &a, const RangeState &b, double &lo,
                           double &hi) {
  double corners[] = {product(a.lo, b.lo), product(a.lo, b.hi),
                      product(a.hi, b.lo), product(a.hi, b.hi)};
  lo = *llvm::min_element(corners);
  hi = *llvm::max_element(corners);
}

static RangeState multiply(const RangeQuery &query) {
  const RangeState &a = query[0], &b = query[1];
  double lo, hi;
  hullOfProducts(a, b, lo, hi);
  bool isSquare = query.op->getOperand(0) == query.op->getOperand(1);
  if (isSquare)
    lo = a.lo >= 0 ? product(a.lo, a.lo) : a.hi <= 0 ? product(a.hi, a.hi) : 0;
  RangeState state =
      RangeState::interval(query.getType(), lo, hi, !allFinite(query));
  if (!query.isFloat())
    return state;
  // The square of what is not NaN is not NaN.
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
    // The quotient is no larger than the dividend; a division by zero and
    // that of the lowest integer by -1 are only known to be of the type.
    bool isSafe = b.lo > 0;
    return isSafe
               ? exact(query, std::min(a.lo, 0.0), std::max(a.hi, 0.0), false)
               : RangeState::unknown(query.getType());
  }
  double least = flushed(query, b.lo > 0 ? b.lo : b.hi < 0 ? -b.hi : 0);
  // Not even a sign is known: the zero may be a negative one.
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

/// Each element is one of the operands': what holds of both.
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
  // An interval around zero only shrinks magnitudes.
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
  // A total order has NaNs and two zeros in it.
  if (op.getCompareType() == hlo::ComparisonType::TOTALORDER)
    return exact(query, 0, 1, false);
  // A comparison with NaN is false, but for `not equal`.
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

//===----------------------------------------------------------------------===//
// Functions of one operand
//===----------------------------------------------------------------------===//

/// The operand's norms, where the function does not grow magnitudes.
static RangeState shrinking(const RangeQuery &query, double lo, double hi) {
  const RangeState &x = query[0];
  RangeState state = exact(query, lo, hi, x.nan);
  if (query.isFloat())
    for (AxisSet axes : x.getNormAxes()) {
      state.addL2(axes, x.getL2(axes));
      state.addL1(axes, x.getL1(axes));
    }
  state.round(query.getElement());
  return state;
}

/// A monotonic function.
static RangeState monotonic(const RangeQuery &query,
                            llvm::function_ref<double(double)> f) {
  const RangeState &x = query[0];
  RangeState state = exact(query, f(x.lo), f(x.hi), x.nan);
  if (x.peak)
    state.peak = NormBound{x.peak->axes, f(x.peak->bound)};
  state.round(query.getElement());
  return state;
}

static RangeState exponential(const RangeQuery &query) {
  RangeState state = monotonic(query, [](double x) { return std::exp(x); });
  // Arguments of large magnitude lose digits in range reduction.
  state.round(query.getElement(), 1 + 0x1p-18);
  state.lo = std::max(state.lo, 0.0);
  // Some clamp the argument: the result then ends above zero, or early.
  state.hi += 0x1p-120;
  if (state.hi > Rounding::of(query.getElement()).largest / 4)
    state.hi = kInf;
  return state;
}

static RangeState logarithm(const RangeQuery &query, double offset) {
  const RangeState &x = query[0];
  double lo = flushed(query, x.lo + offset), hi = x.hi + offset;
  RangeState state =
      exact(query, lo <= 0 ? -kInf : std::log(lo),
            hi <= 0 ? -kInf : std::log(hi), x.nan || x.lo + offset < 0);
  state.round(query.getElement());
  // Near 1 the relative error of log is that of its argument, absolute.
  state.lo -= 0x1p-20;
  state.hi += 0x1p-20;
  return state;
}

static RangeState squareRoot(const RangeQuery &query, bool isInverse) {
  const RangeState &x = query[0];
  double lo = std::sqrt(flushed(query, std::max(x.lo, 0.0)));
  double hi = std::sqrt(std::max(x.hi, 0.0));
  // The inverse root of zero is infinite, with the sign of the zero.
  if (isInverse)
    std::tie(lo, hi) =
        lo == 0 ? std::make_pair(-kInf, kInf) : std::make_pair(1 / hi, 1 / lo);
  RangeState state = exact(query, lo, hi, x.nan || x.lo < 0);
  // sqrt of a sum is at most the sum of the square roots.
  if (!isInverse)
    for (AxisSet axes : x.getNormAxes())
      state.addL2(axes, std::sqrt(x.getL1(axes)));
  state.round(query.getElement());
  return state;
}

static RangeState absolute(const RangeQuery &query) {
  const RangeState &x = query[0];
  double lo = x.lo >= 0 ? x.lo : x.hi <= 0 ? -x.hi : 0;
  RangeState state = exact(query, lo, x.maxAbs(), x.nan);
  state.l2 = x.l2;
  state.l1 = x.l1;
  return state;
}

static RangeState negate(const RangeQuery &query) {
  const RangeState &x = query[0];
  RangeState state = exact(query, -x.hi, -x.lo, x.nan);
  if (query.isFloat()) {
    state.l2 = x.l2;
    state.l1 = x.l1;
  }
  return state;
}

/// Floor and its kin move by less than one, and round integers to themselves.
static RangeState toWhole(const RangeQuery &query, double (*f)(double)) {
  const RangeState &x = query[0];
  return exact(query, f(x.lo), f(x.hi), x.nan);
}

static RangeState periodic(const RangeQuery &query) {
  RangeState state = exact(query, -1, 1, !query[0].isFinite());
  state.round(query.getElement());
  return state;
}

static RangeState convert(const RangeQuery &query) {
  const RangeState &x = query[0];
  Type from =
      cast<ShapedType>(query.op->getOperand(0).getType()).getElementType();
  if (isa<FloatType>(from) && query.isFloat()) {
    RangeState state = x;
    state.sources = ~uint64_t(0);
    if (from != query.getElement() &&
        cast<FloatType>(from).getWidth() >=
            cast<FloatType>(query.getElement()).getWidth())
      state.round(query.getElement());
    state.clampToType(query.getElement());
    return state;
  }
  if (isa<IntegerType>(from) && query.isFloat()) {
    RangeState state = exact(query, x.lo, x.hi, false);
    state.round(query.getElement());
    return state;
  }
  if (isa<IntegerType>(from) && isa<IntegerType>(query.getElement())) {
    if (query.getElement().isInteger(1))
      return exact(query, x.lo > 0 || x.hi < 0, x.lo != 0 || x.hi != 0, false);
    return exact(query, x.lo, x.hi, false);
  }
  // A float that is NaN or too large becomes any integer.
  return RangeState::unknown(query.getType());
}

/// Positive floats are ordered as their bits are.
static RangeState fromBits(const RangeQuery &query) {
  const RangeState &x = query[0];
  bool isPlain = query.getElement().isF32() &&
                 cast<ShapedType>(query.op->getOperand(0).getType())
                     .getElementType()
                     .isInteger(32);
  if (!isPlain || x.lo < 0 || x.hi > 0x7f7fffff)
    return RangeState::unknown(query.getType());
  auto asFloat = [](double bits) {
    auto word = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &word, sizeof(value));
    return value;
  };
  return exact(query, asFloat(x.lo), asFloat(x.hi), false);
}

static RangeState power(const RangeQuery &query) {
  const RangeState &x = query[0], &y = query[1];
  if (!query.isFloat() || x.lo < 0 || !x.isBounded() || !y.isBounded() ||
      (x.lo == 0 && y.lo < 0)) {
    // Of an even constant power the sign is known.
    RangeState state = RangeState::unknown(query.getType());
    if (query.isFloat() && y.lo == y.hi && std::fmod(y.lo, 2) == 0)
      state.lo = 0;
    return state;
  }
  double corners[] = {std::pow(x.lo, y.lo), std::pow(x.lo, y.hi),
                      std::pow(x.hi, y.lo), std::pow(x.hi, y.hi)};
  RangeState state = exact(query, *llvm::min_element(corners),
                           *llvm::max_element(corners), !allFinite(query));
  // As exp(y log x): units of the exponent, which is up to 89.
  state.round(query.getElement(), 1 + 0x1p-14);
  return state;
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

/// The least 2^k - 1 that is not below `x`.
static double onesAbove(double x) {
  double ones = 0;
  while (ones < x)
    ones = 2 * ones + 1;
  return ones;
}

static RangeState bitwise(const RangeQuery &query, bool isAnd) {
  const RangeState &a = query[0], &b = query[1];
  if (a.lo < 0 || b.lo < 0)
    return RangeState::unknown(query.getType());
  if (isAnd) {
    bool isTrue = query.getElement().isInteger(1) && a.lo >= 1 && b.lo >= 1;
    return exact(query, isTrue ? 1 : 0, std::min(a.hi, b.hi), false);
  }
  double lo = isa<hlo::OrOp>(query.op) ? std::max(a.lo, b.lo) : 0;
  // A constant whose low bits are free adds: exponent bits onto a mantissa.
  for (auto [x, c] : {std::make_pair(&a, &b), std::make_pair(&b, &a)})
    if (c->lo == c->hi && std::fmod(c->lo, onesAbove(x->hi) + 1) == 0)
      return exact(query, c->lo + x->lo, c->lo + x->hi, false);
  return exact(query, lo, onesAbove(std::max(a.hi, b.hi)), false);
}

static RangeState shiftRight(const RangeQuery &query) {
  const RangeState &x = query[0], &by = query[1];
  auto type = cast<IntegerType>(query.getElement());
  bool isLogical = isa<hlo::ShiftRightLogicalOp>(query.op);
  double hi = x.hi;
  if (x.lo < 0)
    hi = isLogical ? std::ldexp(1.0, type.getWidth()) - 1 : -1;
  bool isConstant = by.lo == by.hi && by.lo >= 0 && by.lo < type.getWidth();
  if (!isConstant || (x.lo < 0 && (!isLogical || by.lo == 0)))
    return x.lo >= 0 && by.lo >= 0 ? exact(query, 0, x.hi, false)
                                   : RangeState::unknown(query.getType());
  return exact(query, 0, std::floor(std::ldexp(hi, -static_cast<int>(by.lo))),
               false);
}

static RangeState logicalNot(const RangeQuery &query) {
  if (!query.getElement().isInteger(1))
    return RangeState::unknown(query.getType());
  return exact(query, 1 - query[0].hi, 1 - query[0].lo, false);
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

static unsigned getExponentBits(Type element) {
  auto type = cast<FloatType>(element);
  return type.getWidth() - type.getFPMantissaWidth();
}

static MaybeRange transferUnary(const RangeQuery &query) {
  const RangeState &x = query[0];
  double lo = x.lo, hi = x.hi;
  return llvm::TypeSwitch<Operation *, MaybeRange>(query.op)
      .Case<hlo::AbsOp>([&](auto) { return absolute(query); })
      .Case<hlo::BitcastConvertOp>([&](auto) { return fromBits(query); })
      .Case<hlo::CbrtOp>([&](auto) {
        return monotonic(query, [](double v) { return std::cbrt(v); });
      })
      .Case<hlo::CeilOp>([&](auto) { return toWhole(query, std::ceil); })
      .Case<hlo::ConvertOp>([&](auto) { return convert(query); })
      .Case<hlo::CosineOp, hlo::SineOp>([&](auto) { return periodic(query); })
      .Case<hlo::ExpOp>([&](auto) { return exponential(query); })
      .Case<hlo::Expm1Op>([&](auto) {
        RangeState state =
            monotonic(query, [](double v) { return std::expm1(v); });
        state.lo -= 0x1p-20;
        state.hi += 0x1p-20;
        if (state.hi > Rounding::of(query.getElement()).largest / 4)
          state.hi = kInf;
        return state;
      })
      .Case<hlo::FloorOp>([&](auto) { return toWhole(query, std::floor); })
      .Case<hlo::IsFiniteOp>(
          [&](auto) { return exact(query, x.isFinite() ? 1 : 0, 1, false); })
      .Case<hlo::Log1pOp>([&](auto) { return logarithm(query, 1); })
      .Case<hlo::LogOp>([&](auto) { return logarithm(query, 0); })
      .Case<hlo::LogisticOp>([&](auto) {
        auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
        RangeState state = monotonic(query, sigmoid);
        // Computed from tanh it is off by units of one, not of itself.
        state.lo = std::max(0.0, state.lo - 0x1p-20);
        state.hi += 0x1p-20;
        state.peak.reset();
        return state;
      })
      .Case<hlo::NegOp>([&](auto) { return negate(query); })
      .Case<hlo::NotOp>([&](auto) { return logicalNot(query); })
      .Case<hlo::ReducePrecisionOp>([&](hlo::ReducePrecisionOp op) {
        double step = std::ldexp(1.0, -int(op.getMantissaBits()) - 1);
        RangeState state = x;
        state.peak.reset();
        state.sources = ~uint64_t(0);
        state.round(query.getElement(), 1 + step);
        // Fewer exponent bits overflow earlier, and round up what is small.
        if (op.getExponentBits() < getExponentBits(query.getElement())) {
          state = RangeState::unknown(query.getType());
          state.nan = x.nan;
        }
        return state;
      })
      .Case<hlo::RoundNearestEvenOp>(
          [&](auto) { return toWhole(query, std::nearbyint); })
      .Case<hlo::RoundOp>([&](auto) { return toWhole(query, std::round); })
      .Case<hlo::RsqrtOp>([&](auto) { return squareRoot(query, true); })
      .Case<hlo::SignOp>([&](auto) {
        return exact(query,
                     lo > 0   ? 1
                     : lo < 0 ? -1
                              : 0,
                     hi > 0   ? 1
                     : hi < 0 ? -1
                              : 0,
                     x.nan);
      })
      .Case<hlo::SqrtOp>([&](auto) { return squareRoot(query, false); })
      .Case<hlo::TanhOp>(
          [&](auto) { return shrinking(query, std::tanh(lo), std::tanh(hi)); })
      .Default([](Operation *) { return std::nullopt; });
}

MaybeRange scalify::transferElementwise(const RangeQuery &query) {
  if (query.operands.size() == 1)
    return transferUnary(query);
  if (query.operands.size() < 2)
    return std::nullopt;
  const RangeState &a = query[0], &b = query[1];
  return llvm::TypeSwitch<Operation *, MaybeRange>(query.op)
      .Case<hlo::AddOp>([&](auto) { return sum(query, /*negate=*/false); })
      .Case<hlo::AndOp>([&](auto) { return bitwise(query, /*isAnd=*/true); })
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
      .Case<hlo::OrOp, hlo::XorOp>(
          [&](auto) { return bitwise(query, /*isAnd=*/false); })
      .Case<hlo::PowOp>([&](auto) { return power(query); })
      .Case<hlo::RemOp>([&](auto) { return remainder(query); })
      .Case<hlo::SelectOp>([&](auto) { return select(query); })
      .Case<hlo::ShiftRightLogicalOp, hlo::ShiftRightArithmeticOp>(
          [&](auto) { return shiftRight(query); })
      .Case<hlo::SubtractOp>([&](auto) { return sum(query, /*negate=*/true); })
      .Default([](Operation *) { return std::nullopt; });
}
