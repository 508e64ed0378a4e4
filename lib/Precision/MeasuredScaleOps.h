//===- MeasuredScaleOps.h - Measured scales as arithmetic -------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_MEASUREDSCALEOPS_H
#define SCALIFY_LIB_PRECISION_MEASUREDSCALEOPS_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"

namespace scalify {

/// Builds the value of a `scalify.measured_scale`; with axes, of a
/// `scalify.measured_row_scales`.
mlir::Value buildMeasuredScale(mlir::OpBuilder &builder, mlir::Location loc,
                               mlir::Value value, mlir::Value base,
                               Statistic statistic, int64_t sample,
                               llvm::ArrayRef<int64_t> axes = {});

/// Builds the unrounded root mean square of a value: a small fraction of `base`
/// if all elements are zero, `base` if it is not finite.
mlir::Value buildRootMeanSquare(mlir::OpBuilder &builder, mlir::Location loc,
                                mlir::Value value, mlir::Value base);

/// Builds the scale of `buildAmaxScale` for each row of f32 magnitudes, as a
/// tensor of their rank with size 1 along the axes.
mlir::Value buildRowAmaxScales(mlir::OpBuilder &builder, mlir::Location loc,
                               mlir::Value magnitude, mlir::FloatType format,
                               int64_t margin, llvm::ArrayRef<int64_t> axes);

/// Builds the value of a `scalify.round_scale`.
mlir::Value buildRoundedScale(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value scale);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_MEASUREDSCALEOPS_H
