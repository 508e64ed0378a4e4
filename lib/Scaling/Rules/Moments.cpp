//===- Moments.cpp - Moments of functions of a random value ---------------===//

#include "Moments.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Matchers.h"

#include <array>
#include <cmath>

using namespace mlir;
using namespace scalify;

// Beyond this variance the moments of a log-normal rest on a tail that no batch
// holds.
static constexpr double kMaxLogVariance = 2.0;

ScaleFacts scalify::squareFacts(const ScaleFacts &x) {
  double second = x.rms * x.rms;
  // 3 for a zero-mean normal, 1 for a constant.
  double share = second > 0 ? x.variance() / second : 0;
  double kurtosis = 1 + 2 * share;
  if (x.sign != Sign::Any) {
    // For one sign: 3 for a half-normal, whose variance is 0.57 of its mean's
    // square, and more if few elements are large.
    double ratio = share / std::max(1 - share, 1e-3);
    kurtosis = std::min(1 + 3.5 * ratio, 64.0);
  }
  ScaleFacts facts =
      ScaleFacts::moments(second, (kurtosis - 1) * second * second);
  facts.bound = x.bound * x.bound;
  facts.sign = Sign::NonNegative;
  return facts;
}

ScaleFacts scalify::exponentialOf(const ScaleFacts &x) {
  double variance = std::min(x.variance(), kMaxLogVariance);
  double mean = std::clamp(x.mean, -80.0, 80.0);
  double first = x.density * std::exp(mean + variance / 2);
  double second = x.density * std::exp(2 * mean + 2 * variance);
  // Even if a wide distribution lies far below zero, its share above zero
  // contributes more than 1 per element.
  if (x.sign != Sign::NonPositive && x.variance() > kMaxLogVariance) {
    double above = x.density * normalBelow(mean / std::sqrt(x.variance()));
    first = std::max(first, above);
    second = std::max(second, above);
  }
  ScaleFacts facts = ScaleFacts::moments(first, second - first * first);
  if (x.sign == Sign::NonPositive)
    facts.bound = 1.0;
  else if (x.bound < 80)
    facts.bound = std::exp(x.bound);
  facts.rms = std::min(facts.rms, facts.bound);
  facts.mean = std::min(facts.mean, facts.rms);
  facts.sign = Sign::NonNegative;
  return facts;
}

ScaleFacts scalify::logarithmOf(const ScaleFacts &x) {
  double center = x.mean > 0 ? x.mean : x.rms;
  double mean = std::log(std::max(center, 1e-300));
  double relative = x.variance() / std::max(center * center, 1e-300);
  ScaleFacts facts =
      ScaleFacts::moments(mean, std::min(relative, kMaxLogVariance));
  // The logarithm of a value near 1 is near 0, not 0.
  facts.rms = std::max(facts.rms, 0.125);
  return facts;
}

ScaleFacts scalify::functionOf(const ScaleFacts &x,
                               llvm::function_ref<double(double)> function) {
  double first = 0, second = 0, total = 0;
  double mean = x.mean, deviation = std::sqrt(x.variance());
  double magnitude = std::max(std::fabs(mean), 1e-6 * x.rms);
  bool isLogNormal = x.sign != Sign::Any && deviation > 0 && magnitude > 0;
  double side = x.sign == Sign::NonPositive ? -1 : 1;
  double spread =
      isLogNormal ? std::sqrt(std::log1p(std::pow(deviation / magnitude, 2)))
                  : 0;
  spread = std::min(spread, 2.0);
  auto add = [&](double z, double weight) {
    double at = isLogNormal ? side * magnitude *
                                  std::exp(spread * z - 0.5 * spread * spread)
                            : mean + deviation * z;
    double y = function(std::clamp(at, -x.bound, x.bound));
    return std::isfinite(y) ? std::array{weight * y, weight * y * y, weight}
                            : std::array{0.0, 0.0, 0.0};
  };
  for (int i = 0; i <= 16; ++i) {
    // In pairs, so that the mean of an odd function is exactly 0.
    double z = i / 4.0, weight = std::exp(-0.5 * z * z) * (i == 0 ? 0.5 : 1);
    auto above = add(z, weight), below = add(-z, weight);
    first += above[0] + below[0];
    second += above[1] + below[1];
    total += above[2] + below[2];
  }
  if (total <= 0)
    return ScaleFacts();
  first /= total;
  second /= total;
  return ScaleFacts::moments(first, second - first * first);
}

