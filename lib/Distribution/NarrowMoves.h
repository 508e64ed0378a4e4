//===- NarrowMoves.h - Data movement that commutes with casts ---*- C++ -*-===//
//
// Reshapes, transposes, slices and padding with zero commute with casts.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_DISTRIBUTION_NARROWMOVES_H
#define SCALIFY_LIB_DISTRIBUTION_NARROWMOVES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"

namespace scalify {

/// True if an op only moves elements of its first operand, or adds zeros.
bool commutesWithCast(mlir::Operation *op);

/// Clones a move for data of another element type.
mlir::Value cloneMove(mlir::OpBuilder &builder, mlir::Operation *move,
                      mlir::Value data);

/// Returns the dequantize that `value` is computed from by moves only; null if
/// there is none, or if its blocks have scales of their own.
DequantizeOp findDequantize(mlir::Value value);

/// Applies the moves between `findDequantize(value)` and `value` to the narrow
/// data, at the builder's insertion point.
mlir::Value buildNarrow(mlir::OpBuilder &builder, mlir::Value value);

/// True if `value` is available before `anchor`, or can be hoisted to it.
bool canHoist(mlir::Value value, mlir::Operation *anchor);
/// Hoists the ops that compute `value` before `anchor`; constants are cloned.
mlir::Value hoist(mlir::Value value, mlir::Operation *anchor);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_NARROWMOVES_H
