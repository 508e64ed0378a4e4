//===- CarryFacts.h - One set of facts for a carry's history ----*- C++ -*-===//
//
// A loop's carry has other facts in each iteration, and the branches of a
// conditional give others each, but the value they meet in has one scale. The
// middle of the exponents leaves each of them the same distance from it.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_SCALING_CARRYFACTS_H
#define SCALIFY_SCALING_CARRYFACTS_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"

#include "llvm/ADT/SmallVector.h"

namespace scalify {

/// The exponents of a carry as `start + growth * iteration`.
struct CarryTrend {
  double start = 0;
  /// Binades an iteration.
  double growth = 0;
  /// The largest distance of an exponent from the line.
  double misfit = 0;
  /// The first exponent itself.
  double first = 0;
};

/// The facts that a value takes on, in order of time, and what they have in
/// common. What fits any scale (the zero that an accumulator starts from)
/// adopts that of the rest.
class CarryFacts {
public:
  void add(const ScaleFacts &facts);

  /// The last facts that were added.
  const ScaleFacts &last() const { return latest; }
  /// Whether adding `facts` would change the last ones by less than matters.
  bool isSettledAt(const ScaleFacts &facts) const;
  /// Adds what `steps` more iterations would: the trend continued, which is a
  /// power of the count (sums) or, where the ratio of neighbours does not
  /// fall, an exponential.
  void extrapolate(double steps);
  /// Whether neighbours keep a ratio other than one.
  bool keepsRatio() const;
  /// A line through the exponents; with `atEnd` the one that they end in.
  CarryTrend getTrend(bool atEnd) const;

  /// One set of facts for all: the middle of the exponents.
  ScaleFacts merge() const;
  /// The binades between the least and the largest.
  double spread() const;

private:
  double slope(size_t at) const;

  ScaleFacts latest;
  ScaleFacts joined;
  /// log2 of the root mean squares, without what fits any scale.
  llvm::SmallVector<double> exponents;
  /// The iteration of each exponent.
  llvm::SmallVector<double> iterations;
  double meanShare = 0, densities = 0;
  unsigned count = 0;
  bool masked = false;
};

} // namespace scalify

#endif // SCALIFY_SCALING_CARRYFACTS_H
