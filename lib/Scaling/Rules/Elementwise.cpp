//===- Elementwise.cpp - Rules of arithmetic, element by element ----------===//

#include "scalify/Scaling/Rules.h"

#include "Moments.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

static Sign flip(Sign sign) {
  if (sign == Sign::Any)
    return sign;
  return sign == Sign::NonNegative ? Sign::NonPositive : Sign::NonNegative;
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// The number of elements whose maximum is subtracted from them, or nothing
/// if `value` is not x - max(x): such a difference is never positive.
static std::optional<double> getWidthBelowMaximum(Value value) {
  auto subtract = value.getDefiningOp<stablehlo::SubtractOp>();
  if (!subtract)
    return std::nullopt;
  Value source = peelToSource(subtract.getRhs());
  if (auto select = source.getDefiningOp<stablehlo::SelectOp>())
    source = peelToSource(select.getOnTrue());
  auto reduce = source.getDefiningOp<stablehlo::ReduceOp>();
  if (!reduce || reduce.getInputs()[0] != subtract.getLhs() ||
      !isa<stablehlo::MaxOp>(reduce.getBody().front().front()))
    return std::nullopt;
  return countElements(reduce.getInputs()[0]) /
         std::max(1.0, countElements(reduce->getResult(0)));
}

static void addFacts(const FactsQuery &query, Results out) {
  bool subtract = isa<stablehlo::SubtractOp>(query.op);
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  double sign = subtract ? -1.0 : 1.0;
  out[0] =
      ScaleFacts::moments(a.mean + sign * b.mean, a.variance() + b.variance());
  out[0].bound = a.bound + b.bound;
  out[0].density = std::min(a.density, b.density);
  Sign other = subtract ? flip(b.sign) : b.sign;
  out[0].sign = a.sign == other ? a.sign : Sign::Any;
  out[0].anyScale = a.anyScale && b.anyScale;
  // One-hot minus probabilities keeps the heavy tail of its parts.
  out[0].scaleByBound = a.scaleByBound && b.scaleByBound;
  if (getWidthBelowMaximum(query.op->getResult(0)))
    out[0].sign = Sign::NonPositive;
  out[0].rule = "sum: variances add";
}

static void extremumFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  bool isMax = isa<stablehlo::MaxOp>(query.op);
  const ScaleFacts &data = a.constant ? b : a;
  const ScaleFacts &limit = a.constant ? a : b;
  if (limit.constant && *limit.constant == 0) {
    // A rectified zero-mean normal: half its second moment.
    double mean =
        (isMax ? 1 : -1) * (data.rms / std::sqrt(2 * M_PI)) + 0.5 * data.mean;
    out[0] = ScaleFacts::moments(mean, 0.5 * data.rms * data.rms - mean * mean);
    out[0].bound = data.bound;
  } else if (limit.anyScale || limit.constant) {
    out[0] = data;
  } else {
    out[0] = a.rms > b.rms ? a : b;
    out[0].bound = std::max(a.bound, b.bound);
  }
  if (isMax && (a.sign == Sign::NonNegative || b.sign == Sign::NonNegative))
    out[0].sign = Sign::NonNegative;
  out[0].constant.reset();
  out[0].rule = isMax ? "maximum" : "minimum";
}

static void clampFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &lo = query.operand(0), &hi = query.operand(2);
  out[0] = query.operand(1);
  if (lo.constant && hi.constant)
    out[0].bound = std::min(out[0].bound, std::max(std::fabs(*lo.constant),
                                                   std::fabs(*hi.constant)));
  out[0].rms = std::min(out[0].rms, out[0].bound);
  out[0].rule = "clamp";
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static void multiplyFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  if (query.op->getOperand(0) == query.op->getOperand(1)) {
    out[0] = squareFacts(a);
  } else {
    double mean = a.mean * b.mean;
    out[0] =
        ScaleFacts::moments(mean, a.rms * a.rms * b.rms * b.rms - mean * mean);
    out[0].bound = a.bound * b.bound;
    if (a.sign != Sign::Any && b.sign != Sign::Any)
      out[0].sign = a.sign == b.sign ? Sign::NonNegative : Sign::NonPositive;
  }
  out[0].anyScale = a.anyScale || b.anyScale;
  out[0].scaleByBound = (a.scaleByBound && (b.constant || b.scaleByBound)) ||
                        (b.scaleByBound && a.constant);
  out[0].rule = "product";
}

/// Whether a / b is a probability: b is the sum of the non-negative a.
static bool isNormalisation(Operation *op, const ScaleFacts &a) {
  auto reduce =
      peelToSource(op->getOperand(1)).getDefiningOp<stablehlo::ReduceOp>();
  return reduce && a.sign == Sign::NonNegative &&
         reduce.getInputs()[0] == op->getOperand(0) &&
         isa<stablehlo::AddOp>(reduce.getBody().front().front());
}

/// Whether x >= limit for every element: limit + something non-negative.
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

