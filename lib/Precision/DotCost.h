//===- DotCost.h - What FP8 costs and saves a dot ---------------*- C++ -*-===//
//
// A model of one H100, by the constants of Targets.h. A dot is as fast as its
// tiles, its bytes, or a call of the library. A cast writes a byte an element
// for each dot that reads it (a copy with K minor-most, which is all that the
// tensor cores take) and reads two once, twice to measure an amax, in a kernel
// of its own; those that read share this. What the step computes, with a scale
// that is known before, is cast where it is made: nothing is read again.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_PRECISION_DOTCOST_H
#define SCALIFY_LIB_PRECISION_DOTCOST_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// One operand's cast.
struct CastCost {
  int64_t elements;
  /// Dots that read it in FP8.
  unsigned readers;
  /// Its values come from outside of the step.
  bool isArgument;
};

struct DotCost {
  int64_t batch, m, n, k;
  /// Microseconds, casts included.
  double float8, bfloat16;

  bool isProfitable() const { return float8 < bfloat16; }
  /// "8192 x 1024 x 4096 takes 88 us in FP8, casts included, 87 us in BF16"
  std::string describe() const;
};

DotCost estimateCost(stablehlo::DotGeneralOp dot, ScaleSource scales,
                     llvm::ArrayRef<CastCost> casts);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_DOTCOST_H
