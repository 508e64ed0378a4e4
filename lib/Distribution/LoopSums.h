//===- LoopSums.h - Sums that loops accumulate ------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_LOOPSUMS_H
#define SCALIFY_LIB_DISTRIBUTION_LOOPSUMS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// Returns the value that a loop adds to a carry without other uses, such as a
/// gradient of micro-batches; null for other carries.
mlir::Value getAddend(stablehlo::WhileOp loop, unsigned index);

/// True if a carry of a loop starts from zeros.
bool startsFromZero(stablehlo::WhileOp loop, unsigned index);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_LOOPSUMS_H
