//===- NarrowSums.h - Sums over ranks of narrow data ------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_NARROWSUMS_H
#define SCALIFY_LIB_DISTRIBUTION_NARROWSUMS_H

#include "mlir/IR/Operation.h"

namespace scalify {

/// Rewrites an all-reduce or reduce-scatter of dequantized values as an
/// all-to-all of the narrow data, of which each rank sums its piece. Returns
/// whether it did.
bool narrowSum(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_NARROWSUMS_H
