//===- ValueOrigin.h - Where an operand comes from --------------*- C++ -*-===//
//
// Loops hide what an operand is: a weight comes as a slice of a carry that
// never changes, an activation of the forward as a slice of what another loop
// stacked. These functions look through that.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_PRECISION_VALUEORIGIN_H
#define SCALIFY_PRECISION_VALUEORIGIN_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace scalify {

/// The value behind ops that move or convert data, carries that never change
/// and stacks of a loop's values: equal for a value and for what the backward
/// reads of it.
mlir::Value getOrigin(mlir::Value value);

/// The argument of the step behind a value, as of a weight; null if there is
/// none. A parameter that a loop updates counts as the argument that it starts
/// from.
mlir::Value getStepArgument(mlir::Value value);

/// The argument of the step behind a value, unless it is of the step's batch;
/// null if there is none. Without roles, every argument counts.
mlir::Value getWeight(mlir::Value value);

/// Whether nothing but weights and constants is behind a value: as behind a
/// normalised weight. Without roles, a batch is not known: then nothing is.
bool isMadeOfWeights(mlir::Value value);

/// The weights that such a value is made of.
llvm::SmallVector<mlir::Value> getWeightsBehind(mlir::Value value);

/// Whether the value was made in the backward phase. What only moves data has
/// no say: a slice in the backward of what the forward stacked is forward.
bool isGradient(mlir::Value value);

} // namespace scalify

#endif // SCALIFY_PRECISION_VALUEORIGIN_H
