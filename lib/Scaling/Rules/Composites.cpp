//===- Composites.cpp - Rules of expressions that are one function --------===//
//
// Each op's own rule treats its operands as independent. If several ops are one
// known function of one value, that is wrong by up to a few binades, or in the
// mean: x * sigmoid(x) has a mean though x has none, and a norm's output has
// unit size for any statistics of its input. Each matcher below looks back a
// bounded number of ops from the last op of the expression, and replaces the
// facts of the generic rule. Without a match they stay. The op's family does
// not change.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Rules.h"

#include "Decays.h"
#include "LogAddExp.h"
#include "Moments.h"
#include "TanhGradients.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Returns the value of a splat constant, also of one that a loop carries, as
/// JAX's zeros.
static std::optional<double> getSplat(Value value) {
  DenseElementsAttr dense;
  Value source =
      peelToSource(lookThrough(peelToSource(value), Move::Invariant));
  if (!matchPattern(source, m_Constant(&dense)) || !dense.isSplat() ||
      !isa<FloatType>(dense.getElementType()))
    return std::nullopt;
  return dense.getSplatValue<APFloat>().convertToDouble();
}

/// Returns the reduction by AddOp before shape changes, or null.
static ReduceOp getSum(Value value) {
  auto reduce = peelToSource(value).getDefiningOp<ReduceOp>();
  if (reduce && reduce->getNumResults() == 1 &&
      isa_and_nonnull<AddOp>(getSingleBodyOp(reduce.getBody())))
    return reduce;
  return {};
}

//===----------------------------------------------------------------------===//
// Softmax and log-softmax
//===----------------------------------------------------------------------===//

/// E[exp(k (x - max(x)))] over a row of n normal values of deviation s. Blom's
/// estimate m approximates the maximum, and also the tail beyond it. With
/// d = m / s the integral is
/// exp(k^2 s^2 / 2 - k d s) P(z < d - k s) + P(z < -d).
static double getMomentBelowMaximum(double k, double n, double deviation) {
  double d = normalQuantile((n - 0.375) / (n + 0.25));
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
  std::optional<double> width = getMaxSubtractionWidth(shifted);
  if (!width)
    return false;
  const ScaleFacts &x = query.of(shifted.getDefiningOp()->getOperand(0));
  double n = *width * query.operand(0).density;
  double deviation = std::sqrt(x.variance());
  double first = n <= 1 ? 1 : getMomentBelowMaximum(1, n, deviation);
  double second = n <= 1 ? 1 : getMomentBelowMaximum(2, n, deviation);
  out = ScaleFacts::moments(first, second - first * first);
  out.sign = Sign::NonNegative;
  out.bound = 1.0;
  out.rule = "softmax's numerator: below the largest of a row";
  return true;
}

/// If `value` is a log-softmax, returns the number N of elements of a row. It
/// is x - log(sum(exp(x))), or, as logsumexp computes it,
/// x - (m + log(sum(exp(x - m)))) with the maximum m.
static std::optional<double> getLogSoftmaxWidth(Value value) {
  auto subtract = value.getDefiningOp<SubtractOp>();
  if (!subtract)
    return std::nullopt;
  auto widthOf = [&](Value logarithm, bool isShifted) -> std::optional<double> {
    auto log = peelToSource(logarithm).getDefiningOp<LogOp>();
    Value inner = log ? peelToSource(log->getOperand(0)) : Value();
    if (auto magnitude = inner ? inner.getDefiningOp<AbsOp>() : AbsOp())
      inner = magnitude->getOperand(0);
    ReduceOp sum = inner ? getSum(inner) : ReduceOp();
    auto exponential =
        sum ? sum.getInputs()[0].getDefiningOp<ExpOp>() : ExpOp();
    if (!exponential)
      return std::nullopt;
    Value source = exponential->getOperand(0);
    auto shifted = source.getDefiningOp<SubtractOp>();
    if (isShifted ? !shifted || shifted.getLhs() != subtract.getLhs() ||
                        !getMaxSubtractionWidth(source)
                  : source != subtract.getLhs())
      return std::nullopt;
    return countElements(source) /
           std::max(1.0, countElements(sum.getResult(0)));
  };
  if (std::optional<double> width = widthOf(subtract.getRhs(), false))
    return width;
  auto sum = peelToSource(subtract.getRhs()).getDefiningOp<AddOp>();
  for (unsigned i : {0, 1})
    if (std::optional<double> width =
            sum ? widthOf(sum->getOperand(i), true) : std::nullopt)
      return width;
  return std::nullopt;
}

