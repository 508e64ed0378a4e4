//===- Composites.cpp - Rules of expressions that are one function --------===//
//
// Each op's own rule treats its operands as independent. If several ops are one
// known function of one value, that is wrong by up to a few binades, or in the
// mean: x * sigmoid(x) has a mean though x has none, and a norm's output has
// unit size for any statistics of its input. From the last op of the expression
// Idioms.h looks back a bounded number of ops; the rules below replace the
// facts of the generic rule. Without a match they stay. The op's family does
// not change.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Rules.h"

#include "Decays.h"
#include "LogAddExp.h"
#include "Moments.h"
#include "TanhGradients.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Idioms/Idioms.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

//===----------------------------------------------------------------------===//
// Softmax and log-softmax
//===----------------------------------------------------------------------===//

/// E[exp(k (x - max(x)))] over a row of n normal values of deviation s. The
/// expected maximum m approximates the maximum, and also the tail beyond it.
/// With d = m / s the integral is
/// exp(k^2 s^2 / 2 - k d s) P(z < d - k s) + P(z < -d).
static double getMomentBelowMaximum(double k, double n, double deviation) {
  double d = normalMaximum(n);
  // Beyond this deviation only the largest element counts.
  double s = std::min(deviation, 8.0);
  return std::exp(k * k * s * s / 2 - k * d * s) * normalBelow(d - k * s) +
         normalBelow(-d);
}

/// exp(x - max(x)) of each row.
static bool matchSoftmaxNumerator(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<ExpOp>(query.op))
    return false;
  Value shifted = peelToSource(query.op->getOperand(0));
  auto softmax = idioms::matchMaxSubtraction(shifted, MatchFor::Estimate);
  if (!softmax)
    return false;
  const ScaleFacts &x = query.of(softmax->input);
  double n = softmax->width * query.operand(0).density;
  double deviation = std::sqrt(x.variance());
  double first = n <= 1 ? 1 : getMomentBelowMaximum(1, n, deviation);
  double second = n <= 1 ? 1 : getMomentBelowMaximum(2, n, deviation);
  out = ScaleFacts::moments(first, second - first * first);
  out.sign = Sign::NonNegative;
  out.bound = 1.0;
  out.rule = "softmax's numerator: below the largest of a row";
  return true;
}

/// Log-probabilities are near -log(N).
static bool matchLogSoftmax(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<SubtractOp>(query.op))
    return false;
  auto softmax = idioms::matchLogSoftmax(query.op->getResult(0));
  if (!softmax)
    return false;
  double n = softmax->width;
  double variance = query.operand(0).variance();
  out = ScaleFacts::moments(-std::log(std::max(n, 2.0)) - 0.5 * variance,
                            variance);
  out.sign = Sign::NonPositive;
  out.masked = query.operand(0).masked;
  out.rule = "log-softmax: near -log(N)";
  return true;
}

/// exp of log-probabilities: a softmax, whose mean is 1 / N. Its mean square is
/// exp(v) / N^2 for log-normal terms, and 1 / N for a single term.
static bool matchSoftmaxOfLogarithms(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<ExpOp>(query.op))
    return false;
  auto softmax = idioms::matchLogSoftmax(peelToSource(query.op->getOperand(0)));
  if (!softmax)
    return false;
  const ScaleFacts &x = query.of(softmax->input);
  double n = std::max(1.0, softmax->width * query.operand(0).density);
  double second = std::min(std::exp(x.variance()) / n, 1.0) / n;
  out = ScaleFacts::moments(1 / n, second - 1 / (n * n));
  out.sign = Sign::NonNegative;
  out.bound = 1.0;
  out.scaleByBound = true;
  out.rule = "softmax of log-probabilities: bounded by 1";
  return true;
}

