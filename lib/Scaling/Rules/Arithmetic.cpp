//===- Arithmetic.cpp - Rules of sums, products and extrema ---------------===//

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

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

static void addFacts(const FactsQuery &query, Results out) {
  bool subtract = isa<stablehlo::SubtractOp>(query.op);
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  double sign = subtract ? -1.0 : 1.0;
  if (isAbsorbedBy(b, a) || isAbsorbedBy(a, b)) {
    out[0] = ScaleFacts::constantOf(isAbsorbedBy(b, a) ? *a.constant
                                                       : sign * *b.constant);
    out[0].rule = "sum: a constant absorbs the rest";
    return;
  }
  if (auto below = getMaxDifferenceFacts(query, query.op)) {
    out[0] = *below;
    return;
  }
  out[0].rule = "sum: variances add";
  if (query.op->getOperand(0) == query.op->getOperand(1) && !subtract) {
    // x + x is 2x: its terms are not independent.
    out[0] = a;
    out[0].mean *= 2;
    out[0].rms *= 2;
    out[0].bound *= 2;
    if (a.constant)
      out[0].constant = 2 * *a.constant;
    out[0].indicator = false;
    out[0].rule = "sum: twice one value";
    return;
  }
  out[0] =
      ScaleFacts::moments(a.mean + sign * b.mean, a.variance() + b.variance());
  out[0].bound = a.bound + b.bound;
  out[0].density = std::min(a.density, b.density);
  Sign other = subtract ? flip(b.sign) : b.sign;
  out[0].sign = a.sign == other ? a.sign : Sign::Any;
  if (a.anyScale && !a.masked)
    out[0].sign = other;
  else if (b.anyScale && !b.masked)
    out[0].sign = a.sign;
  out[0].anyScale = a.anyScale && b.anyScale;
  out[0].masked = a.masked || b.masked;
  out[0].ramp = rampOfSum(a, b);
  // One-hot minus probabilities keeps the heavy tail of its parts.
  out[0].scaleByBound = a.scaleByBound && b.scaleByBound;
  // 1 - mask is a mask.
  out[0].indicator = subtract && a.constant == 1.0 && b.indicator;
  if (out[0].indicator) {
    out[0].bound = 1.0;
    out[0].sign = Sign::NonNegative;
  }
  if (idioms::matchMaxSubtraction(query.op->getResult(0), MatchFor::Estimate))
    out[0].sign = Sign::NonPositive;
  if (subtract &&
      idioms::isMeanOf(query.op->getOperand(1), query.op->getOperand(0)))
    out[0].mean = 0;
  out[0].rule = "sum: variances add";
}

/// Gives x the moments of limit(x), for constant limits.
static void limitMoments(ScaleFacts &x, function_ref<double(double)> limit) {
  if (x.masked || x.scaleByBound || x.constant || x.anyScale)
    return;
  ScaleFacts whole = functionOf(x, [](double t) { return t; });
  ScaleFacts cut = functionOf(x, limit);
  // If the limits cut nothing off, the moments before are more precise.
  if (std::fabs(cut.rms - whole.rms) < 0.01 * whole.rms &&
      std::fabs(cut.mean - whole.mean) < 0.01 * whole.rms)
    return;
  x.rms = cut.rms;
  x.mean = cut.mean;
}

