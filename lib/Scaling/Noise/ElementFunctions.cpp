//===- ElementFunctions.cpp - Elementwise functions of a root -------------===//

#include "ElementFunctions.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Returns the place of a point, in standard deviations.
static double getPoint(unsigned index) {
  constexpr unsigned middle = ElementFunctions::kNumPoints / 2;
  return (static_cast<double>(index) - middle) / 4;
}

static double getWeight(unsigned index) {
  return std::exp(-0.5 * getPoint(index) * getPoint(index));
}

namespace {
struct ValueAndSlope {
  double value, slope;
};
} // namespace

using Dual = ValueAndSlope;

static std::optional<Dual> applyUnary(Operation *op, Dual x) {
  double v = x.value, d = x.slope;
  return llvm::TypeSwitch<Operation *, std::optional<Dual>>(op)
      .Case<NegOp>([&](auto) { return Dual{-v, -d}; })
      .Case<AbsOp>([&](auto) { return Dual{std::fabs(v), v < 0 ? -d : d}; })
      .Case<ConvertOp>([&](auto) { return Dual{v, d}; })
      .Case<ExpOp>([&](auto) { return Dual{std::exp(v), d * std::exp(v)}; })
      .Case<Expm1Op>([&](auto) { return Dual{std::expm1(v), d * std::exp(v)}; })
      .Case<LogOp>([&](auto) { return Dual{std::log(v), d / v}; })
      .Case<Log1pOp>([&](auto) { return Dual{std::log1p(v), d / (1 + v)}; })
      .Case<TanhOp>([&](auto) {
        double y = std::tanh(v);
        return Dual{y, d * (1 - y * y)};
      })
      .Case<LogisticOp>([&](auto) {
        double y = 1 / (1 + std::exp(-v));
        return Dual{y, d * y * (1 - y)};
      })
      .Case<SineOp>([&](auto) { return Dual{std::sin(v), d * std::cos(v)}; })
      .Case<CosineOp>([&](auto) { return Dual{std::cos(v), -d * std::sin(v)}; })
      .Case<SqrtOp>(
          [&](auto) { return Dual{std::sqrt(v), d / (2 * std::sqrt(v))}; })
      .Case<RsqrtOp>([&](auto) {
        return Dual{1 / std::sqrt(v), -d / (2 * v * std::sqrt(v))};
      })
      .Default([](auto) { return std::nullopt; });
}

static std::optional<Dual> applyBinary(Operation *op, Dual a, Dual b) {
  return llvm::TypeSwitch<Operation *, std::optional<Dual>>(op)
      .Case<AddOp>(
          [&](auto) { return Dual{a.value + b.value, a.slope + b.slope}; })
      .Case<SubtractOp>(
          [&](auto) { return Dual{a.value - b.value, a.slope - b.slope}; })
      .Case<MulOp>([&](auto) {
        return Dual{a.value * b.value, a.slope * b.value + a.value * b.slope};
      })
      .Case<DivOp>([&](auto) {
        double y = a.value / b.value;
        return Dual{y, (a.slope - y * b.slope) / b.value};
      })
      .Case<MaxOp>([&](auto) { return a.value > b.value ? a : b; })
      .Case<MinOp>([&](auto) { return a.value < b.value ? a : b; })
      .Case<PowOp>([&](auto) -> std::optional<Dual> {
        if (b.slope != 0)
          return std::nullopt;
        return Dual{std::pow(a.value, b.value),
                    a.slope * b.value * std::pow(a.value, b.value - 1)};
      })
      .Default([](auto) { return std::nullopt; });
}

static std::optional<Dual> apply(Operation *op, ArrayRef<Dual> operands) {
  return operands.size() == 1 ? applyUnary(op, operands[0])
                              : applyBinary(op, operands[0], operands[1]);
}

