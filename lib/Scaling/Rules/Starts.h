//===- Starts.h - What parameters start from --------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_RULES_STARTS_H
#define SCALIFY_LIB_SCALING_RULES_STARTS_H

#include "mlir/IR/Value.h"

namespace scalify {

/// Where hundreds of steps of an adaptive optimizer take a gate.
inline constexpr double kEndOfGates = 0x1p-5;
/// As far as gates are taken to go from where they start.
inline constexpr double kMostOfGates = 0x1p8;

/// A weight that starts at zero passes through all sizes up to its last: its
/// own scale is lower by this than what its products are made of.
inline constexpr double kPathFromZero = 2.0;

/// Whether the value is a parameter of the model, in or out of loops.
bool isParameter(mlir::Value value);
/// Whether an argument that is declared to start at zero is behind the value.
bool startsAtZero(mlir::Value value);
/// By how much the size of a parameter that starts at zero, as an operand of a
/// product of tensors, is above its own scale; 1 for other operands.
double getGrowthFromZero(mlir::Operation *product);
/// Whether the result, perhaps with a bias, is multiplied by a parameter of one
/// number a channel that starts at zero or far below the usual size.
bool isBehindSmallGate(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_STARTS_H
