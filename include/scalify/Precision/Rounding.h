//===- Rounding.h - Stochastic rounding as arithmetic -----------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_ROUNDING_H
#define SCALIFY_PRECISION_ROUNDING_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

/// Makes a stochastic cast round to nearest, after rounding its operand
/// stochastically by integer arithmetic on F32 bits and `scalify.random_bits`.
/// A cast without a counter only becomes a cast to nearest.
void expandRounding(QuantizeOp cast);

} // namespace scalify

#endif // SCALIFY_PRECISION_ROUNDING_H
