//===- Ramps.h - Sizes along the places of a cumulative sum -----*- C++ -*-===//
//
// Entry n of a cumulative sum has n terms: sizes differ along it, from one term
// to all of them. Moments over all places say what is sent on, but not what a
// division by it gives: 1 / n^2 is carried by the first places. So facts tell
// the power of n that sizes follow (`ScaleFacts::ramp`).
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_SCALING_RULES_RAMPS_H
#define SCALIFY_LIB_SCALING_RULES_RAMPS_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"

namespace scalify {

/// The ramp of x^power.
Ramp powerOfRamp(const Ramp &x, double power);
/// The ramp of the product of `a` with the `power`-th power of `b`; flat where
/// they are of different sums.
Ramp productOfRamps(const Ramp &a, const Ramp &b, double power = 1);
/// The ramp of a sum.
Ramp rampOfSum(const ScaleFacts &a, const ScaleFacts &b);
/// The ramp unless one of the dimensions that are summed over may be its own.
Ramp rampOutside(const Ramp &x, llvm::ArrayRef<int64_t> summed);

/// Corrects the moments of a times b^power, estimated as if both were of one
/// size at all places.
void placeProduct(const ScaleFacts &a, const ScaleFacts &b, double power,
                  ScaleFacts &out);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_RAMPS_H
