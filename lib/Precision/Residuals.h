//===- Residuals.h - Differences that training makes small ------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_RESIDUALS_H
#define SCALIFY_LIB_PRECISION_RESIDUALS_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseSet.h"

namespace scalify {

/// The subtractions of a target from an output: one operand depends on weights,
/// the other on the batch alone, and no dot is between them and the loss. A
/// gradient that starts there falls with the loss, while the error of the
/// output stays. The gradient of a cross entropy falls with both.
llvm::DenseSet<mlir::Operation *> findResiduals(mlir::FunctionOpInterface func);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_RESIDUALS_H
