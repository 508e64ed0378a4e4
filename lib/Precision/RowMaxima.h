//===- RowMaxima.h - What a step has seen of its casts ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_ROWMAXIMA_H
#define SCALIFY_LIB_PRECISION_ROWMAXIMA_H

#include "DelayedRows.h"

namespace scalify {

/// Builds statistics of what a cast reads, in front of it: values of rank 0
/// whose maximum counts, 0 for nothing. The last ones may be left out.
using MeasureCast = llvm::function_ref<llvm::SmallVector<mlir::Value>(
    mlir::OpBuilder &, QuantizeOp)>;

/// Measures all casts that have a row, and carries the largest of each
/// statistic out of loops and branches. Returns values at the end of main: the
/// statistics of a row behind each other, in the order of rows.
llvm::SmallVector<mlir::Value> buildRowMaxima(mlir::func::FuncOp main,
                                              const DelayedRows &rows,
                                              unsigned numStatistics,
                                              MeasureCast measure);

/// Builds one vector of values of rank 0.
mlir::Value buildVector(mlir::OpBuilder &builder, mlir::Location loc,
                        llvm::ArrayRef<mlir::Value> entries);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_ROWMAXIMA_H
