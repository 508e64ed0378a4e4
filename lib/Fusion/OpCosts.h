//===- OpCosts.h - Costs of ops in a kernel ---------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_OPCOSTS_H
#define SCALIFY_LIB_FUSION_OPCOSTS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace scalify {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

inline int64_t countOf(mlir::Value value) {
  return typeOf(value).getNumElements();
}

/// Estimates the instructions per element.
double costOf(mlir::Operation *op);

/// True if the op only maps indices or is constant: storing its result is never
/// worth the memory.
bool isView(mlir::Operation *op);

/// Returns the number of operands that are read from memory as whole tensors.
unsigned largeOperands(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_OPCOSTS_H
