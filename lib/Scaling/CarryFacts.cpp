//===- CarryFacts.cpp - One set of facts for a carry's history ------------===//

#include "scalify/Scaling/CarryFacts.h"

#include "Rules/Moments.h"

#include <cmath>

using namespace scalify;

// The slope of a sum halves from n / 2 to n; that of an exponential does not.
static constexpr double kExponentialRatio = 0.8;
static constexpr double kExponentialSlope = 0.05;

static bool setsScale(const ScaleFacts &facts) {
  return !facts.anyScale && facts.rms > 0 && std::isfinite(facts.rms);
}

/// Joins what holds for each element. Moments are those of `later`.
static ScaleFacts join(const ScaleFacts &earlier, const ScaleFacts &later) {
  ScaleFacts facts = later;
  facts.joinElements(earlier);
  return facts;
}

void CarryFacts::add(const ScaleFacts &facts) {
  latest = facts;
  masked |= facts.masked;
  bool isFirst = count++ == 0;
  if (setsScale(facts)) {
    // The lowest value, from which a running maximum starts, is no size of it.
    if (exponents.size() == 1 && joined.constant &&
        isMaskingConstant(joined, facts)) {
      exponents.clear();
      iterations.clear();
      meanShare = densities = 0;
      masked = true;
    }
    bool isFirstScale = exponents.empty();
    exponents.push_back(std::log2(facts.rms));
    iterations.push_back(count - 1);
    meanShare += facts.mean / facts.rms;
    densities += facts.density;
    // A zero takes the sign and the bound of what it is joined with.
    joined = isFirstScale ? facts : join(joined, facts);
    if (count > 1 && isFirstScale)
      joined.constant.reset();
  } else if (exponents.empty()) {
    joined = isFirst ? facts : join(joined, facts);
  } else {
    joined.constant.reset();
  }
}

bool CarryFacts::isSettledAt(const ScaleFacts &facts) const {
  if (latest.anyScale != facts.anyScale || latest.sign != facts.sign ||
      latest.scaleByBound != facts.scaleByBound)
    return false;
  if (!setsScale(facts) || !setsScale(latest))
    return true;
  return std::fabs(std::log2(facts.rms / latest.rms)) < kSettledBinades &&
         std::fabs(facts.mean - latest.mean) < kSettledBinades * facts.rms;
}

/// Returns the rise per iteration in binades, from the exponent before `at`.
double CarryFacts::slope(size_t at) const {
  if (at == 0 || at >= exponents.size())
    return 0;
  return (exponents[at] - exponents[at - 1]) /
         (iterations[at] - iterations[at - 1]);
}

bool CarryFacts::keepsRatio() const {
  if (exponents.size() < 4)
    return false;
  size_t n = exponents.size() - 1;
  double late = slope(n), early = slope((n + 1) / 2);
  return std::fabs(late) > kExponentialSlope &&
         late / early > kExponentialRatio;
}

void CarryFacts::extrapolate(double steps) {
  if (exponents.size() < 2 || steps <= 0)
    return;
  double n = static_cast<double>(exponents.size());
  double rise = 0;
  if (keepsRatio()) {
    rise = slope(exponents.size() - 1) * steps;
  } else {
    // Growth by a power of the count is linear in log2 of the count.
    size_t half = exponents.size() / 2;
    double power = (exponents.back() - exponents[half - (half > 0 ? 1 : 0)]) /
                   std::log2(n / std::max<double>(1.0, half));
    rise = power * std::log2((n + steps) / n);
  }
  ScaleFacts facts = latest;
  double factor = std::exp2(std::clamp(rise, -200.0, 200.0));
  facts.rms *= factor;
  facts.mean *= factor;
  facts.bound = std::max(facts.bound, facts.bound * factor);
  add(facts);
  if (iterations.size() == exponents.size() && setsScale(facts))
    iterations.back() += steps - 1;
}

CarryTrend CarryFacts::getTrend(bool atEnd) const {
  CarryTrend trend;
  if (exponents.empty())
    return trend;
  trend.first = exponents.front();
  if (atEnd) {
    trend.growth = slope(exponents.size() - 1);
    trend.start = exponents.back() - trend.growth * iterations.back();
  } else {
    // Least squares, with the line centred between the extreme residuals.
    auto n = static_cast<double>(exponents.size());
    double x = 0, y = 0, xx = 0, xy = 0;
    for (auto [at, exponent] : llvm::zip(iterations, exponents)) {
      x += at;
      y += exponent;
      xx += at * at;
      xy += at * exponent;
    }
    double spread = n * xx - x * x;
    trend.growth = spread > 0 ? (n * xy - x * y) / spread : 0;
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (auto [at, exponent] : llvm::zip(iterations, exponents)) {
      least = std::min(least, exponent - trend.growth * at);
      most = std::max(most, exponent - trend.growth * at);
    }
    trend.start = 0.5 * (least + most);
  }
  for (auto [at, exponent] : llvm::zip(iterations, exponents))
    trend.misfit = std::max(
        trend.misfit, std::fabs(exponent - trend.start - trend.growth * at));
  return trend;
}

double CarryFacts::spread() const {
  if (exponents.empty())
    return 0;
  auto [least, most] = std::minmax_element(exponents.begin(), exponents.end());
  return *most - *least;
}

ScaleFacts CarryFacts::merge() const {
  ScaleFacts facts = joined;
  facts.masked = masked;
  if (exponents.empty())
    return facts;
  auto [least, most] = std::minmax_element(exponents.begin(), exponents.end());
  auto terms = static_cast<double>(exponents.size());
  facts.rms = std::exp2(0.5 * (*least + *most));
  facts.mean = facts.rms * meanShare / terms;
  facts.density = densities / terms;
  return facts;
}
