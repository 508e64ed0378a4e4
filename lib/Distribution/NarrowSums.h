//===- NarrowSums.h - Sums over ranks of narrow data ------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_NARROWSUMS_H
#define SCALIFY_LIB_DISTRIBUTION_NARROWSUMS_H

#include "mlir/IR/Operation.h"

namespace scalify {

/// Writes an all-reduce or reduce-scatter of values that were narrow as an
/// exchange of the narrow data, of which each rank makes its part of the sum;
/// returns whether it did.
bool narrowSum(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_NARROWSUMS_H
