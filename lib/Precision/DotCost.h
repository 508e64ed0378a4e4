//===- DotCost.h - A cost model of dots in FP8 and BF16 ---------*- C++ -*-===//
//
// A model of the GPU that the target names for formats. A dot takes the longest
// of its tiles, its memory traffic, and a call of the library. A cast writes a
// byte per element for each dot that reads it: a copy with K minor-most, the
// only layout that the tensor cores take. A kernel of its own reads two bytes
// per element, twice to measure an amax; the reading dots share its cost. If
// the scale of a value of the step is known before, its producer casts it:
// nothing is read again.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_PRECISION_DOTCOST_H
#define SCALIFY_LIB_PRECISION_DOTCOST_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// The cast of one operand.
struct CastCost {
  int64_t elements;
  /// The number of dots that read it in FP8.
  unsigned readers;
  /// True if its values come from an argument of the step.
  bool isArgument;
};

struct DotCost {
  int64_t batch, m, n, k;
  /// Microseconds; `float8` includes the casts.
  double float8, bfloat16;

  bool isProfitable() const { return float8 < bfloat16; }
  /// Returns, e.g., "8192 x 1024 x 4096 takes 88.0 us in FP8, casts included,
  /// and 87.0 us in BF16".
  std::string describe() const;
};

DotCost estimateCost(stablehlo::DotGeneralOp dot, ScaleSource scales,
                     llvm::ArrayRef<CastCost> casts);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_DOTCOST_H
