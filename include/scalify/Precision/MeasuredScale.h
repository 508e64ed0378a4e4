//===- MeasuredScale.h - Scales measured in the step ------------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_MEASUREDSCALE_H
#define SCALIFY_PRECISION_MEASUREDSCALE_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"

namespace scalify {

/// On a cast whose operand is already divided by block scales. Its own scale is
/// 1 and carries no information.
inline constexpr llvm::StringLiteral kScaledAttr = "scalify.scaled";

/// Builds the smallest power of two s such that amax(value) / s fits the
/// format, times 2^margin; 1 if the amax is 0 or not finite (current scaling,
/// as in TransformerEngine's Float8CurrentScaling with power-of-two scales).
mlir::Value buildAmaxScale(mlir::OpBuilder &builder, mlir::Location loc,
                           mlir::Value value, mlir::FloatType format,
                           int64_t margin);

/// Builds a tensor with such a scale for each block of size `block`, where 0
/// spans a dimension. The last block of a dimension may be partial. The amax of
/// a block ignores NaN and infinities.
mlir::Value buildBlockScales(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value value, mlir::FloatType format,
                             int64_t margin, llvm::ArrayRef<int64_t> block);

/// Broadcasts block scales to the shape of the data.
mlir::Value spreadBlockScales(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value scales, llvm::ArrayRef<int64_t> shape,
                              llvm::ArrayRef<int64_t> block);

} // namespace scalify

#endif // SCALIFY_PRECISION_MEASUREDSCALE_H
