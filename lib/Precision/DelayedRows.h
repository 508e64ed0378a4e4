//===- DelayedRows.h - Rows of the history of amaxes ------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_DELAYEDROWS_H
#define SCALIFY_LIB_PRECISION_DELAYEDROWS_H

#include "DelayedHistory.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

#include <string>

namespace scalify {

/// The rows of a step's state, and the row of each cast.
struct DelayedRows {
  llvm::SmallVector<HistoryRow> entries;
  /// The name of the first cast of each row.
  llvm::SmallVector<std::string> names;
  llvm::MapVector<mlir::Operation *, unsigned> rowOf;
};

/// Finds the casts to FP8 whose scales may be delayed. Casts at one place of
/// the program share a row: those of the layers of a stack, in a loop or
/// unrolled, of micro-batches, and of values that a checkpoint rematerialises.
/// So the scales do not depend on which of these forms the step has.
DelayedRows findDelayedRows(mlir::func::FuncOp main);

/// Gives each cast, for which `canCarryScale` must hold, a row of its own;
/// casts that write data for one reader share one.
DelayedRows findRows(llvm::ArrayRef<QuantizeOp> casts);

/// True if steps may carry the scale of a cast, or a factor of its measured
/// scale: only the step uses the scale, and the cast's amax can leave its loops
/// and branches.
bool canCarryScale(QuantizeOp cast);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_DELAYEDROWS_H
