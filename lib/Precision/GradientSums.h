//===- GradientSums.h - Gradient sums that loops carry ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_GRADIENTSUMS_H
#define SCALIFY_LIB_PRECISION_GRADIENTSUMS_H

#include "Caster.h"

#include "scalify/Dialect/StableHLO/ControlFlow.h"

namespace scalify {

/// Returns the value that the body adds to carry `index` in each iteration,
/// looking through casts of the sum; null if the body uses the carry otherwise.
mlir::Value getAddedTerm(stablehlo::WhileOp loop, unsigned index);

/// Narrows sums that a loop carries to a format, each with a scale that every
/// iteration measures. A sum that does not start from zero stays as it is.
/// Replaces `loop` by one with more carries. Fails under `strict` if there are
/// more terms than FP8 can hold.
llvm::LogicalResult narrowSums(stablehlo::WhileOp loop,
                               llvm::ArrayRef<unsigned> indices,
                               mlir::FloatType format, Caster &caster,
                               bool strict);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_GRADIENTSUMS_H
