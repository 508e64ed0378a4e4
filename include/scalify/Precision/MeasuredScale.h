//===- MeasuredScale.h - Scales measured in the step ------------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_MEASUREDSCALE_H
#define SCALIFY_PRECISION_MEASUREDSCALE_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"

namespace scalify {

/// On a cast by blocks whose values are divided by their scales before it: its
/// own scale is one and says nothing.
inline constexpr llvm::StringLiteral kScaledAttr = "scalify.scaled";

/// Builds the smallest power of two s with amax(value) / s within the format,
/// times 2^margin.
/// 1 where the amax is 0 or not finite (current scaling, as in
/// TransformerEngine's Float8CurrentScaling with power-of-two scales).
mlir::Value buildAmaxScale(mlir::OpBuilder &builder, mlir::Location loc,
                           mlir::Value value, mlir::FloatType format,
                           int64_t margin);

/// The same for each block of `block` elements, 0 for a whole dimension: a
/// tensor of one scale per block, the last of which may be a part. NaN and
/// infinities do not count: the amax is that of a block's finite values.
mlir::Value buildBlockScales(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value value, mlir::FloatType format,
                             int64_t margin, llvm::ArrayRef<int64_t> block);

/// Builds the blocks' scales as a tensor of the shape of the data.
mlir::Value spreadBlockScales(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value scales, llvm::ArrayRef<int64_t> shape,
                              llvm::ArrayRef<int64_t> block);

} // namespace scalify

#endif // SCALIFY_PRECISION_MEASUREDSCALE_H
