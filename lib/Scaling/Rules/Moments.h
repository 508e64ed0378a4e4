//===- Moments.h - Moments of functions of a random value -------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_RULES_MOMENTS_H
#define SCALIFY_LIB_SCALING_RULES_MOMENTS_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"

namespace scalify {

/// x * x of a normal x: mean rms^2, fourth moment 3 rms^4.
ScaleFacts squareFacts(const ScaleFacts &x);
/// exp of a normal x: log-normal, with masked elements (-inf) giving 0.
ScaleFacts exponentialOf(const ScaleFacts &x);
ScaleFacts logarithmOf(const ScaleFacts &x);
/// x^p: of the mean where the mean carries x, else of the magnitude.
ScaleFacts powerOf(const ScaleFacts &x, double power);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_MOMENTS_H