static void divideFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  double by = std::fabs(b.mean) > 0.5 * b.rms ? std::fabs(b.mean) : b.rms;
  by = by > 0 ? by : 1.0;
  out[0] = ScaleFacts::moments(a.mean / by * (b.mean < 0 ? -1 : 1),
                               a.variance() / (by * by));
  if (b.constant && *b.constant != 0)
    out[0].bound = a.bound / std::fabs(*b.constant);
  if (a.sign != Sign::Any && b.sign != Sign::Any)
    out[0].sign = a.sign == b.sign ? Sign::NonNegative : Sign::NonPositive;
  out[0].anyScale = a.anyScale;
  out[0].scaleByBound = a.scaleByBound && b.constant;
  out[0].rule = "quotient";
  if (isNormalisation(query.op, a)) {
    out[0].bound = 1.0;
    out[0].scaleByBound = true;
    out[0].rule = "softmax: bounded by 1";
  } else if (a.constant && *a.constant > 0 &&
             isAtLeast(query.op->getOperand(1), *a.constant, query)) {
    out[0].bound = 1.0;
    out[0].rms = std::min(out[0].rms, 1.0);
    out[0].rule = "logistic: bounded by 1";
  }
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static void linearFacts(const FactsQuery &query, Results out) {
  out[0] = query.operand(0);
  out[0].rule = query.op->getName().stripDialect().str();
  if (isa<stablehlo::NegOp>(query.op)) {
    out[0].mean = -out[0].mean;
    out[0].sign = flip(out[0].sign);
    if (out[0].constant)
      out[0].constant = -*out[0].constant;
  } else if (isa<stablehlo::AbsOp>(query.op)) {
    // E|x| of a normal x is sqrt(2 / pi) of its deviation.
    out[0].mean =
        std::max(std::fabs(out[0].mean), out[0].rms * std::sqrt(2 / M_PI));
    out[0].sign = Sign::NonNegative;
    if (out[0].constant)
      out[0].constant = std::fabs(*out[0].constant);
  }
}

static void exponentialFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  out[0] = exponentialOf(x);
  out[0].rule = "exponential: log-normal, non-negative";
  Value source = peelToSource(query.op->getOperand(0));
  if (std::optional<double> width = getWidthBelowMaximum(source)) {
    // A softmax's numerator: from all ones, when attention is diffuse, to a
    // single one, when it is sharp. Training goes from the first towards the
    // second; the scale is right half-way, at sqrt(N) elements that matter.
    double n = std::max(1.0, *width * x.density);
    double mean = 1 / std::sqrt(n);
    out[0] = ScaleFacts::moments(mean, mean - mean * mean);
    out[0].sign = Sign::NonNegative;
    out[0].bound = 1.0;
    out[0].rule = "softmax's numerator: sqrt(N) elements matter";
  }
}

static void logFacts(const FactsQuery &query, Results out) {
  out[0] = logarithmOf(query.operand(0));
  out[0].rule = "log";
}

template <int Numerator, int Denominator>
static void rootFacts(const FactsQuery &query, Results out) {
  double power = static_cast<double>(Numerator) / Denominator;
  out[0] = powerOf(query.operand(0), power);
  out[0].rule = query.op->getName().stripDialect().str() + " of the mean";
}

static void powerFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &base = query.operand(0), &exponent = query.operand(1);
  if (base.constant && *base.constant > 0) {
    // c^x with x an exponent of known range, as in RoPE's frequencies.
    ScaleFacts inner = exponent;
    inner.mean *= std::log(*base.constant);
    inner.rms *= std::fabs(std::log(*base.constant));
    out[0] = exponentialOf(inner);
  } else {
    out[0] = powerOf(base, exponent.constant.value_or(1.0));
  }
  out[0].rule = "power";
}

/// tanh, sine, logistic and their like: never above 1, and linear below.
static void boundedFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  if (isa<stablehlo::CosineOp, stablehlo::SineOp>(query.op)) {
    out[0] = ScaleFacts::moments(0, 0.5);
  } else if (isa<stablehlo::LogisticOp>(query.op)) {
    out[0] = ScaleFacts::moments(0.5, std::min(0.25, x.rms * x.rms / 16));
    out[0].sign = Sign::NonNegative;
  } else {
    out[0] = ScaleFacts::gaussian(std::min(1.0, x.rms));
    out[0].sign = x.sign;
  }
  out[0].bound = 1.0;
  out[0].rule = query.op->getName().stripDialect().str() + ": bounded by 1";
}

static void signFacts(const FactsQuery &query, Results out) {
  out[0] = ScaleFacts::moments(0, 1);
  out[0].sign = query.operand(0).sign;
  out[0].bound = 1.0;
  out[0].rule = "sign";
}

static void roundFacts(const FactsQuery &query, Results out) {
  out[0] = query.operand(0);
  out[0].constant.reset();
  out[0].rule = query.op->getName().stripDialect().str();
}

//===----------------------------------------------------------------------===//
// Booleans and integers
//===----------------------------------------------------------------------===//

