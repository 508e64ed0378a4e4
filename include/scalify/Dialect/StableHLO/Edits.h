//===- Edits.h - Edits of ops and functions in place ------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_EDITS_H
#define SCALIFY_DIALECT_STABLEHLO_EDITS_H

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace scalify::stablehlo {

/// Erases the dead ops of a block, also those that only dead ops read. With
/// `inControlFlow`, also those in its loops and branches.
void eraseDeadOps(mlir::Block &block, bool inControlFlow = false);

/// Builds an op anew in front of it, with other operands and types. The regions
/// move to the new op; the caller replaces and erases the old one.
mlir::Operation *rebuildOp(mlir::Operation *op, mlir::ValueRange operands,
                           mlir::TypeRange types);

/// Gives a function the types of its arguments and of what it returns.
void updateFunctionType(mlir::FunctionOpInterface function);

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_EDITS_H
