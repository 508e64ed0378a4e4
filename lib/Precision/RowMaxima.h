//===- RowMaxima.h - Maxima of cast statistics by rows ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_ROWMAXIMA_H
#define SCALIFY_LIB_PRECISION_ROWMAXIMA_H

#include "DelayedRows.h"

namespace scalify {

/// Builds statistics of a cast's operand before the cast: rank-0 values to be
/// combined by maximum, 0 for none. The last ones may be omitted.
using MeasureCast = llvm::function_ref<llvm::SmallVector<mlir::Value>(
    mlir::OpBuilder &, QuantizeOp)>;

/// Measures all casts that have a row, and returns the maximum of each
/// statistic from loops and branches. The results are values at the end of
/// main, in the order of rows, the statistics of a row adjacent.
llvm::SmallVector<mlir::Value> buildRowMaxima(mlir::func::FuncOp main,
                                              const DelayedRows &rows,
                                              unsigned numStatistics,
                                              MeasureCast measure);

/// Builds a vector of rank-0 values.
mlir::Value buildVector(mlir::OpBuilder &builder, mlir::Location loc,
                        llvm::ArrayRef<mlir::Value> entries);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_ROWMAXIMA_H
