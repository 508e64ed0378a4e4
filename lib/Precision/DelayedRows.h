//===- DelayedRows.h - Which casts share a history of amaxes ----*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_DELAYEDROWS_H
#define SCALIFY_LIB_PRECISION_DELAYEDROWS_H

#include "DelayedHistory.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

#include <string>

namespace scalify {

/// The rows of a step's history, and the delayed casts with the row of each.
struct DelayedRows {
  llvm::SmallVector<HistoryRow> entries;
  /// Of the first cast of each row.
  llvm::SmallVector<std::string> names;
  llvm::MapVector<mlir::Operation *, unsigned> rowOf;
};

/// Finds the casts to FP8 whose scales may be delayed. Casts that stand for one
/// place of the program have one row: the layers of a stack, whether a loop
/// runs them or they are written out, micro-batches, and what a checkpoint
/// makes again. So the same step, written in another of these ways, has the
/// same scales.
DelayedRows findDelayedRows(mlir::func::FuncOp main);

/// Rows of their own for casts that `canCarryScale` allows, but for those that
/// write data for one reader.
DelayedRows findRows(llvm::ArrayRef<QuantizeOp> casts);

/// Whether the scale of a cast, or a factor of the scale that the step
/// measures, may be a value that steps hand on: only the step knows it, and the
/// cast's amax can leave its loops and branches.
bool canCarryScale(QuantizeOp cast);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_DELAYEDROWS_H
