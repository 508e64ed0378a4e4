//===- EarlyGradients.h - Gradients that a forward makes --------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_EARLYGRADIENTS_H
#define SCALIFY_LIB_IMPORT_PHASES_EARLYGRADIENTS_H

#include "Phases.h"

namespace scalify::import {

/// Marks ops of `block` that compute gradients as backward, although they are
/// forward by their names (see EarlyGradients.cpp). `losses` are the values
/// that the block is evaluated for.
void markEarlyGradients(mlir::Block &block, llvm::ArrayRef<mlir::Value> losses,
                        PhaseMap &told);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_PHASES_EARLYGRADIENTS_H
