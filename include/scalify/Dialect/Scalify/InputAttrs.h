//===- InputAttrs.h - Attributes of programs before Import ------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_INPUTATTRS_H
#define SCALIFY_DIALECT_SCALIFY_INPUTATTRS_H

#include "mlir/IR/Operation.h"

namespace scalify {

/// Emits an error, and fails, if an op, or a function's argument or result, has
/// an attribute that is not of a program before Import, but a decision of a
/// stage.
llvm::LogicalResult verifyInputAttributes(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_INPUTATTRS_H