ScaleFacts scalify::powerOf(const ScaleFacts &x, double power) {
  if (x.constant)
    return ScaleFacts::constantOf(std::pow(*x.constant, power));
  if (power == 1)
    return x;
  if (power == 2)
    return squareFacts(x);
  double center = std::fabs(x.mean) > 0.5 * x.rms ? std::fabs(x.mean) : x.rms;
  if (center <= 0)
    center = 1.0;
  double relative = std::min(1.0, x.variance() / (center * center));
  double mean = std::pow(center, power);
  ScaleFacts facts = ScaleFacts::moments(
      mean, mean * mean * std::min(1.0, power * power * relative));
  bool isEven = std::fmod(std::fabs(power), 2.0) == 0;
  facts.sign =
      isEven || std::floor(power) != power ? Sign::NonNegative : x.sign;
  // An odd power of zero-mean data stays zero-mean.
  if (x.sign == Sign::Any && !isEven && std::floor(power) == power &&
      std::fabs(x.mean) < 0.5 * x.rms)
    facts.mean = 0;
  return facts;
}

//===----------------------------------------------------------------------===//
// Order statistics
//===----------------------------------------------------------------------===//

double scalify::normalBelow(double z) {
  return 0.5 * std::erfc(-z / std::sqrt(2.0));
}

