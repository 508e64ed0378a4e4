//===- EarlyGradients.h - Gradients that a forward makes --------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_EARLYGRADIENTS_H
#define SCALIFY_LIB_IMPORT_PHASES_EARLYGRADIENTS_H

#include "Phases.h"

namespace scalify::import {

/// Tells ops of `block` that names count as forward, but which make gradients,
/// as backward: see the top of EarlyGradients.cpp. `losses` are what the block
/// is evaluated for.
void tellEarlyGradients(mlir::Block &block, llvm::ArrayRef<mlir::Value> losses,
                        PhaseMap &told);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_PHASES_EARLYGRADIENTS_H
