//===- LoopSums.h - What loops add up ---------------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_LOOPSUMS_H
#define SCALIFY_LIB_DISTRIBUTION_LOOPSUMS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// What a loop adds to a carry that is read for nothing else, as a gradient of
/// micro-batches; null for others.
mlir::Value getAddend(stablehlo::WhileOp loop, unsigned index);

/// Whether a carry of a loop starts from zeros.
bool startsFromZero(stablehlo::WhileOp loop, unsigned index);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_LOOPSUMS_H
