//===- Functions.cpp - Rules of elementwise functions ---------------------===//

#include "scalify/Scaling/Rules.h"

#include "Maxima.h"
#include "Moments.h"
#include "Ramps.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Idioms/Idioms.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

static void exponentialFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  if (isa<ComplexType>(cast<ShapedType>(query.op->getResult(0).getType())
                           .getElementType())) {
    // A decay and an angle: on the unit circle, near 1 if both are small.
    double near = std::exp(-0.5 * x.rms * x.rms);
    out[0] = ScaleFacts::moments(near, 1 - near * near);
    out[0].rule = "exponential: unit circle";
    return;
  }
  if (x.constant) {
    out[0] = ScaleFacts::constantOf(
        static_cast<double>(std::exp(static_cast<float>(*x.constant))));
    out[0].rule = "exponential of a constant";
    return;
  }
  if (auto below = getMaxDifferenceExpFacts(
          query, query.op->getOperand(0).getDefiningOp())) {
    out[0] = *below;
    return;
  }
  out[0] = exponentialOf(x);
  // The argument of a decay is nowhere positive, so no tail lifts its mean, as
  // that of a normal would. Below a maximum most values are near it.
  if (x.sign == Sign::NonPositive && x.mean < 0 && x.density == 1 &&
      !x.masked &&
      !idioms::matchMaxSubtraction(query.op->getOperand(0),
                                   MatchFor::Estimate)) {
    ScaleFacts decay =
        functionOf(x, [](double value) { return std::exp(value); });
    decay.bound = 1;
    decay.sign = Sign::NonNegative;
    out[0] = decay;
  }
  out[0].rule = "exponential: log-normal, non-negative";
}

/// exp(x) - 1, which is x for small x.
static void expm1Facts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  ScaleFacts exponential = exponentialOf(x);
  out[0] = x.rms < 0.5 ? x
                       : ScaleFacts::moments(exponential.mean - 1,
                                             exponential.variance());
  out[0].bound = exponential.bound + 1;
  out[0].sign = x.sign;
  out[0].constant.reset();
  out[0].masked = out[0].indicator = out[0].scaleByBound = false;
  out[0].density = 1.0;
  out[0].rule = "exponential_minus_one";
}

static void logFacts(const FactsQuery &query, Results out) {
  out[0] = logarithmOf(query.operand(0));
  out[0].rule = "log";
}

/// log(1 + x), which is x for small x.
static void log1pFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  if (x.rms < 0.5) {
    out[0] = x;
    out[0].constant.reset();
    out[0].masked = out[0].indicator = out[0].scaleByBound = false;
  } else {
    ScaleFacts shifted = x;
    shifted.mean = std::fabs(x.mean) + 1;
    shifted.rms = std::sqrt(shifted.mean * shifted.mean + x.variance());
    out[0] = logarithmOf(shifted);
    out[0].sign = x.sign;
  }
  out[0].bound = std::isfinite(x.bound) && x.sign == Sign::NonNegative
                     ? std::log1p(x.bound)
                     : std::numeric_limits<double>::infinity();
  out[0].rule = "log_plus_one";
}

template <int Numerator, int Denominator>
static void rootFacts(const FactsQuery &query, Results out) {
  double power = static_cast<double>(Numerator) / Denominator;
  out[0] = powerOf(query.operand(0), power);
  applyRampsToProduct(ScaleFacts(), query.operand(0), power, out[0]);
  if (Denominator == 3) {
    // The cube root is odd.
    out[0].sign = query.operand(0).sign;
    if (query.operand(0).sign == Sign::Any)
      out[0].mean = 0;
  }
  out[0].rule = shortName(query.op) + " of the mean";
}

static void powerFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &base = query.operand(0), &exponent = query.operand(1);
  if (base.constant && *base.constant > 0) {
    // c^x with an exponent x of known range, as in RoPE's frequencies.
    ScaleFacts inner = exponent;
    inner.mean *= std::log(*base.constant);
    inner.rms *= std::fabs(std::log(*base.constant));
    inner.bound = std::numeric_limits<double>::infinity();
    if (std::isfinite(exponent.bound))
      inner.bound = exponent.bound * std::fabs(std::log(*base.constant));
    inner.sign = *base.constant < 1 ? flip(exponent.sign) : exponent.sign;
    out[0] = exponentialOf(inner);
  } else if (exponent.constant) {
    out[0] = powerOf(base, *exponent.constant);
    applyRampsToProduct(ScaleFacts(), base, *exponent.constant, out[0]);
  } else {
    out[0] = ScaleFacts::moments(base.mean, base.variance());
    if (base.sign == Sign::NonNegative)
      out[0].sign = base.sign;
    out[0].masked = base.masked;
  }
  out[0].rule = "power";
}