/// Log-probabilities are near -log(N).
static bool matchLogSoftmax(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<SubtractOp>(query.op))
    return false;
  std::optional<double> width = getLogSoftmaxWidth(query.op->getResult(0));
  if (!width)
    return false;
  double n = *width;
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
  Value logarithms = peelToSource(query.op->getOperand(0));
  std::optional<double> width = getLogSoftmaxWidth(logarithms);
  if (!width)
    return false;
  const ScaleFacts &x = query.of(logarithms.getDefiningOp()->getOperand(0));
  double n = std::max(1.0, *width * query.operand(0).density);
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

/// True if `value` is `factor` times the sum of the `width` squares of `x`,
/// plus or minus small terms: an eps, the square of the mean, a clamp.
static bool isMeanSquareOf(Value value, Value x, unsigned depth, double &width,
                           double &factor) {
  value = peelToSource(value);
  if (ReduceOp sum = getSum(value)) {
    auto square = peelToSource(sum.getInputs()[0]).getDefiningOp<MulOp>();
    if (!square || square.getLhs() != square.getRhs())
      return false;
    Value root = peelToSource(square.getLhs());
    auto centred = root.getDefiningOp<SubtractOp>();
    auto centredX = peelToSource(x).getDefiningOp<SubtractOp>();
    width = countElements(sum.getInputs()[0]) /
            std::max(1.0, countElements(sum->getResult(0)));
    return root == peelToSource(x) || (centred && centred.getLhs() == x) ||
           (centredX && peelToSource(centredX.getLhs()) == root) ||
           (centred && centredX && centred.getLhs() == centredX.getLhs());
  }
  Operation *op = value.getDefiningOp();
  if (!depth || !isa_and_nonnull<AddOp, SubtractOp, MulOp, DivOp, MaxOp>(op))
    return false;
  for (unsigned i : {0, 1}) {
    if ((i == 1 && isa<SubtractOp, DivOp>(op)) ||
        !isMeanSquareOf(op->getOperand(i), x, depth - 1, width, factor))
      continue;
    double constant = std::fabs(getSplat(op->getOperand(1 - i)).value_or(1));
    if (isa<MulOp>(op))
      factor *= constant;
    else if (isa<DivOp>(op))
      factor /= constant;
    return true;
  }
  return false;
}

/// x * rsqrt(mean(x^2) + eps) and x / sqrt(..), centred or not.
static bool matchNorm(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<MulOp, DivOp>(query.op))
    return false;
  for (unsigned i : {0, 1}) {
    Value x = query.op->getOperand(i);
    Operation *root = peelToSource(query.op->getOperand(1 - i)).getDefiningOp();
    bool divides = isa<DivOp>(query.op);
    if ((divides && i != 0) || !root ||
        !(divides ? isa<SqrtOp>(root) : isa<RsqrtOp>(root)))
      continue;
    double width = 1, factor = 1;
    if (!isMeanSquareOf(root->getOperand(0), x, 5, width, factor) ||
        !(factor > 0))
      continue;
    // If eps dominates, the size is that of the quotient.
    const ScaleFacts &data = query.of(x);
    double second = query.of(root->getOperand(0)).rms;
    double size = second > 0 ? data.rms / std::sqrt(second) : 1.0;
    out.bound = 1 / std::sqrt(factor);
    out.rms = std::min(out.bound / std::sqrt(width), size);
    out.rule = "norm: unit size";
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Error functions, as Import expands them
//===----------------------------------------------------------------------===//

/// Matches select(|x| < 1/2, near, far). Returns x, and whether far selects
/// between a tail and 2 - tail, as erfc does.
static std::optional<std::pair<Value, bool>> matchErrorFunction(Value value) {
  auto select = value.getDefiningOp<SelectOp>();
  auto isNear =
      select ? select.getPred().getDefiningOp<CompareOp>() : CompareOp();
  auto magnitude = isNear ? isNear.getLhs().getDefiningOp<AbsOp>() : AbsOp();
  if (!magnitude || getSplat(isNear.getRhs()) != 0.5)
    return std::nullopt;
  bool isErfc =
      static_cast<bool>(select.getOnFalse().getDefiningOp<SelectOp>());
  auto far = select.getOnFalse().getDefiningOp<MulOp>();
  if (!isErfc && !(far && far.getLhs().getDefiningOp<SignOp>()))
    return std::nullopt;
  return std::pair(magnitude->getOperand(0), isErfc);
}

static bool matchErf(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<SelectOp>(query.op))
    return false;
  if (auto match = matchErrorFunction(query.op->getResult(0))) {
    const ScaleFacts &x = query.of(match->first);
    bool isErfc = match->second;
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

namespace {
/// A function of `source` that rises from 0 to `top`.
struct Sigmoid {
  Value source;
  double top = 1;
};
} // namespace

static std::optional<Sigmoid> matchSigmoid(Value value) {
  value = peelToSource(value);
  Operation *op = value.getDefiningOp();
  if (auto match = matchErrorFunction(value))
    if (match->second)
      return Sigmoid{match->first, 2};
  if (isa_and_nonnull<LogisticOp>(op))
    return Sigmoid{op->getOperand(0), 1};
  if (isa_and_nonnull<AddOp>(op)) {
    for (unsigned i : {0, 1}) {
      Value other = peelToSource(op->getOperand(1 - i));
      if (getSplat(op->getOperand(i)) != 1.0)
        continue;
      if (auto tanh = other.getDefiningOp<TanhOp>())
        return Sigmoid{tanh->getOperand(0), 2};
      if (auto match = matchErrorFunction(other))
        if (!match->second)
          return Sigmoid{match->first, 2};
    }
  }
  // 1 / (1 + exp(-x))
  if (isa_and_nonnull<DivOp>(op) && getSplat(op->getOperand(0)) == 1.0) {
    auto sum = peelToSource(op->getOperand(1)).getDefiningOp<AddOp>();
    for (unsigned i : {0, 1}) {
      if (!sum || getSplat(sum->getOperand(i)) != 1.0)
        continue;
      if (auto exponential =
              peelToSource(sum->getOperand(1 - i)).getDefiningOp<ExpOp>())
        return Sigmoid{exponential->getOperand(0), 1};
    }
  }
  return std::nullopt;
}

/// True if a few elementwise ops lead from `x` to `value`.
static bool dependsOn(Value value, Value x, unsigned depth) {
  value = peelToSource(value);
  if (value == x)
    return true;
  Operation *op = value.getDefiningOp();
  if (!depth || !isa_and_nonnull<AddOp, MulOp, NegOp, DivOp, SubtractOp>(op))
    return false;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    return dependsOn(operand, x, depth - 1);
  });
}

