//===- ProbeCasts.h - Operands of casts as results of main ------*- C++ -*-===//

#ifndef SCALIFY_LIB_TARGET_STABLEHLO_PROBECASTS_H
#define SCALIFY_LIB_TARGET_STABLEHLO_PROBECASTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// Appends to the results of main, for every cast in order of the text, its
/// operand and its scale. Values in the body of a loop are stacked, one entry
/// per iteration along a new first dimension, if the trip count is known and
/// the stack is small; otherwise they are those of the last iteration. Values
/// in a branch that does not run are zeros.
void appendCastProbes(mlir::func::FuncOp func);

/// Appends values of main's body to its results.
void appendResults(mlir::func::FuncOp func, mlir::ValueRange values);

/// Fails, and names the cast, if no result of main can return one's operand.
llvm::LogicalResult checkCastsAreReachable(mlir::func::FuncOp func);

} // namespace scalify

#endif // SCALIFY_LIB_TARGET_STABLEHLO_PROBECASTS_H
