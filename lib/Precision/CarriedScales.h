//===- CarriedScales.h - Arithmetic on carried scales -----------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_CARRIEDSCALES_H
#define SCALIFY_LIB_PRECISION_CARRIEDSCALES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"

namespace scalify {

/// The rule by which the scale of one row moves.
struct CarriedRow {
  /// The format's largest value.
  float largest = 1;
  /// The window of the amax, in units of the scale.
  float low = 1, high = 1;
  /// The scale while the state has none.
  float predicted = 1;
  /// Binades between the amax and the largest value after a move.
  int room = 1;
  /// True if the step measures the scale and the row holds a factor of it. The
  /// state stores factors as negative numbers, so that a program cannot mistake
  /// them for scales.
  bool isFactor = false;
};

/// Returns the row of a cast of `value` to `format` by the scale `predicted`.
CarriedRow getCarriedRow(mlir::Value value, mlir::FloatType format,
                         float predicted);

/// Builds the scale of a cast from its operand in this step: the constant if
/// that holds the operand, else the carried scale that the next step would use.
mlir::Value buildFittedScale(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value value, mlir::Value constant,
                             mlir::FloatType format);

/// The number of statistics of a cast.
inline constexpr unsigned kNumCarriedStatistics = 2;

/// Builds the amax of a cast's operand, 0 if it is not finite, and a number
/// above 0 if the cast flushes too many elements. For results of dots, builds
/// the amax alone.
llvm::SmallVector<mlir::Value> buildCarriedStatistics(mlir::OpBuilder &builder,
                                                      QuantizeOp cast);

/// Builds the vector of a step's scales, or factors of measured scales: those
/// of the state, or the predicted ones where it has none.
mlir::Value buildCarriedScales(mlir::OpBuilder &builder, mlir::Location loc,
                               mlir::Value state,
                               llvm::ArrayRef<CarriedRow> rows);

/// Builds the next step's state from the statistics of all rows, those of one
/// row adjacent. Rows that do not move keep their state.
mlir::Value buildNextCarried(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value state, mlir::Value scales,
                             llvm::ArrayRef<mlir::Value> statistics,
                             llvm::ArrayRef<CarriedRow> rows);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_CARRIEDSCALES_H
