//===- Pieces.h - Stacks that loops write slice by slice --------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_PIECES_H
#define SCALIFY_LIB_DISTRIBUTION_PIECES_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// Returns the last loop that writes the slices of a value one by one; null if
/// there is none, or if a slice depends on more than that slice of stacks.
stablehlo::WhileOp findStackingLoop(mlir::Value value);

/// True if a loop returned by `findStackingLoop` writes the last slice first,
/// as a backward pass does.
bool isWrittenInReverse(stablehlo::WhileOp loop);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_PIECES_H