double scalify::normalQuantile(double p) {
  p = std::clamp(p, 1e-12, 1 - 1e-12);
  double low = -8, high = 8;
  for (int step = 0; step < 40; ++step) {
    double middle = 0.5 * (low + high);
    (normalBelow(middle) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double scalify::normalMaximum(double n) {
  return normalQuantile((n - 0.375) / (n + 0.25));
}

static double normalDensity(double z) {
  return std::exp(-0.5 * z * z) / std::sqrt(2 * M_PI);
}

/// Returns the facts of some of x's elements, with moments of their own.
static ScaleFacts chosenFrom(const ScaleFacts &x, double mean,
                             double variance) {
  ScaleFacts facts = ScaleFacts::moments(mean, variance);
  facts.bound = x.bound;
  facts.sign = x.sign;
  facts.scaleByBound = x.scaleByBound;
  facts.masked = x.masked;
  facts.rms = std::min(facts.rms, facts.bound);
  return facts;
}

ScaleFacts scalify::extremumOf(const ScaleFacts &x, double n, bool isMax) {
  n = std::max(1.0, n * x.density);
  double distance = normalMaximum(n);
  // The variance of an extremum falls like 1 / log(n).
  double spread = n > 1 ? std::min(0.68, 0.82 / std::log(n)) : 1.0;
  double mean = distance * std::sqrt(x.variance());
  return chosenFrom(x, x.mean + (isMax ? mean : -mean), spread * x.variance());
}

ScaleFacts scalify::getTopKFacts(const ScaleFacts &x, double k, double n) {
  double share = std::clamp(k / std::max(n, 1.0), 1e-9, 1.0);
  double threshold = normalQuantile(1 - share);
  double above = share < 1 ? normalDensity(threshold) / share : 0.0;
  double variance = std::max(0.05, 1 + threshold * above - above * above);
  return chosenFrom(x, x.mean + above * std::sqrt(x.variance()),
                    std::min(1.0, variance) * x.variance());
}

//===----------------------------------------------------------------------===//
// Sums and mixtures
//===----------------------------------------------------------------------===//

ScaleFacts scalify::sumOf(const ScaleFacts &x, const TermCount &n) {
  double mean = n.mean * x.mean;
  double second = n.mean * x.variance() + n.square * x.mean * x.mean;
  ScaleFacts facts = ScaleFacts::moments(mean, second - mean * mean);
  facts.bound = n.most * x.bound;
  facts.sign = x.sign;
  facts.anyScale = x.anyScale;
  facts.masked = x.masked;
  return facts;
}

ScaleFacts scalify::dotOf(const ScaleFacts &a, const ScaleFacts &b,
                          const TermCount &n) {
  ScaleFacts term = ScaleFacts::moments(a.mean * b.mean,
                                        a.rms * a.rms * b.rms * b.rms -
                                            a.mean * a.mean * b.mean * b.mean);
  ScaleFacts facts = sumOf(term, n);
  facts.bound = n.most * boundOfProduct(a.bound, b.bound);
  facts.sign = signOfProduct(a.sign, b.sign);
  facts.anyScale = (a.constant == 0.0) || (b.constant == 0.0);
  return facts;
}

bool scalify::isMaskingConstant(const ScaleFacts &constant,
                                const ScaleFacts &data) {
  // Attention masks start at -1e4; scores have unit size and seldom reach 100.
  return constant.constant && std::isfinite(*constant.constant) &&
         std::fabs(*constant.constant) >= std::max(8192.0, 1024.0 * data.rms);
}

ScaleFacts scalify::mixFacts(const ScaleFacts &a, double share,
                             const ScaleFacts &b) {
  bool aMask = isMaskingConstant(a, b), bMask = isMaskingConstant(b, a);
  auto isInfinite = [](const ScaleFacts &x) {
    return x.constant && !std::isfinite(*x.constant);
  };
  if (aMask || bMask || isInfinite(a) || isInfinite(b)) {
    // The moments are the data's; masked elements count in the density.
    bool aside = aMask || isInfinite(a);
    ScaleFacts facts = aside ? b : a;
    double kept = aside ? 1 - share : share;
    bool isNaN =
        (aside ? a : b).constant && std::isnan(*(aside ? a : b).constant);
    // NaN marks indices out of range, which are assumed not to occur.
    facts.density *= isNaN ? 1.0 : kept;
    if (!isNaN)
      facts.bound = std::numeric_limits<double>::infinity();
    // A constant for exceptional values (nan_to_num) is no mask.
    facts.masked |= (aMask || bMask) && kept < 1.0;
    facts.constant.reset();
    facts.indicator = false;
    return facts;
  }
  return mixData(a, share, b);
}

ScaleFacts scalify::mixData(const ScaleFacts &a, double share,
                            const ScaleFacts &b) {
  double second = share * a.rms * a.rms + (1 - share) * b.rms * b.rms;
  double mean = share * a.mean + (1 - share) * b.mean;
  ScaleFacts facts = ScaleFacts::moments(mean, second - mean * mean);
  facts.bound = std::max(a.bound, b.bound);
  facts.sign = a.sign == b.sign || b.anyScale ? a.sign : Sign::Any;
  // A side that never occurs, as that for NaN in a softplus, sets no sign.
  if (a.anyScale || share == 0)
    facts.sign = b.sign;
  else if (share == 1)
    facts.sign = a.sign;
  facts.scaleByBound =
      (a.scaleByBound || a.anyScale) && (b.scaleByBound || b.anyScale);
  facts.anyScale = a.anyScale && b.anyScale;
  facts.masked = a.masked || b.masked;
  facts.indicator = a.indicator && b.indicator;
  return facts;
}

//===----------------------------------------------------------------------===//
// Signs and regions
//===----------------------------------------------------------------------===//

Sign scalify::flip(Sign sign) {
  if (sign == Sign::Any)
    return sign;
  return sign == Sign::NonNegative ? Sign::NonPositive : Sign::NonNegative;
}

Sign scalify::signOfProduct(Sign a, Sign b) {
  if (a == Sign::Any || b == Sign::Any)
    return Sign::Any;
  return a == b ? Sign::NonNegative : Sign::NonPositive;
}

double scalify::boundOfProduct(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

std::string scalify::shortName(Operation *op) {
  return op->getName().stripDialect().str();
}

Operation *scalify::getSingleBodyOp(Region &body) {
  if (!body.hasOneBlock() || body.front().getOperations().size() != 2)
    return nullptr;
  return &body.front().front();
}

/// True for 0, infinities and NaN, which are the same at any scale, and
/// integers.
static bool isConstantOfAnyScale(Operation &op) {
  DenseElementsAttr value;
  if (!matchPattern(&op, m_Constant(&value)))
    return false;
  if (!isa<FloatType>(value.getElementType()))
    return true;
  return llvm::all_of(value.getValues<APFloat>(), [](const APFloat &x) {
    return x.isZero() || !x.isFinite();
  });
}

bool scalify::isHomogeneous(Region &body) {
  using namespace stablehlo;
  return body.hasOneBlock() && llvm::all_of(body.front(), [](Operation &op) {
           if (isa<AddOp, SubtractOp, MaxOp, MinOp, SelectOp, CompareOp, AndOp,
                   OrOp, XorOp, NotOp, ReturnOp>(op))
             return true;
           return isConstantOfAnyScale(op);
         });
}
