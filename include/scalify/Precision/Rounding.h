//===- Rounding.h - Stochastic rounding as arithmetic -----------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_ROUNDING_H
#define SCALIFY_PRECISION_ROUNDING_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

/// Makes a stochastic cast one to nearest, of a value that is rounded by
/// integer arithmetic on the bits of F32 and a `scalify.random_bits`. A cast
/// without a counter is one to nearest from here on.
void expandRounding(QuantizeOp cast);

} // namespace scalify

#endif // SCALIFY_PRECISION_ROUNDING_H