static void extremumFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  bool isMax = isa<stablehlo::MaxOp>(query.op);
  // Of two constants, the one that sets a scale is the data.
  bool isLimitFirst = a.constant && !(b.constant && b.anyScale);
  const ScaleFacts &data = isLimitFirst ? b : a;
  const ScaleFacts &limit = isLimitFirst ? a : b;
  Sign pinned = isMax ? Sign::NonNegative : Sign::NonPositive;
  if (limit.constant && *limit.constant == 0 && data.sign == flip(pinned)) {
    out[0] = ScaleFacts::constantOf(0);
  } else if (limit.constant && *limit.constant == 0 && data.sign == Sign::Any) {
    // A rectified zero-mean normal: half its second moment.
    double mean =
        (isMax ? 1 : -1) * (data.rms / std::sqrt(2 * M_PI)) + 0.5 * data.mean;
    out[0] = ScaleFacts::moments(mean, 0.5 * data.rms * data.rms - mean * mean);
    if (std::fabs(data.mean) > 0.25 * data.rms) {
      out[0] = functionOf(data, [&](double t) {
        return isMax ? std::max(t, 0.0) : std::min(t, 0.0);
      });
      // Data far beyond the limit still has a tail.
      out[0].rms = std::max(out[0].rms, 0x1p-10 * data.rms);
    }
    out[0].bound = data.bound;
    out[0].sign = isMax ? Sign::NonNegative : Sign::NonPositive;
  } else if (limit.anyScale || limit.constant) {
    out[0] = data;
    double c = limit.constant.value_or(0);
    if (std::isfinite(c) && !limit.anyScale)
      limitMoments(out[0], [&](double t) {
        return isMax ? std::max(t, c) : std::min(t, c);
      });
    if (std::isfinite(c) && (isMax ? c > 0 : c < 0)) {
      // No element is nearer to zero than the limit.
      out[0].bound = std::max(data.bound, std::fabs(c));
      out[0].rms = std::max(out[0].rms, std::fabs(c));
      out[0].mean = isMax ? std::max(out[0].mean, c) : std::min(out[0].mean, c);
      out[0].anyScale = false;
    }
  } else {
    out[0] = a.rms > b.rms ? a : b;
    out[0].bound = std::max(a.bound, b.bound);
    out[0].sign = a.sign == b.sign ? a.sign : Sign::Any;
    out[0].scaleByBound = a.scaleByBound && b.scaleByBound;
  }
  if (a.sign == pinned || b.sign == pinned)
    out[0].sign = pinned;
  out[0].masked = a.masked || b.masked;
  out[0].indicator = a.indicator && b.indicator;
  out[0].constant.reset();
  out[0].rule = isMax ? "maximum" : "minimum";
}

static void clampFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &lo = query.operand(0), &hi = query.operand(2);
  out[0] = query.operand(1);
  if (lo.constant && hi.constant)
    limitMoments(out[0], [&](double t) {
      return std::min(std::max(t, *lo.constant), *hi.constant);
    });
  out[0].constant.reset();
  // A limit that excludes zero moves elements away from zero.
  double up = lo.constant ? std::max(*lo.constant, 0.0) : lo.bound;
  double down = hi.constant ? std::max(-*hi.constant, 0.0) : hi.bound;
  out[0].bound = std::max({out[0].bound, up, down});
  if (lo.constant && hi.constant)
    out[0].bound = std::min(out[0].bound, std::max(std::fabs(*lo.constant),
                                                   std::fabs(*hi.constant)));
  bool staysAbove = hi.constant || hi.sign == Sign::NonNegative;
  bool staysBelow = lo.constant || lo.sign == Sign::NonPositive;
  if (lo.constant && *lo.constant >= 0)
    out[0].sign = Sign::NonNegative;
  else if (hi.constant && *hi.constant <= 0)
    out[0].sign = Sign::NonPositive;
  else if (out[0].sign == Sign::NonNegative ? !staysAbove : !staysBelow)
    out[0].sign = Sign::Any;
  if (lo.constant && hi.constant)
    out[0].rms = std::max({out[0].rms, up, down});
  out[0].rms = std::min(out[0].rms, out[0].bound);
  out[0].mean = std::clamp(out[0].mean, -out[0].rms, out[0].rms);
  out[0].rule = "clamp";
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// A constant times a value: every fact scales.
static ScaleFacts scaledBy(const ScaleFacts &x, double factor) {
  ScaleFacts facts = x;
  facts.mean *= factor;
  facts.rms *= std::fabs(factor);
  facts.bound *= std::fabs(factor);
  facts.sign = factor < 0 ? flip(x.sign) : x.sign;
  if (x.constant)
    facts.constant = *x.constant * factor;
  facts.indicator = false;
  return facts;
}

/// (1 - mask) * -1e9: zeros, and a masking constant in a share of `mean`.
static bool isAdditiveMask(const ScaleFacts &mask, const ScaleFacts &factor) {
  return mask.indicator && isMaskingConstant(factor, mask);
}

static ScaleFacts additiveMask(double masked) {
  ScaleFacts facts = ScaleFacts::constantOf(0);
  facts.constant.reset();
  facts.masked = true;
  facts.density = 1 - masked;
  facts.bound = std::numeric_limits<double>::infinity();
  return facts;
}

