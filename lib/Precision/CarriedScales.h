//===- CarriedScales.h - Arithmetic on scales that steps carry --*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_CARRIEDSCALES_H
#define SCALIFY_LIB_PRECISION_CARRIEDSCALES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"

namespace scalify {

/// What moves the scale of one row.
struct CarriedRow {
  /// The format's largest value.
  float largest = 1;
  /// Where the amax may be, in units of the scale.
  float low = 1, high = 1;
  /// The scale while none was set.
  float predicted = 1;
  /// Binades between the amax and the largest value behind a move.
  int room = 1;
  /// The step measures the scale, and the row holds a factor of it, below zero:
  /// so a program does not take the one for the other.
  bool isFactor = false;
};

/// The row of a cast of `value` to `format`, by a constant scale.
CarriedRow getCarriedRow(mlir::Value value, mlir::FloatType format,
                         float predicted);

/// Builds the scale of a cast by what it reads in this step: the constant where
/// that holds it, and else what a carried scale would be in the next step.
mlir::Value buildFittedScale(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value value, mlir::Value constant,
                             mlir::FloatType format);

/// How many statistics of a cast there are.
inline constexpr unsigned kNumCarriedStatistics = 2;

/// Builds the amax of what a cast reads, 0 where it is not finite, and a number
/// above 0 where the cast makes too many elements zero that were not; of what a
/// product has made the amax alone.
llvm::SmallVector<mlir::Value> buildCarriedStatistics(mlir::OpBuilder &builder,
                                                      QuantizeOp cast);

/// Builds the scales of a step, or the factors of what it measures, a vector:
/// those of the state, and the predicted ones where it has none.
mlir::Value buildCarriedScales(mlir::OpBuilder &builder, mlir::Location loc,
                               mlir::Value state,
                               llvm::ArrayRef<CarriedRow> rows);

/// Builds the next step's state by the statistics of all casts, those of one
/// row behind each other. Rows that nothing moves stay as they are.
mlir::Value buildNextCarried(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value state, mlir::Value scales,
                             llvm::ArrayRef<mlir::Value> statistics,
                             llvm::ArrayRef<CarriedRow> rows);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_CARRIEDSCALES_H
