//===- Slices.h - Ops that work slice by slice ------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_SLICES_H
#define SCALIFY_DIALECT_SCALIFY_SLICES_H

#include "mlir/IR/Operation.h"

namespace scalify {

/// True if an operand has the slices of an op that keeps them, rather than
/// being a scalar.
bool isSliced(mlir::Value operand);

/// True if each slice of the one result, along its first dimension, depends
/// only on the same slices of the operands, and on scalars: elementwise ops,
/// casts, and moves of elements within slices.
bool keepsSlices(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_SLICES_H
