//===- AmaxScale.h - Scales measured in the step ----------------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_AMAXSCALE_H
#define SCALIFY_PRECISION_AMAXSCALE_H

#include "mlir/IR/Builders.h"

namespace scalify {

/// The largest finite magnitude of an FP8 format.
double getLargestFinite(mlir::FloatType format);

/// Builds the smallest power of two s with amax(value) / s within the format.
/// 1 where the amax is 0 or not finite (current scaling, as in
/// TransformerEngine's Float8CurrentScaling with power-of-two scales).
mlir::Value buildAmaxScale(mlir::OpBuilder &builder, mlir::Location loc,
                           mlir::Value value, mlir::FloatType format);

} // namespace scalify

#endif // SCALIFY_PRECISION_AMAXSCALE_H