/// tanh, sine, logistic and the like: never above 1.
static void boundedFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  bool isWave = isa<stablehlo::CosineOp, stablehlo::SineOp>(query.op);
  if (isWave && x.variance() > 4) {
    // Many periods: the phase is uniform.
    out[0] = ScaleFacts::moments(0, 0.5);
  } else if (isa<stablehlo::CosineOp>(query.op)) {
    out[0] = functionOf(x, [](double t) { return std::cos(t); });
  } else if (isa<stablehlo::SineOp>(query.op)) {
    out[0] = functionOf(x, [](double t) { return std::sin(t); });
  } else if (isa<stablehlo::LogisticOp>(query.op)) {
    out[0] = functionOf(x, [](double t) { return 1 / (1 + std::exp(-t)); });
    out[0].sign = Sign::NonNegative;
  } else {
    out[0] = functionOf(x, [](double t) { return std::tanh(t); });
    out[0].sign = x.sign;
  }
  out[0].bound = 1.0;
  out[0].rule = shortName(query.op) + ": bounded by 1";
}

/// tan is linear up to its poles; beyond, no moment exists.
static void tangentFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  out[0] = ScaleFacts::moments(0, x.rms < 1 ? x.rms * x.rms : 4.0);
  out[0].rule = "tan";
}

static void atan2Facts(const FactsQuery &query, Results out) {
  const ScaleFacts &y = query.operand(0), &x = query.operand(1);
  double ratio = x.rms > 0 ? y.rms / x.rms : 1.0;
  // A positive x keeps the angle within a quarter turn.
  bool isRight = x.sign == Sign::NonNegative;
  double rms = isRight ? std::min(ratio, 1.0) : M_PI / std::sqrt(3.0);
  out[0] = ScaleFacts::moments(0, rms * rms);
  out[0].bound = isRight ? M_PI / 2 : M_PI;
  out[0].sign = y.sign;
  out[0].rule = "atan2: bounded by pi";
}

static void signFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  double mean = 0;
  if (x.sign != Sign::Any)
    mean = x.sign == Sign::NonNegative ? 1 : -1;
  out[0] = ScaleFacts::moments(mean, 1 - mean * mean);
  out[0].sign = x.sign;
  out[0].bound = 1.0;
  out[0].rule = "sign";
}

static void roundFacts(const FactsQuery &query, Results out) {
  out[0] = query.operand(0);
  out[0].constant.reset();
  out[0].bound += 1;
  out[0].scaleByBound = false;
  if (isa<stablehlo::FloorOp>(query.op) && out[0].sign == Sign::NonPositive)
    out[0].rms = std::max(out[0].rms, 0.5);
  out[0].rule = shortName(query.op);
}

void scalify::attachFunctionRules(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<ScaleFamily::True, exponentialFacts, ExpOp>(context);
  attachRule<ScaleFamily::True, expm1Facts, Expm1Op>(context);
  attachRule<ScaleFamily::True, logFacts, LogOp>(context);
  attachRule<ScaleFamily::True, log1pFacts, Log1pOp>(context);
  attachRule<ScaleFamily::True, rootFacts<1, 2>, SqrtOp>(context);
  attachRule<ScaleFamily::True, rootFacts<-1, 2>, RsqrtOp>(context);
  attachRule<ScaleFamily::True, rootFacts<1, 3>, CbrtOp>(context);
  attachRule<ScaleFamily::True, powerFacts, PowOp>(context);
  attachRule<ScaleFamily::True, boundedFacts, CosineOp, SineOp, TanhOp,
             LogisticOp>(context);
  attachRule<ScaleFamily::True, tangentFacts, TanOp>(context);
  attachRule<ScaleFamily::True, atan2Facts, Atan2Op>(context);
  attachRule<ScaleFamily::True, signFacts, SignOp>(context);
  attachRule<ScaleFamily::True, roundFacts, FloorOp, CeilOp, RoundOp,
             RoundNearestEvenOp>(context);
}
