//===- Composites.h - Composite ops become calls or hints -------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_COMPOSITES_H
#define SCALIFY_LIB_IMPORT_COMPOSITES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify::import {

/// Replaces every composite of a function: one of `scalify.lax` by its op of
/// the scalify dialect, any other by a call of its decomposition.
llvm::LogicalResult replaceComposites(mlir::func::FuncOp function);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_COMPOSITES_H
