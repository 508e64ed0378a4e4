//===- MeasuredArguments.h - Scales that the step measures ------*- C++ -*-===//

#ifndef SCALIFY_SCALING_MEASUREDARGUMENTS_H
#define SCALIFY_SCALING_MEASUREDARGUMENTS_H

#include "scalify/Scaling/Priors.h"

#include "mlir/IR/Value.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace scalify {

/// On an argument of main whose scale the step measures: log2 of the size that
/// predictions assume.
inline constexpr llvm::StringLiteral kMeasuredAttr = "scalify.measured";

/// The reason that reports give for the scale of such an argument.
inline constexpr llvm::StringLiteral kMeasuredReason =
    "measured in each step: no declared scale";

/// On `scalify.measured_scale`: the result is the unrounded root mean square.
/// Its readers round, so that rounding errors do not accumulate.
inline constexpr llvm::StringLiteral kUnroundedAttr = "scalify.unrounded";

/// True if an argument takes the scale of the values that the step writes into
/// it: it is declared to start at zero, or is state but not a model parameter.
bool takesWrittenScale(mlir::FunctionOpInterface func, unsigned index);

/// True if the value is an operand of a dot or a convolution, perhaps moved or
/// joined with others before, also in a loop that it enters.
bool feedsDot(mlir::Value value);

/// Returns the size that the prior unit-gain predicts for the weight of a dot;
/// none for other arguments, or without the prior.
std::optional<double> predictWeight(mlir::BlockArgument arg,
                                    const Priors &priors);

} // namespace scalify

#endif // SCALIFY_SCALING_MEASUREDARGUMENTS_H
