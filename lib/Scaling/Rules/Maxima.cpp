//===- Maxima.cpp - Differences from the larger of two values -------------===//

#include "Maxima.h"

#include "Moments.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

/// True if both are one expression, as a broadcast that is written twice, or a
/// value that a loop carries twice.
static bool isSame(Value a, Value b, unsigned depth = 4) {
  a = lookThrough(a, Move::Invariant | Move::Manual);
  b = lookThrough(b, Move::Invariant | Move::Manual);
  Operation *first = a.getDefiningOp(), *second = b.getDefiningOp();
  if (a == b)
    return true;
  if (!first || !second || depth == 0 || first->getNumResults() != 1)
    return false;
  return OperationEquivalence::isEquivalentTo(
      first, second,
      [&](Value x, Value y) { return success(isSame(x, y, depth - 1)); },
      /*markEquivalent=*/nullptr,
      OperationEquivalence::IgnoreLocations |
          OperationEquivalence::IgnoreDiscardableAttrs);
}

/// If the op is x - max(x, y), returns y, else null.
static Value getOther(Operation *op) {
  if (!isa_and_nonnull<stablehlo::SubtractOp>(op))
    return {};
  Value x = op->getOperand(0);
  auto maximum = op->getOperand(1).getDefiningOp<stablehlo::MaxOp>();
  if (!maximum)
    return {};
  if (isSame(maximum.getLhs(), x))
    return maximum.getRhs();
  return isSame(maximum.getRhs(), x) ? maximum.getLhs() : Value();
}

bool scalify::isAbsorbedBy(const ScaleFacts &data, const ScaleFacts &constant) {
  return constant.constant && std::isfinite(*constant.constant) &&
         !data.anyScale && std::fabs(*constant.constant) > 0x1p30 * data.rms;
}

/// Returns the facts of f(-relu(y - x)), if the op is x - max(x, y).
static std::optional<ScaleFacts>
getOfDifference(const FactsQuery &query, Operation *op,
                function_ref<double(double)> function) {
  Value other = getOther(op);
  if (!other)
    return std::nullopt;
  const ScaleFacts &x = query.of(op->getOperand(0)), &y = query.of(other);
  if (isAbsorbedBy(x, y) && *y.constant < 0)
    return ScaleFacts::constantOf(function(0));
  if (!std::isfinite(x.mean) || !std::isfinite(y.mean) || isAbsorbedBy(y, x))
    return std::nullopt;
  ScaleFacts difference =
      ScaleFacts::moments(y.mean - x.mean, x.variance() + y.variance());
  ScaleFacts facts = functionOf(
      difference, [&](double t) { return function(-std::max(t, 0.0)); });
  facts.masked = x.masked || y.masked;
  facts.density = x.density;
  return facts;
}

std::optional<ScaleFacts>
scalify::getMaxDifferenceFacts(const FactsQuery &query, Operation *op) {
  auto facts = getOfDifference(query, op, [](double t) { return t; });
  if (!facts)
    return std::nullopt;
  facts->bound =
      query.of(op->getOperand(0)).bound + query.of(op->getOperand(1)).bound;
  facts->sign = Sign::NonPositive;
  facts->rule = "difference from the larger of two";
  return facts;
}

std::optional<ScaleFacts>
scalify::getMaxDifferenceExpFacts(const FactsQuery &query, Operation *op) {
  auto facts = getOfDifference(query, op, [](double t) { return std::exp(t); });
  if (!facts)
    return std::nullopt;
  facts->bound = 1;
  facts->sign = Sign::NonNegative;
  facts->masked = false;
  facts->rule = "exponential of a difference from the larger of two";
  return facts;
}