static ScaleFacts productOf(const ScaleFacts &a, const ScaleFacts &b) {
  double mean = a.mean * b.mean;
  ScaleFacts facts =
      ScaleFacts::moments(mean, a.rms * a.rms * b.rms * b.rms - mean * mean);
  facts.bound = boundOfProduct(a.bound, b.bound);
  facts.sign = signOfProduct(a.sign, b.sign);
  facts.masked = a.masked || b.masked;
  facts.density = std::min(a.density, b.density);
  facts.indicator = a.indicator && b.indicator;
  return facts;
}

static void multiplyFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  if (query.op->getOperand(0) == query.op->getOperand(1)) {
    out[0] = squareFacts(a);
    out[0].ramp = powerOfRamp(a.ramp, 2);
  } else if ((isAdditiveMask(a, b) || isAdditiveMask(b, a)) &&
             !isReadByProducts(query.op->getResult(0)))
    out[0] = additiveMask(a.indicator ? a.mean : b.mean);
  else if (a.constant && std::isfinite(*a.constant) && !a.anyScale)
    out[0] = scaledBy(b, *a.constant);
  else if (b.constant && std::isfinite(*b.constant) && !b.anyScale)
    out[0] = scaledBy(a, *b.constant);
  else {
    out[0] = productOf(a, b);
    applyRampsToProduct(a, b, 1, out[0]);
  }
  out[0].anyScale = a.anyScale || b.anyScale;
  out[0].scaleByBound = (a.scaleByBound && (b.constant || b.scaleByBound)) ||
                        (b.scaleByBound && a.constant);
  out[0].rule = "product";
}

/// True if every element of x is limit + a non-negative value.
static bool isAtLeast(Value x, double limit, const FactsQuery &query) {
  auto add = peelToSource(x).getDefiningOp<stablehlo::AddOp>();
  if (!add)
    return false;
  const ScaleFacts &a = query.of(add.getLhs()), &b = query.of(add.getRhs());
  auto fits = [&](const ScaleFacts &offset, const ScaleFacts &rest) {
    return offset.constant && *offset.constant >= limit &&
           rest.sign == Sign::NonNegative;
  };
  return fits(a, b) || fits(b, a);
}

/// Returns the facts of 1 / exp(x) = exp(-x): the smallest values of a
/// log-normal divisor decide, which its moments do not show.
static std::optional<ScaleFacts> getInverseExpFacts(Value divisor,
                                                    const FactsQuery &query) {
  auto exponential = peelToSource(divisor).getDefiningOp<stablehlo::ExpOp>();
  if (!exponential)
    return std::nullopt;
  const ScaleFacts &x = query.of(exponential.getOperand());
  if (x.constant || x.anyScale || x.masked || x.density < 1)
    return std::nullopt;
  return exponentialOf(scaledBy(x, -1));
}

/// Returns the facts of a / (b + exp(x)), the form in which JAX writes a
/// logistic function. As a quotient it would have no variance.
static std::optional<ScaleFacts> getLogisticFacts(const FactsQuery &query) {
  auto add =
      peelToSource(query.op->getOperand(1)).getDefiningOp<stablehlo::AddOp>();
  std::optional<double> top = query.operand(0).constant;
  if (!add || !top)
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    std::optional<double> offset = query.of(add->getOperand(i)).constant;
    auto exponential =
        peelToSource(add->getOperand(1 - i)).getDefiningOp<stablehlo::ExpOp>();
    if (!offset || *offset <= 0 || !exponential)
      continue;
    const ScaleFacts &x = query.of(exponential.getOperand());
    if (x.constant || x.anyScale || x.masked || x.density < 1)
      return std::nullopt;
    ScaleFacts found =
        functionOf(x, [&](double t) { return *top / (*offset + std::exp(t)); });
    found.sign = *top > 0 ? Sign::NonNegative : Sign::NonPositive;
    return found;
  }
  return std::nullopt;
}

