//===- Slices.h - What is done slice by slice -------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_SLICES_H
#define SCALIFY_DIALECT_SCALIFY_SLICES_H

#include "mlir/IR/Operation.h"

namespace scalify {

/// Whether an operand has the slices of an op that keeps them; others are
/// scalars.
bool isSliced(mlir::Value operand);

/// Whether each slice of the one result, along its first dimension, is what the
/// op makes of the same slices of its operands, and of scalars: elementwise
/// ops, casts, and what moves elements within slices.
bool keepsSlices(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_SLICES_H