static void convertFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  auto from = cast<ShapedType>(query.op->getOperand(0).getType());
  auto to = cast<ShapedType>(query.op->getResult(0).getType());
  out[0] = x;
  out[0].rule = "convert";
  if (from.getElementType().isInteger(1) &&
      isa<FloatType>(to.getElementType())) {
    double p = x.density;
    out[0] = ScaleFacts::moments(p, p - p * p);
    out[0].bound = 1.0;
    out[0].sign = Sign::NonNegative;
    // A one-hot or a sparse mask: few ones matter.
    out[0].scaleByBound = p < 0.1;
    out[0].rule = "mask: density";
  }
}

/// Equality with an index along a dimension of n holds for one in n; any other
/// comparison is taken to hold for half.
static void compareFacts(const FactsQuery &query, Results out) {
  auto compare = cast<stablehlo::CompareOp>(query.op);
  out[0] = ScaleFacts::moments(0.5, 0.25);
  out[0].density = 0.5;
  for (Value side : compare->getOperands()) {
    auto iota = peelToSource(side).getDefiningOp<stablehlo::IotaOp>();
    if (!iota)
      continue;
    double n = std::max(1.0, query.of(iota).bound + 1);
    if (compare.getComparisonDirection() == stablehlo::ComparisonDirection::EQ)
      out[0].density = 1.0 / n;
    else if (compare.getComparisonDirection() ==
             stablehlo::ComparisonDirection::NE)
      out[0].density = 1.0 - 1.0 / n;
  }
  out[0].rule = "comparison";
}

static void selectFacts(const FactsQuery &query, Results out) {
  double p = query.operand(0).density;
  const ScaleFacts &a = query.operand(1), &b = query.operand(2);
  auto isMask = [](const ScaleFacts &x) {
    return x.anyScale && !(x.constant && *x.constant == 0);
  };
  if (isMask(a) || isMask(b)) {
    // -inf marks the masked share; a NaN for indices out of range marks none.
    const ScaleFacts &mask = isMask(a) ? a : b;
    out[0] = isMask(a) ? b : a;
    bool isNaN = mask.constant && std::isnan(*mask.constant);
    out[0].density *= isNaN ? 1.0 : (isMask(a) ? 1 - p : p);
    if (!isNaN)
      out[0].bound = std::numeric_limits<double>::infinity();
  } else {
    double second = p * a.rms * a.rms + (1 - p) * b.rms * b.rms;
    double mean = p * a.mean + (1 - p) * b.mean;
    out[0] = ScaleFacts::moments(mean, second - mean * mean);
    out[0].bound = std::max(a.bound, b.bound);
    bool aZero = a.anyScale, bZero = b.anyScale;
    out[0].sign = a.sign == b.sign || bZero ? a.sign : Sign::Any;
    if (aZero)
      out[0].sign = b.sign;
    out[0].scaleByBound =
        (a.scaleByBound || aZero) && (b.scaleByBound || bZero);
    out[0].anyScale = aZero && bZero;
  }
  out[0].constant.reset();
  out[0].rule = "select: density of the mask";
}

void scalify::attachElementwiseRules(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<ScaleFamily::Pass, linearFacts, AbsOp, NegOp, ReducePrecisionOp>(
      context);
  attachRule<ScaleFamily::Pass, convertFacts, ConvertOp>(context);
  attachRule<ScaleFamily::Align, addFacts, AddOp, SubtractOp>(context);
  attachRule<ScaleFamily::Align, extremumFacts, MaxOp, MinOp>(context);
  attachRule<ScaleFamily::Align, clampFacts, ClampOp>(context);
  attachRule<ScaleFamily::Align, selectFacts, SelectOp>(context);
  attachRule<ScaleFamily::Product, multiplyFacts, MulOp>(context);
  attachRule<ScaleFamily::Quotient, divideFacts, DivOp>(context);
  attachRule<ScaleFamily::True, exponentialFacts, ExpOp>(context);
  attachRule<ScaleFamily::True, logFacts, LogOp>(context);
  attachRule<ScaleFamily::True, rootFacts<1, 2>, SqrtOp>(context);
  attachRule<ScaleFamily::True, rootFacts<-1, 2>, RsqrtOp>(context);
  attachRule<ScaleFamily::True, powerFacts, PowOp>(context);
  attachRule<ScaleFamily::True, boundedFacts, CosineOp, SineOp, TanhOp,
             LogisticOp>(context);
  attachRule<ScaleFamily::True, signFacts, SignOp>(context);
  attachRule<ScaleFamily::True, roundFacts, FloorOp, CeilOp, RoundOp,
             RoundNearestEvenOp, RemOp>(context);
  attachRule<ScaleFamily::True, compareFacts, CompareOp>(context);
  attachRule<ScaleFamily::True, roundFacts, IsFiniteOp, BitcastConvertOp, AndOp,
             OrOp, XorOp, NotOp, ShiftLeftOp, ShiftRightLogicalOp,
             ShiftRightArithmeticOp>(context);
}
