//===- DelayedHistory.h - Arithmetic on the history of amaxes ---*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_DELAYEDHISTORY_H
#define SCALIFY_LIB_PRECISION_DELAYEDHISTORY_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"

namespace scalify {

/// One row of the history.
struct HistoryRow {
  /// The largest finite value of its format.
  float largest = 1;
  /// The scale while no amax is known.
  float predicted = 1;
};

/// Builds the rank-0 amax of a value; 0 if it is not finite.
mlir::Value buildFiniteAmax(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value value);

/// Builds a vector of the amaxes of the slices along dimension 0, or, with
/// `whole`, of the amax of all elements; 0 where they are not finite.
mlir::Value buildFiniteAmaxes(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value value, bool whole);

/// Builds the smallest powers of two by which amaxes fit a format whose largest
/// value is `largest`, `margin` binades up; 0 where the amax is 0.
mlir::Value buildScalesOfAmaxes(mlir::OpBuilder &builder, mlir::Location loc,
                                mlir::Value amaxes, float largest,
                                int64_t margin);

/// Builds the entries of a vector as rank-0 values.
llvm::SmallVector<mlir::Value>
splitEntries(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value vector);

/// Builds one scale per row of `history`, as a vector.
mlir::Value buildDelayedScales(mlir::OpBuilder &builder, mlir::Location loc,
                               mlir::Value history, DelayedScaling delayed,
                               llvm::ArrayRef<HistoryRow> rows);

/// Builds the history with one more amax in each row, and without the oldest.
/// Rows whose new amax is 0 stay as they are.
mlir::Value buildNextHistory(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value history,
                             llvm::ArrayRef<mlir::Value> amaxes);

/// Builds the scales, one per row, of the data that the last step wrote: those
/// in `stored`, or the predicted ones while these are 0.
mlir::Value buildStoredScales(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value stored,
                              llvm::ArrayRef<HistoryRow> rows);

/// Builds the scales by which a step writes data: the smallest ones that make
/// the amaxes of the data that the last step wrote as large as the rows say.
/// Rows whose amax is 0 keep their scale.
mlir::Value buildNextScales(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value amaxes, mlir::Value scales,
                            llvm::ArrayRef<HistoryRow> rows);

/// Builds the vector of new amaxes. Rows whose new amax is 0 keep the old one.
mlir::Value buildNextAmaxes(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value amaxes,
                            llvm::ArrayRef<mlir::Value> measured);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_DELAYEDHISTORY_H