/// Collects the factors of a product, with constants multiplied into
/// `constant`.
static void collectFactors(Value value, unsigned depth, double &constant,
                           SmallVectorImpl<Value> &factors) {
  if (std::optional<double> splat = getSplat(value)) {
    constant *= *splat;
    return;
  }
  auto product = peelToSource(value).getDefiningOp<MulOp>();
  if (!product || !depth || product.getLhs() == product.getRhs()) {
    factors.push_back(peelToSource(value));
    return;
  }
  collectFactors(product.getLhs(), depth - 1, constant, factors);
  collectFactors(product.getRhs(), depth - 1, constant, factors);
}

/// x g(x): GELU (tanh and erf) and SiLU.
static bool matchSigmoidProduct(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<MulOp>(query.op) ||
      query.op->getOperand(0) == query.op->getOperand(1))
    return false;
  double constant = 1;
  SmallVector<Value> factors;
  collectFactors(query.op->getResult(0), 3, constant, factors);
  if (factors.size() != 2)
    return false;
  for (unsigned i : {0, 1}) {
    std::optional<Sigmoid> sigmoid = matchSigmoid(factors[1 - i]);
    if (!sigmoid || !dependsOn(sigmoid->source, factors[i], 5))
      continue;
    double top = constant * sigmoid->top;
    out = functionOf(query.of(factors[i]),
                     [&](double t) { return top * t * normalBelow(t); });
    out.bound = std::fabs(top) * query.of(factors[i]).bound;
    out.rule = "x g(x), g a sigmoid";
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Rotary embeddings
//===----------------------------------------------------------------------===//

/// a cos + b sin: a rotation keeps the size of the pair.
static bool matchRotation(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<AddOp, SubtractOp>(query.op))
    return false;
  const ScaleFacts *data[2] = {nullptr, nullptr};
  bool hasCosine = false, hasSine = false;
  for (unsigned i : {0, 1}) {
    auto product = query.op->getOperand(i).getDefiningOp<MulOp>();
    if (!product)
      return false;
    for (unsigned j : {0, 1}) {
      Operation *angle = peelToSource(product->getOperand(j)).getDefiningOp();
      if (!isa_and_nonnull<CosineOp, SineOp>(angle))
        continue;
      hasCosine |= isa<CosineOp>(angle);
      hasSine |= isa<SineOp>(angle);
      data[i] = &query.of(product->getOperand(1 - j));
    }
  }
  if (!hasCosine || !hasSine || !data[0] || !data[1])
    return false;
  out = ScaleFacts::gaussian(std::sqrt(0.5) *
                             std::hypot(data[0]->rms, data[1]->rms));
  out.bound = std::hypot(data[0]->bound, data[1]->bound);
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
