//===- ForwardOps.h - What the loss needs -----------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_FORWARDOPS_H
#define SCALIFY_LIB_IMPORT_PHASES_FORWARDOPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseSet.h"

namespace scalify::import {

using OpSet = llvm::DenseSet<mlir::Operation *>;

/// The ops of `block` that `values` need.
OpSet getNeeds(mlir::Block &block, llvm::ArrayRef<mlir::Value> values);

/// The ops of main's block that evaluate the loss; of a program that returns no
/// loss but gradients, the ops before the first gradient. Empty if neither is
/// found.
OpSet findForwardOps(mlir::func::FuncOp main);

/// The first op of main's block that belongs to a derivative, or null.
mlir::Operation *findFirstGradient(mlir::func::FuncOp main);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_PHASES_FORWARDOPS_H
