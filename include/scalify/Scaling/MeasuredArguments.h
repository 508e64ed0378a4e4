//===- MeasuredArguments.h - Scales that the step measures ------*- C++ -*-===//

#ifndef SCALIFY_SCALING_MEASUREDARGUMENTS_H
#define SCALIFY_SCALING_MEASUREDARGUMENTS_H

#include "mlir/IR/Value.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace scalify {

/// On an argument of main whose scale the step measures: log2 of the size that
/// it counts as in predictions.
inline constexpr llvm::StringLiteral kMeasuredAttr = "scalify.measured";

/// What reports say of such an argument.
inline constexpr llvm::StringLiteral kMeasuredReason =
    "measured in each step: no declared scale";

/// On `scalify.measured_scale`: the root mean square as it is. Its readers
/// round, so that roundings do not add up.
inline constexpr llvm::StringLiteral kUnroundedAttr = "scalify.unrounded";

/// Whether the scale of an argument follows from what the step writes into it:
/// declared to start at zero, or state other than the model's parameters.
bool takesWrittenScale(mlir::FunctionOpInterface func, unsigned index);

/// Whether the value, perhaps reshaped, converted, or taken into a loop and
/// sliced there, is an operand of a dot or a convolution.
bool feedsDot(mlir::Value value);

} // namespace scalify

#endif // SCALIFY_SCALING_MEASUREDARGUMENTS_H