/// Spreads the points as a normal distribution with the value's moments, or a
/// log-normal one if all elements have one sign.
ElementFunctions::Function ElementFunctions::makeRoot(Value value) const {
  const ScaleFacts &x = facts.lookup(value);
  double deviation = std::sqrt(x.variance());
  double magnitude = std::max(std::fabs(x.mean), 1e-6 * x.rms);
  bool isLogNormal = x.sign != Sign::Any && deviation > 0;
  double spread =
      std::min(2.0, std::sqrt(std::log1p(std::pow(deviation / magnitude, 2))));
  Function root{value, {}, {}};
  for (unsigned i = 0; i < kNumPoints; ++i) {
    double z = getPoint(i);
    double at = isLogNormal
                    ? (x.sign == Sign::NonPositive ? -1 : 1) * magnitude *
                          std::exp(spread * z - 0.5 * spread * spread)
                    : x.mean + deviation * z;
    root.values[i] = std::clamp(at, -x.bound, x.bound);
    root.slopes[i] = 1;
  }
  return root;
}

std::optional<ElementFunctions::Function>
ElementFunctions::getOperand(Value value, Value root) const {
  const ScaleFacts &known = facts.lookup(value);
  Function function;
  if (known.constant) {
    function.values.fill(*known.constant);
    function.slopes.fill(0);
    return function;
  }
  if (value == root)
    return makeRoot(value);
  auto it = functions.find(value);
  if (it == functions.end() || it->second.root != root)
    return std::nullopt;
  return it->second;
}

const ElementFunctions::Function *ElementFunctions::visit(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0 ||
      op->getNumOperands() > 2 || !isFloatTensor(op->getResult(0).getType()))
    return nullptr;
  // An op inside a loop is visited once an iteration.
  functions.erase(op->getResult(0));
  // A probe tells whether the op is supported.
  SmallVector<Dual, 2> probe(op->getNumOperands(), Dual{1, 0});
  if (!apply(op, probe))
    return nullptr;
  SmallVector<Value, 2> roots;
  for (Value operand : op->getOperands()) {
    if (!isFloatTensor(operand.getType()))
      return nullptr;
    if (facts.lookup(operand).constant)
      continue;
    auto it = functions.find(operand);
    roots.push_back(it == functions.end() ? operand : it->second.root);
  }
  if (roots.empty() || roots.front() != roots.back())
    return nullptr;
  SmallVector<Function, 2> operands;
  for (Value operand : op->getOperands()) {
    std::optional<Function> function = getOperand(operand, roots.front());
    if (!function)
      return nullptr;
    operands.push_back(*function);
  }
  Function result{roots.front(), {}, {}};
  for (unsigned i = 0; i < kNumPoints; ++i) {
    SmallVector<Dual, 2> at;
    for (const Function &function : operands)
      at.push_back({function.values[i], function.slopes[i]});
    std::optional<Dual> found = apply(op, at);
    if (!found)
      return nullptr;
    result.values[i] = found->value;
    result.slopes[i] = found->slope;
  }
  return &(functions[op->getResult(0)] = result);
}

double ElementFunctions::getRelativeGain(const Function &function) {
  auto isFinite = [&](unsigned i) {
    return std::isfinite(function.values[i]) &&
           std::isfinite(function.slopes[i]);
  };
  // Squares of exponentials exceed the range of doubles: divide all values by
  // the largest one.
  double largest = 0;
  for (unsigned i = 0; i < kNumPoints; ++i)
    if (isFinite(i))
      largest = std::max({largest, std::fabs(function.values[i]),
                          std::fabs(function.slopes[i])});
  double values = 0, slopes = 0;
  for (unsigned i = 0; i < kNumPoints; ++i) {
    if (!isFinite(i) || largest == 0)
      continue;
    double v = function.values[i] / largest, d = function.slopes[i] / largest;
    values += getWeight(i) * v * v;
    slopes += getWeight(i) * d * d;
  }
  return values > 0 ? slopes / values : 0;
}