/// exp(min(x, c)): values beyond the limit become exp(c).
static bool matchLimitedExponential(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<ExpOp>(query.op))
    return false;
  auto limit = query.op->getOperand(0).getDefiningOp<MinOp>();
  for (unsigned i : {0, 1}) {
    std::optional<double> top =
        limit ? getSplat(limit->getOperand(1 - i)) : std::nullopt;
    if (!top || std::fabs(*top) > 80 || query.of(limit->getOperand(i)).masked)
      continue;
    const ScaleFacts &x = query.of(limit->getOperand(i));
    out = functionOf(x, [&](double t) { return std::exp(std::min(t, *top)); });
    out.sign = Sign::NonNegative;
    out.bound = std::exp(*top);
    out.rule = "exponential of a limited value";
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Identities
//===----------------------------------------------------------------------===//

/// x + (y - x), a straight-through estimator, and x - (x - y) are y.
static bool matchIdentity(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<AddOp, SubtractOp>(query.op))
    return false;
  for (unsigned i : {0, 1}) {
    bool adds = isa<AddOp>(query.op);
    auto inner = query.op->getOperand(1 - i).getDefiningOp<SubtractOp>();
    Value x = query.op->getOperand(i);
    if (!inner || (!adds && i == 1) ||
        (adds ? inner.getRhs() : inner.getLhs()) != x)
      continue;
    const ScaleFacts &y = query.of(adds ? inner.getLhs() : inner.getRhs());
    out = ScaleFacts::moments(y.mean, y.variance());
    out.rule = "x + (y - x) is y";
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// x * rsqrt(mean(x^2) + eps) and x / sqrt(..), centred or not.
static bool matchNorm(const FactsQuery &query, ScaleFacts &out) {
  std::optional<idioms::Norm> norm =
      idioms::matchNorm(query.op, MatchFor::Estimate);
  // The product's own rule multiplies by other factors.
  if (!norm || !norm->factors.empty())
    return false;
  // If eps dominates, the size is that of the quotient.
  double second = query.of(norm->meanSquare).rms;
  double size =
      norm->numerator *
      (second > 0 ? query.of(norm->input).rms / std::sqrt(second) : 1);
  out.bound = norm->numerator / std::sqrt(norm->scale);
  out.rms = std::min(out.bound / std::sqrt(norm->width), size);
  out.rule = "norm: unit size";
  return true;
}

//===----------------------------------------------------------------------===//
// Error functions, as Import expands them
//===----------------------------------------------------------------------===//

static bool matchErf(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<SelectOp>(query.op))
    return false;
  if (auto match = idioms::matchErrorFunction(query.op->getResult(0))) {
    const ScaleFacts &x = query.of(match->input);
    bool isErfc = match->isComplement;
    out = functionOf(
        x, [&](double t) { return isErfc ? std::erfc(t) : std::erf(t); });
    out.bound = isErfc ? 2.0 : 1.0;
    out.sign = isErfc ? Sign::NonNegative : x.sign;
    out.rule = isErfc ? "erfc: bounded by 2" : "erf: bounded by 1";
    return true;
  }
  // erf_inv of uniform values is normal: select(|x| == 1, x * inf, ..).
  auto select = cast<SelectOp>(query.op);
  auto isEnd = select.getPred().getDefiningOp<CompareOp>();
  auto magnitude = isEnd ? isEnd.getLhs().getDefiningOp<AbsOp>() : AbsOp();
  if (!magnitude || getSplat(isEnd.getRhs()) != 1.0)
    return false;
  const ScaleFacts &x = query.of(magnitude->getOperand(0));
  out = ScaleFacts::gaussian(std::min(x.rms * 1.2, std::sqrt(0.5)));
  out.sign = x.sign;
  out.rule = "erf_inv: normal of uniform";
  return true;
}

//===----------------------------------------------------------------------===//
// Thresholds
//===----------------------------------------------------------------------===//

/// select(x > c, x, d): keeps large values.
static bool matchThreshold(const FactsQuery &query, ScaleFacts &out) {
  auto select = dyn_cast<SelectOp>(query.op);
  auto compare =
      select ? select.getPred().getDefiningOp<CompareOp>() : CompareOp();
  if (!compare)
    return false;
  Value x = compare.getLhs();
  std::optional<double> limit = getSplat(compare.getRhs());
  std::optional<double> onTrue = getSplat(select.getOnTrue());
  std::optional<double> onFalse = getSplat(select.getOnFalse());
  bool keepsTrue = select.getOnTrue() == x && onFalse;
  bool keepsFalse = select.getOnFalse() == x && onTrue;
  auto isPlain = [](std::optional<double> value) {
    return value && std::fabs(*value) < 1024;
  };
  if (!isPlain(limit) || !(keepsTrue || keepsFalse) ||
      !isPlain(keepsTrue ? onFalse : onTrue))
    return false;
  ComparisonDirection direction = compare.getComparisonDirection();
  bool isAbove = direction == ComparisonDirection::GT ||
                 direction == ComparisonDirection::GE;
  if (!isAbove && direction != ComparisonDirection::LT &&
      direction != ComparisonDirection::LE)
    return false;
  double other = keepsTrue ? *onFalse : *onTrue;
  bool keepsAbove = isAbove == keepsTrue;
  out = functionOf(query.of(x), [&](double t) {
    return (t > *limit) == keepsAbove ? t : other;
  });
  out.bound = std::max(query.of(x).bound, std::fabs(other));
  if (keepsAbove && *limit >= 0 && other >= 0)
    out.sign = Sign::NonNegative;
  out.masked = query.of(x).masked;
  out.rule = "threshold: keeps what is beyond";
  return true;
}

//===----------------------------------------------------------------------===//
// Products with a sigmoid: GELU and SiLU
//===----------------------------------------------------------------------===//

/// x g(x): GELU (tanh and erf) and SiLU.
static bool matchSigmoidProduct(const FactsQuery &query, ScaleFacts &out) {
  auto gated = idioms::matchGatedValue(query.op, MatchFor::Estimate);
  if (!gated)
    return false;
  const ScaleFacts &x = query.of(gated->input);
  double top = gated->top;
  out = functionOf(x, [&](double t) { return top * t * normalBelow(t); });
  out.bound = std::fabs(top) * x.bound;
  out.rule = "x g(x), g a sigmoid";
  return true;
}

//===----------------------------------------------------------------------===//
// Rotary embeddings
//===----------------------------------------------------------------------===//

/// a cos + b sin: a rotation keeps the size of the pair.
static bool matchRotation(const FactsQuery &query, ScaleFacts &out) {
  auto rotation = idioms::matchRotation(query.op, MatchFor::Estimate);
  if (!rotation)
    return false;
  const ScaleFacts &a = query.of(rotation->a), &b = query.of(rotation->b);
  out = ScaleFacts::gaussian(std::sqrt(0.5) * std::hypot(a.rms, b.rms));
  out.bound = std::hypot(a.bound, b.bound);
  out.rule = "rotation: keeps the size";
  return true;
}

bool scalify::inferCompositeFacts(const FactsQuery &query,
                                  MutableArrayRef<ScaleFacts> results) {
  if (results.size() != 1)
    return false;
  for (auto *match :
       {matchSoftmaxNumerator, matchSoftmaxOfLogarithms,
        matchLimitedExponential, matchLogAddExpTail, matchLogAddExpShare,
        matchDecay, matchSegmentSum, matchLogSoftmax, matchIdentity, matchNorm,
        matchErf, matchThreshold, matchTanhGradient, matchSigmoidProduct,
        matchRotation}) {
    ScaleFacts facts;
    if (match(query, facts)) {
      results[0] = std::move(facts);
      return true;
    }
  }
  return false;
}
