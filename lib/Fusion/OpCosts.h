//===- OpCosts.h - Costs of ops in a kernel ---------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_OPCOSTS_H
#define SCALIFY_LIB_FUSION_OPCOSTS_H

#include "scalify/Dialect/StableHLO/Values.h"

namespace scalify {

/// Estimates the instructions per element.
double costOf(mlir::Operation *op);

/// True if the op only maps indices or is constant: storing its result is never
/// worth the memory.
bool isView(mlir::Operation *op);

/// Returns the number of operands that are read from memory as whole tensors.
unsigned largeOperands(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_OPCOSTS_H
