//===- ForwardOps.h - Ops that the loss needs -------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_FORWARDOPS_H
#define SCALIFY_LIB_IMPORT_PHASES_FORWARDOPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseSet.h"

namespace scalify::import {

using OpSet = llvm::DenseSet<mlir::Operation *>;

/// Returns the ops of `block` that `values` depend on.
OpSet getDependencies(mlir::Block &block, llvm::ArrayRef<mlir::Value> values);

/// Returns the ops of main's block that compute the loss. If the program
/// returns gradients but no loss, returns the ops before the first gradient.
/// Empty if neither is found.
OpSet findForwardOps(mlir::func::FuncOp main);

/// Returns the first op of main's block that belongs to a derivative, or null.
mlir::Operation *findFirstGradient(mlir::func::FuncOp main);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_PHASES_FORWARDOPS_H
