//===- Ramps.h - Sizes along the places of a cumulative sum -----*- C++ -*-===//
//
// Entry n of a cumulative sum has n terms, so sizes differ along it, from one
// term to all of them. Moments over all places describe the sum, but not the
// result of a division by it: the first places dominate 1 / n^2. So facts
// record the power of n that sizes follow (`ScaleFacts::ramp`).
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_SCALING_RULES_RAMPS_H
#define SCALIFY_LIB_SCALING_RULES_RAMPS_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"

namespace scalify {

/// Returns the ramp of x^power.
Ramp powerOfRamp(const Ramp &x, double power);
/// Returns the ramp of the product of `a` with the `power`-th power of `b`;
/// flat if they are of different sums.
Ramp productOfRamps(const Ramp &a, const Ramp &b, double power = 1);
/// Returns the ramp of a sum.
Ramp rampOfSum(const ScaleFacts &a, const ScaleFacts &b);
/// Returns the ramp, unless one of the summed dimensions may be its own.
Ramp dropSummedRamp(const Ramp &x, llvm::ArrayRef<int64_t> summed);

/// Corrects the moments of a times b^power, which were estimated as if both had
/// one size at all places.
void applyRampsToProduct(const ScaleFacts &a, const ScaleFacts &b, double power,
                         ScaleFacts &out);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_RAMPS_H
