//===- Functions.cpp - Bounds of functions of one operand -----------------===//

#include "Transfer.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

static constexpr double kInf = std::numeric_limits<double>::infinity();

/// Keeps the operand's norms, for a function that does not grow magnitudes.
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

/// Bounds a monotonic function.
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
  // Some targets clamp the argument: results stay above zero or overflow early.
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
  // Near 1 the relative error of the argument is an absolute error of the log.
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
  // The 2-norm of the roots is the root of the 1-norm.
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

/// Floor and the like move values by less than one, and keep integers.
static RangeState boundIntegerRounding(const RangeQuery &query,
                                       double (*f)(double)) {
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
  // A float that is NaN or too large may become any integer.
  return RangeState::unknown(query.getType());
}

static unsigned getExponentBits(Type element) {
  auto type = cast<FloatType>(element);
  return type.getWidth() - type.getFPMantissaWidth();
}

MaybeRange scalify::transferUnary(const RangeQuery &query) {
  if (query.operands.size() != 1)
    return std::nullopt;
  const RangeState &x = query[0];
  double lo = x.lo, hi = x.hi;
  return llvm::TypeSwitch<Operation *, MaybeRange>(query.op)
      .Case<hlo::AbsOp>([&](auto) { return absolute(query); })
      .Case<hlo::CbrtOp>([&](auto) {
        return monotonic(query, [](double v) { return std::cbrt(v); });
      })
      .Case<hlo::CeilOp>(
          [&](auto) { return boundIntegerRounding(query, std::ceil); })
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
      .Case<hlo::FloorOp>(
          [&](auto) { return boundIntegerRounding(query, std::floor); })
      .Case<hlo::IsFiniteOp>(
          [&](auto) { return exact(query, x.isFinite() ? 1 : 0, 1, false); })
      .Case<hlo::Log1pOp>([&](auto) { return logarithm(query, 1); })
      .Case<hlo::LogOp>([&](auto) { return logarithm(query, 0); })
      .Case<hlo::LogisticOp>([&](auto) {
        auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
        RangeState state = monotonic(query, sigmoid);
        // Computed from tanh, the error is relative to one, not to the result.
        state.lo = std::max(0.0, state.lo - 0x1p-20);
        state.hi += 0x1p-20;
        state.peak.reset();
        return state;
      })
      .Case<hlo::NegOp>([&](auto) { return negate(query); })
      .Case<hlo::ReducePrecisionOp>([&](hlo::ReducePrecisionOp op) {
        double step = std::ldexp(1.0, -int(op.getMantissaBits()) - 1);
        RangeState state = x;
        state.peak.reset();
        state.sources = ~uint64_t(0);
        state.round(query.getElement(), 1 + step);
        // Fewer exponent bits overflow earlier, and may round small values up.
        if (op.getExponentBits() < getExponentBits(query.getElement())) {
          state = RangeState::unknown(query.getType());
          state.nan = x.nan;
        }
        return state;
      })
      .Case<hlo::RoundNearestEvenOp>(
          [&](auto) { return boundIntegerRounding(query, std::nearbyint); })
      .Case<hlo::RoundOp>(
          [&](auto) { return boundIntegerRounding(query, std::round); })
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
