//===- Moments.cpp - Moments of functions of a random value ---------------===//

#include "Moments.h"

#include <cmath>

using namespace scalify;

// Beyond this variance the log-normal's moments say nothing of the data: they
// rest on a tail that no batch holds.
static constexpr double kMaxLogVariance = 2.0;

ScaleFacts scalify::squareFacts(const ScaleFacts &x) {
  double second = x.rms * x.rms;
  // 3 of a zero-mean normal, 1 of a constant.
  double share = second > 0 ? x.variance() / second : 0;
  double kurtosis = 1 + 2 * share;
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
  // The logarithm of something near 1 is near 0, not 0.
  facts.rms = std::max(facts.rms, 0.125);
  return facts;
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
