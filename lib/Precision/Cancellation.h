//===- Cancellation.h - Sums that amplify errors ----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_CANCELLATION_H
#define SCALIFY_LIB_PRECISION_CANCELLATION_H

#include "mlir/IR/Value.h"

namespace scalify {

/// True if the use is by a sum whose result is predicted to be smaller than the
/// operand by more than a binade. Rounding of the operand is then a larger part
/// of the result, as in 1 - a^2 for the decay a of a linear recurrence.
bool isCancelled(mlir::OpOperand &use);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_CANCELLATION_H
