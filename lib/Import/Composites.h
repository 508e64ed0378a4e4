//===- Composites.h - Replace composites by calls or hints ------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_COMPOSITES_H
#define SCALIFY_LIB_IMPORT_COMPOSITES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify::import {

/// Replaces every composite of a function: those of `scalify.lax` by ops of the
/// scalify dialect, others by calls of their decompositions.
llvm::LogicalResult replaceComposites(mlir::func::FuncOp function);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_COMPOSITES_H
