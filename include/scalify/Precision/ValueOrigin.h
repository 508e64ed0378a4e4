//===- ValueOrigin.h - Origins of values, through loops ---------*- C++ -*-===//
//
// Loops hide the origin of an operand: a weight is a slice of an invariant
// carry, a forward activation a slice of a stack that another loop wrote. These
// functions look through such slices, carries and stacks.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_PRECISION_VALUEORIGIN_H
#define SCALIFY_PRECISION_VALUEORIGIN_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace scalify {

/// Looks through ops that move or convert data, invariant carries, and stacks
/// of a loop's values. A value and the backward's reads of it have the same
/// origin.
mlir::Value getOrigin(mlir::Value value);

/// Returns the argument of the step that is the origin of a value, as of a
/// weight; null if there is none. For a parameter that a loop updates, it is
/// the argument that initialises the carry.
mlir::Value getStepArgument(mlir::Value value);

/// Returns the argument of the step that is the origin of a value, unless its
/// role is batch; null if there is none. Without roles, every argument counts.
mlir::Value getWeight(mlir::Value value);

/// True if the value is computed from weights and constants alone, as a
/// normalised weight is. False without roles: then the batch is unknown.
bool isComputedFromWeights(mlir::Value value);

/// Returns the weights from which such a value is computed; none for others.
llvm::SmallVector<mlir::Value> getSourceWeights(mlir::Value value);

/// True if the value was computed in the backward phase. Data movement does not
/// count: a slice, in the backward, of a stack of the forward is forward.
bool isGradient(mlir::Value value);

} // namespace scalify

#endif // SCALIFY_PRECISION_VALUEORIGIN_H
