//===- ScaleFacts.cpp - Scales from facts ---------------------------------===//

#include "scalify/Dialect/Scalify/ScaleFacts.h"

#include "mlir/IR/Operation.h"

#include <cmath>

using namespace scalify;

// E4M3FN ends at 448, so a bound scaled to 256 is below it, and the value has
// the format's whole range beneath it.
static constexpr int64_t kBoundExponent = 8;
// The maximum log2 by which that may raise the RMS of bounded data above 1.
static constexpr int64_t kBodyExponent = 4;

llvm::StringRef scalify::stringifyScaleFamily(ScaleFamily family) {
  switch (family) {
  case ScaleFamily::Untouched:
    return "Untouched";
  case ScaleFamily::Pass:
    return "Pass";
  case ScaleFamily::PassEach:
    return "PassEach";
  case ScaleFamily::Align:
    return "Align";
  case ScaleFamily::Reduce:
    return "Reduce";
  case ScaleFamily::Product:
    return "Product";
  case ScaleFamily::Quotient:
    return "Quotient";
  case ScaleFamily::True:
    return "True";
  case ScaleFamily::Opaque:
    return "Opaque";
  }
  return "";
}

int64_t ScaleFacts::scaleExponent() const {
  if (masked)
    return 0;
  bool hasRms = std::isfinite(rms) && rms > 0;
  int64_t exponent = hasRms ? std::llround(std::log2(rms)) : 0;
  if (scaleByBound && std::isfinite(bound) && bound > 0) {
    auto top =
        static_cast<int64_t>(std::ceil(std::log2(bound))) - kBoundExponent;
    // If the bound is close to the data, no tail needs room.
    exponent = hasRms ? std::max(top, exponent - kBodyExponent) : top;
  }
  // Keeps scales and their inverses normal f32 numbers.
  return std::clamp<int64_t>(exponent, -120, 120);
}

static bool isSame(std::optional<double> a, std::optional<double> b) {
  return a == b || (a && b && std::isnan(*a) && std::isnan(*b));
}

void ScaleFacts::joinElements(const ScaleFacts &other) {
  if (!isSame(constant, other.constant))
    constant.reset();
  masked |= other.masked;
  if (other.anyScale)
    return;
  if (anyScale) {
    anyScale = false;
    sign = other.sign;
    bound = other.bound;
    scaleByBound = other.scaleByBound;
    indicator = other.indicator;
    return;
  }
  if (sign != other.sign)
    sign = Sign::Any;
  bound = std::max(bound, other.bound);
  scaleByBound &= other.scaleByBound;
  indicator &= other.indicator;
}

bool ScaleFacts::covers(const ScaleFacts &other) const {
  auto implies = [](bool a, bool b) { return !a || b; };
  if ((constant && !isSame(constant, other.constant)) ||
      !implies(other.masked, masked) || !implies(anyScale, other.anyScale))
    return false;
  return other.anyScale ||
         ((sign == Sign::Any || sign == other.sign) && other.bound <= bound &&
          implies(scaleByBound, other.scaleByBound) &&
          implies(indicator, other.indicator));
}

ScaleFacts ScaleFacts::constantOf(double value) {
  ScaleFacts facts;
  facts.constant = value;
  facts.mean = value;
  facts.rms = std::fabs(value);
  if (!std::isnan(value))
    facts.bound = std::fabs(value);
  facts.sign = value >= 0 ? Sign::NonNegative : Sign::NonPositive;
  facts.anyScale = value == 0 || !std::isfinite(value);
  if (facts.anyScale)
    facts.rms = facts.mean = 0.0;
  facts.rule = "constant";
  return facts;
}

ScaleFacts ScaleFacts::gaussian(double rms) {
  ScaleFacts facts;
  facts.rms = rms;
  return facts;
}

ScaleFacts ScaleFacts::moments(double mean, double variance) {
  ScaleFacts facts;
  facts.mean = mean;
  facts.rms = std::sqrt(mean * mean + std::max(0.0, variance));
  return facts;
}

const ScaleFacts &FactsQuery::operand(unsigned i) const {
  return lookup(op->getOperand(i));
}