static void divideFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  bool byConstant =
      b.constant && *b.constant != 0 && std::isfinite(*b.constant);
  if (byConstant) {
    out[0] = scaledBy(a, 1 / *b.constant);
  } else if (auto inverse =
                 getInverseExpFacts(query.op->getOperand(1), query)) {
    out[0] = productOf(a, *inverse);
  } else if (auto logistic = getLogisticFacts(query)) {
    out[0] = *logistic;
  } else {
    double by = std::fabs(b.mean) > 0.5 * b.rms ? std::fabs(b.mean) : b.rms;
    by = by > 0 ? by : 1.0;
    out[0] = ScaleFacts::moments(a.mean / by * (b.mean < 0 ? -1 : 1),
                                 a.variance() / (by * by));
    out[0].sign = signOfProduct(a.sign, b.sign);
    out[0].masked = a.masked;
    out[0].density = a.density;
    applyRampsToProduct(a, b, -1, out[0]);
  }
  out[0].anyScale = a.anyScale;
  out[0].scaleByBound = a.scaleByBound && byConstant;
  out[0].rule = "quotient";
  if (a.sign == Sign::NonNegative &&
      idioms::matchShare(query.op, MatchFor::Estimate)) {
    out[0].bound = 1.0;
    out[0].scaleByBound = true;
    out[0].rule = "softmax: bounded by 1";
  } else if (a.constant && *a.constant > 0 &&
             isAtLeast(query.op->getOperand(1), *a.constant, query)) {
    out[0].bound = 1.0;
    out[0].rms = std::min(out[0].rms, 1.0);
    out[0].mean = std::min(out[0].mean, out[0].rms);
    out[0].rule = "logistic: bounded by 1";
  }
}

static void linearFacts(const FactsQuery &query, Results out) {
  out[0] = query.operand(0);
  out[0].indicator = false;
  if (isa<stablehlo::NegOp>(query.op)) {
    out[0] = scaledBy(query.operand(0), -1);
  } else if (isa<stablehlo::AbsOp>(query.op)) {
    // E|x| of a normal x is sqrt(2 / pi) of its deviation.
    if (out[0].sign == Sign::Any)
      out[0].mean =
          std::max(std::fabs(out[0].mean), out[0].rms * std::sqrt(2 / M_PI));
    out[0].mean = std::fabs(out[0].mean);
    out[0].sign = Sign::NonNegative;
    if (out[0].constant)
      out[0].constant = std::fabs(*out[0].constant);
  }
  out[0].rule = shortName(query.op);
}

static void remainderFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  out[0] = a;
  out[0].constant.reset();
  out[0].bound = std::min(a.bound, b.bound);
  double limit = b.constant ? std::fabs(*b.constant) : b.rms;
  if (a.rms > limit && limit > 0) {
    // A dividend of many divisors: uniform up to one, with the dividend's sign.
    out[0] = ScaleFacts::moments(a.sign == Sign::NonNegative ? limit / 2 : 0,
                                 limit * limit / 3);
    out[0].sign = a.sign;
    out[0].bound = std::min(a.bound, b.bound);
  }
  out[0].rule = "remainder: below the divisor";
}

/// Emulated formats round true values to the program's own grid. With all of
/// the type's exponents the grid moves with the data.
static ScaleFamily reducePrecisionFamily(Operation *op) {
  auto reduce = cast<stablehlo::ReducePrecisionOp>(op);
  Type element = cast<ShapedType>(op->getResult(0).getType()).getElementType();
  unsigned bits = element.isF32() || element.isBF16() ? 8 : 5;
  return reduce.getExponentBits() >= bits ? ScaleFamily::Pass
                                          : ScaleFamily::True;
}

void scalify::attachArithmeticRules(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<ScaleFamily::Pass, linearFacts, AbsOp, NegOp>(context);
  attachRule<reducePrecisionFamily, linearFacts, ReducePrecisionOp>(context);
  attachRule<ScaleFamily::Align, addFacts, AddOp, SubtractOp>(context);
  attachRule<ScaleFamily::Align, extremumFacts, MaxOp, MinOp>(context);
  attachRule<ScaleFamily::Align, clampFacts, ClampOp>(context);
  attachRule<ScaleFamily::Align, remainderFacts, RemOp>(context);
  attachRule<ScaleFamily::Product, multiplyFacts, MulOp>(context);
  attachRule<ScaleFamily::Quotient, divideFacts, DivOp>(context);
}
