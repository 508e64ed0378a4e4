//===- TanhGradients.cpp - Facts of the gradient of tanh ------------------===//
//
// JAX differentiates t = tanh(u) as y + y t for y = g (1 - t), which is
// g (1 - t^2). If t is near its bound, both factors are rarely large together.
//
// If g is a multiple of x^n and u grows with x, as in a GELU's tanh form, the
// product is that of two functions of one value, one of which vanishes where
// the other is large: x^n (1 - tanh(c x)^2) never exceeds a few c^-n, for any
// x. Its mean square over a normal x of deviation s is, with z = c x, the
// integral of z^(2n) sech(z)^4 by the density of a normal of deviation c s,
// over c^(2n). If u is c (x + k x^3), less passes, and this is a bound.
//
//===----------------------------------------------------------------------===//

#include "TanhGradients.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

namespace {
/// A product of numbers, of values, and of a power of a value x.
struct Factors {
  double size = 1;
  unsigned power = 0;
};

/// y = g (1 - t), in y + y t.
struct Gradient {
  Value g, t;
};

/// size * x^power * (1 - tanh(u)^2), where |u| >= slope |x|.
struct PowerGradient {
  Value x;
  double slope;
  Factors factors;
};
} // namespace

/// The number of products that are followed back.
static constexpr unsigned kDepth = 6;

static Factors getFactors(const FactsQuery &query, Value value, Value x,
                          unsigned depth = kDepth) {
  if (value == x)
    return {1, 1};
  if (std::optional<double> constant = query.of(value).constant)
    return {std::fabs(*constant), 0};
  auto product = value.getDefiningOp<MulOp>();
  if (!product || depth == 0)
    return {query.of(value).rms, 0};
  Factors left = getFactors(query, product.getLhs(), x, depth - 1);
  Factors right = getFactors(query, product.getRhs(), x, depth - 1);
  // The facts of a product without x describe it as a whole.
  if (left.power + right.power == 0)
    return {query.of(value).rms, 0};
  return {left.size * right.size, left.power + right.power};
}

/// Returns the value x that u grows with, and its least slope: for u = c x, or
/// u = c (x + k x^3).
static std::pair<Value, double> getGrowth(const FactsQuery &query, Value u) {
  double slope = 1;
  for (unsigned depth = 0; depth < kDepth; ++depth) {
    auto product = u.getDefiningOp<MulOp>();
    if (!product)
      break;
    std::optional<double> left = query.of(product.getLhs()).constant;
    std::optional<double> right = query.of(product.getRhs()).constant;
    if (!left && !right)
      break;
    slope *= std::fabs(left ? *left : *right);
    u = left ? product.getRhs() : product.getLhs();
  }
  if (auto sum = u.getDefiningOp<AddOp>())
    for (unsigned i : {0, 1}) {
      Value x = sum->getOperand(i), other = sum->getOperand(1 - i);
      auto cube = other.getDefiningOp<MulOp>();
      if (cube && getFactors(query, other, x).power == 3)
        return {x, slope};
    }
  return {u, slope};
}

/// True if the moments of `complement` are those of 1 - t. In a loop's backward
/// both are read from stacks, with no other evidence.
static bool isOneMinus(const ScaleFacts &complement, const ScaleFacts &t) {
  auto isNear = [](double a, double b) { return std::fabs(a - b) < 1e-3; };
  return t.bound <= 1 && complement.bound <= 2 &&
         isNear(complement.mean, 1 - t.mean) &&
         isNear(complement.variance(), t.variance());
}

static std::optional<Gradient> getGradient(const FactsQuery &query,
                                           Operation *op) {
  if (!isa_and_present<AddOp>(op))
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    auto y = op->getOperand(i).getDefiningOp<MulOp>();
    auto product = op->getOperand(1 - i).getDefiningOp<MulOp>();
    if (!y || !product ||
        !llvm::is_contained(product->getOperands(), y.getResult()))
      continue;
    Value t = product->getOperand(product.getLhs() == y.getResult() ? 1 : 0);
    for (unsigned side : {0, 1})
      if (isOneMinus(query.of(y->getOperand(1 - side)), query.of(t)))
        return Gradient{y->getOperand(side), t};
  }
  return std::nullopt;
}

static std::optional<PowerGradient> findPowerGradient(const FactsQuery &query,
                                                      Operation *op,
                                                      unsigned depth = kDepth) {
  if (std::optional<Gradient> gradient = getGradient(query, op)) {
    auto tanh = gradient->t.getDefiningOp<TanhOp>();
    if (!tanh)
      return std::nullopt;
    auto [x, slope] = getGrowth(query, tanh.getOperand());
    return PowerGradient{x, slope, getFactors(query, gradient->g, x)};
  }
  auto product = dyn_cast_or_null<MulOp>(op);
  if (!product || depth == 0)
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    std::optional<PowerGradient> found = findPowerGradient(
        query, product->getOperand(i).getDefiningOp(), depth - 1);
    if (!found)
      continue;
    Factors more = getFactors(query, product->getOperand(1 - i), found->x);
    found->factors.size *= more.size;
    found->factors.power += more.power;
    return found;
  }
  return std::nullopt;
}

/// Returns E[z^(2 power) sech(z)^4] of a normal z, by 64 steps up to where the
/// smaller of the two functions has vanished: sech(z)^4 is below 1e-13 from
/// z = 8 on, and a normal's density from 8 deviations on.
static double getMeanSquare(unsigned power, double deviation) {
  constexpr int kSteps = 64;
  double step = 8 * std::min(deviation, 1.0) / kSteps, sum = 0;
  for (int i = 1; i <= kSteps; ++i) {
    double z = i * step, at = z / deviation;
    sum += std::pow(z, 2.0 * power) / std::pow(std::cosh(z), 4) *
           std::exp(-0.5 * at * at);
  }
  return 2 * sum * step / (deviation * std::sqrt(2 * M_PI));
}

static bool matchPower(const FactsQuery &query, ScaleFacts &out) {
  std::optional<PowerGradient> found = findPowerGradient(query, query.op);
  if (!found || found->factors.power == 0)
    return false;
  double deviation = found->slope * query.of(found->x).rms;
  if (!(deviation > 0) || !std::isfinite(deviation))
    return false;
  unsigned power = found->factors.power;
  out = ScaleFacts::gaussian(found->factors.size *
                             std::sqrt(getMeanSquare(power, deviation)) /
                             std::pow(found->slope, power));
  out.rule = "gradient of tanh: a power of its argument, times 1 - t^2";
  return true;
}

bool scalify::matchTanhGradient(const FactsQuery &query, ScaleFacts &out) {
  if (matchPower(query, out))
    return true;
  std::optional<Gradient> gradient = getGradient(query, query.op);
  if (!gradient)
    return false;
  // E[t^4] of a tanh: that of a normal if it is small, that of a sign if it is
  // large.
  const ScaleFacts &t = query.of(gradient->t), &g = query.of(gradient->g);
  double second = t.rms * t.rms;
  double fourth = std::min(second, (3 - 2 * t.rms) * second * second);
  double gain = std::sqrt(std::max(1 - 2 * second + fourth, 1e-6));
  out = ScaleFacts::moments(g.mean * (1 - second), 0);
  out.rms = std::max(g.rms * gain, std::fabs(out.mean));
  out.bound = g.bound;
  out.sign = g.sign;
  out.rule = "gradient of tanh: times 1 - t^2";
  return true;
}
