//===- Pieces.h - Stacks that loops write slice by slice --------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_PIECES_H
#define SCALIFY_LIB_DISTRIBUTION_PIECES_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// The last loop that makes slices of a value one after the other; null where
/// there is none, or where a slice needs more than that of a stack.
stablehlo::WhileOp findStackingLoop(mlir::Value value);

/// Whether a loop that `findStackingLoop` finds makes the last slices first, as
/// a backward does.
bool isWrittenBackwards(stablehlo::WhileOp loop);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_PIECES_H
