//===- OpCosts.h - What an op costs inside a kernel -------------*- C++ -*-===//

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

/// Instructions for one element, roughly.
double costOf(mlir::Operation *op);

/// Whether the op only says where an element comes from: no memory is worth it.
bool isView(mlir::Operation *op);

/// Number of operands that are read as whole tensors of memory.
unsigned largeOperands(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_OPCOSTS_H
