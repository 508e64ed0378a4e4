//===- GradientSums.h - Sums of gradients that loops carry ------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_GRADIENTSUMS_H
#define SCALIFY_LIB_PRECISION_GRADIENTSUMS_H

#include "Caster.h"

#include "scalify/Dialect/StableHLO/ControlFlow.h"

namespace scalify {

/// What the body adds to carry `index` in each iteration, perhaps through casts
/// of the sum; null if it does anything else with the carry.
mlir::Value getAddedTerm(stablehlo::WhileOp loop, unsigned index);

/// Lets sums that a loop carries be data of a format, each by a scale that
/// every iteration measures; one that does not start from zero stays as it is.
/// Erases `loop` for one with more carries. Fails under `strict` where more are
/// added up than FP8 can hold.
llvm::LogicalResult narrowSums(stablehlo::WhileOp loop,
                               llvm::ArrayRef<unsigned> indices,
                               mlir::FloatType format, Caster &caster,
                               bool strict);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_GRADIENTSUMS_H
