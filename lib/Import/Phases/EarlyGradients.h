//===- EarlyGradients.h - Gradients that a forward makes --------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_EARLYGRADIENTS_H
#define SCALIFY_LIB_IMPORT_PHASES_EARLYGRADIENTS_H

#include "Phases.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify::import {

/// Returns the operand that would be the cotangent of the layer's result, if
/// `dot` has the form of a gradient of `layer`; else null.
mlir::Value getCotangent(stablehlo::DotGeneralOp dot,
                         stablehlo::DotGeneralOp layer);

/// Marks ops of `block` that compute gradients as backward, although they are
/// forward by their names (see EarlyGradients.cpp). `losses` are the values
/// that the block is evaluated for.
void markEarlyGradients(mlir::Block &block, llvm::ArrayRef<mlir::Value> losses,
                        PhaseMap &told);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_PHASES_EARLYGRADIENTS_H
