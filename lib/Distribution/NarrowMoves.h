//===- NarrowMoves.h - What moves narrow data as it does wide ---*- C++ -*-===//
//
// Reshapes, transposes, slices and paddings by zero commute with casts.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_DISTRIBUTION_NARROWMOVES_H
#define SCALIFY_LIB_DISTRIBUTION_NARROWMOVES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"

namespace scalify {

/// Whether an op only moves elements of its first operand, or adds zeros.
bool isCastMove(mlir::Operation *op);

/// The op on data of another element type.
mlir::Value moveNarrow(mlir::OpBuilder &builder, mlir::Operation *move,
                       mlir::Value data);

/// The wide value of narrow data that is only moved behind; null where there is
/// none, or where blocks have scales of their own.
DequantizeOp findDequantize(mlir::Value value);

/// The narrow data of a value that `findDequantize` finds one for, moved as it
/// is, at the builder's place.
mlir::Value buildNarrow(mlir::OpBuilder &builder, mlir::Value value);

/// Whether scalar `value` can be had before `anchor`, and so that it is.
bool canHoist(mlir::Value value, mlir::Operation *anchor);
mlir::Value hoist(mlir::Value value, mlir::Operation *anchor);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_NARROWMOVES_H
