//===- DelayedHistory.h - Arithmetic on a history of amaxes -----*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_DELAYEDHISTORY_H
#define SCALIFY_LIB_PRECISION_DELAYEDHISTORY_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"

namespace scalify {

/// One row of the history.
struct HistoryRow {
  /// The largest finite value of its format.
  float largest = 1;
  /// The scale while nothing has been seen.
  float predicted = 1;
};

/// Builds the amax of a value, of rank 0; 0 where it is not finite.
mlir::Value buildFiniteAmax(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value value);

/// Builds the amaxes of the slices along dimension 0, or with `whole` that of
/// all elements, as a vector; 0 where they are not finite.
mlir::Value buildFiniteAmaxes(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value value, bool whole);

/// Builds the smallest powers of two by which amaxes fit a format whose largest
/// value is `largest`; 0 where the amax is 0.
mlir::Value buildScalesOfAmaxes(mlir::OpBuilder &builder, mlir::Location loc,
                                mlir::Value amaxes, float largest,
                                int64_t margin);

/// Builds the entries of a vector as values of rank 0.
llvm::SmallVector<mlir::Value>
splitEntries(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value vector);

/// Builds one scale per row of `history`, as a vector.
mlir::Value buildDelayedScales(mlir::OpBuilder &builder, mlir::Location loc,
                               mlir::Value history, DelayedScaling delayed,
                               llvm::ArrayRef<HistoryRow> rows);

/// Builds the history with one more amax in each row, the oldest one out; rows
/// for which it is 0 stay.
mlir::Value buildNextHistory(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value history,
                             llvm::ArrayRef<mlir::Value> amaxes);

/// Builds the scales, one per row, of data that the last step wrote: those that
/// it says, or the predicted ones while they are 0.
mlir::Value buildStoredScales(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value stored,
                              llvm::ArrayRef<HistoryRow> rows);

/// Builds the scales of data that a step writes, by the amaxes of what the last
/// one wrote, `room` binades up; rows whose amax is 0 keep their scale.
mlir::Value buildNextScales(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value amaxes, mlir::Value scales,
                            int64_t room, llvm::ArrayRef<HistoryRow> rows);

/// Builds a vector of new amaxes; rows for which it is 0 stay.
mlir::Value buildNextAmaxes(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value amaxes,
                            llvm::ArrayRef<mlir::Value> measured);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_DELAYEDHISTORY_H
