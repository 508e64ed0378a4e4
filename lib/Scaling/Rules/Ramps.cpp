//===- Ramps.cpp - Sizes along the places of a cumulative sum -------------===//

#include "Ramps.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace scalify;

/// Returns the mean of n^power over the places.
static double meanPower(double places, double power) {
  // Beyond this many places the means have converged, or grow smoothly.
  int count = static_cast<int>(std::min(places, 4096.0));
  double sum = 0;
  for (int n = 1; n <= count; ++n)
    sum += std::pow(n, power);
  return sum / count * (power > 0 ? std::pow(places / count, power) : 1.0);
}

static bool areOfOneSum(const Ramp &a, const Ramp &b) {
  return a.places == b.places && a.isReversed == b.isReversed;
}

Ramp scalify::powerOfRamp(const Ramp &x, double power) {
  Ramp ramp = x;
  ramp.power *= power;
  return ramp.power == 0 ? Ramp() : ramp;
}

Ramp scalify::productOfRamps(const Ramp &a, const Ramp &b, double power) {
  if (!b)
    return a;
  if (!a)
    return powerOfRamp(b, power);
  if (!areOfOneSum(a, b))
    return {};
  Ramp ramp = a;
  ramp.power += power * b.power;
  return ramp.power == 0 ? Ramp() : ramp;
}

Ramp scalify::rampOfSum(const ScaleFacts &a, const ScaleFacts &b) {
  if (a.rms < 0.125 * b.rms || a.anyScale)
    return b.ramp;
  if (b.rms < 0.125 * a.rms || b.anyScale)
    return a.ramp;
  bool agree = areOfOneSum(a.ramp, b.ramp) && a.ramp.power == b.ramp.power;
  return agree ? a.ramp : Ramp();
}

Ramp scalify::dropSummedRamp(const Ramp &x, llvm::ArrayRef<int64_t> summed) {
  return llvm::is_contained(summed, static_cast<int64_t>(x.places)) ? Ramp()
                                                                    : x;
}

void scalify::applyRampsToProduct(const ScaleFacts &a, const ScaleFacts &b,
                                  double power, ScaleFacts &out) {
  out.ramp = productOfRamps(a.ramp, b.ramp, power);
  if (!b.ramp || (a.ramp && !areOfOneSum(a.ramp, b.ramp)))
    return;
  double n = b.ramp.places, p = a.ramp.power, q = power * b.ramp.power;
  // A power of b follows its mean if that dominates b, else its size.
  bool byMean = power != 1 && std::fabs(b.mean) > 0.5 * b.rms;
  double ofMean = std::pow(meanPower(n, b.ramp.power), power);
  double ofRms = std::pow(meanPower(n, 2 * b.ramp.power), power / 2);
  double size = std::sqrt(meanPower(n, 2 * (p + q)) / meanPower(n, 2 * p));
  double mean = meanPower(n, p + q) / meanPower(n, p);
  out.rms *= size / (byMean ? ofMean : ofRms);
  out.mean *= mean / (byMean || power == 1 ? ofMean : ofRms);
  out.mean = std::clamp(out.mean, -out.rms, out.rms);
}
