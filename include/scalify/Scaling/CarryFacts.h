//===- CarryFacts.h - One set of facts for a carry's history ----*- C++ -*-===//
//
// A loop's carry has different facts in each iteration, and so has a
// conditional's result in each branch, but the joined value has one scale. The
// middle of the exponents is equally far from the smallest and the largest one.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_SCALING_CARRYFACTS_H
#define SCALIFY_SCALING_CARRYFACTS_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"

#include "llvm/ADT/SmallVector.h"

namespace scalify {

/// Sizes that differ by fewer binades count as equal: iterations that move a
/// size by less change no scale.
inline constexpr double kSettledBinades = 0.01;

/// A line through the exponents of a carry: `start + growth * iteration`.
struct CarryTrend {
  double start = 0;
  /// Binades per iteration.
  double growth = 0;
  /// The largest distance of an exponent from the line.
  double misfit = 0;
  /// The first exponent, which need not be on the line.
  double first = 0;
};

/// Collects the facts of a value, in order of time, and merges them. Facts that
/// fit any scale (the zero that an accumulator starts from) take the scale of
/// the others.
class CarryFacts {
public:
  void add(const ScaleFacts &facts);

  /// Returns the facts that were added last.
  const ScaleFacts &last() const { return latest; }
  /// True if `facts` differ too little from the last facts to change a scale.
  bool isSettledAt(const ScaleFacts &facts) const;
  /// Adds the facts after `steps` more iterations by continuing the trend: an
  /// exponential if the ratio of successive values does not fall, else a power
  /// of the count (sums).
  void extrapolate(double steps);
  /// True if successive values keep a ratio other than one.
  bool keepsRatio() const;
  /// Fits a line to all exponents, or with `atEnd` to the last two.
  CarryTrend getTrend(bool atEnd) const;

  /// Merges all facts into one set, at the middle of the exponents.
  ScaleFacts merge() const;
  /// Returns the binades between the smallest and the largest exponent.
  double spread() const;

private:
  double slope(size_t at) const;

  ScaleFacts latest;
  ScaleFacts joined;
  /// log2 of the root mean squares, except of facts that fit any scale.
  llvm::SmallVector<double> exponents;
  /// The iteration of each exponent.
  llvm::SmallVector<double> iterations;
  double meanShare = 0, densities = 0;
  unsigned count = 0;
  bool masked = false;
};

} // namespace scalify

#endif // SCALIFY_SCALING_CARRYFACTS_H
