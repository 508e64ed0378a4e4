//===- ProbeCasts.h - What casts read, as results of main -------*- C++ -*-===//

#ifndef SCALIFY_LIB_TARGET_STABLEHLO_PROBECASTS_H
#define SCALIFY_LIB_TARGET_STABLEHLO_PROBECASTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// Appends to the results of main, for every cast in order of the text, its
/// operand and its scale. From the body of a loop they come stacked, one entry
/// per iteration along a new first dimension, if the trip count is known and
/// the stack is small; else as the last iteration left them. From a branch
/// that does not run they come as zeros.
void returnCasts(mlir::func::FuncOp func);

/// Appends values of its body to the results of main.
void appendResults(mlir::func::FuncOp func, mlir::ValueRange values);

/// Fails, naming the cast, if one stands where no result of main can show it.
llvm::LogicalResult checkCastsAreReachable(mlir::func::FuncOp func);

} // namespace scalify

#endif // SCALIFY_LIB_TARGET_STABLEHLO_PROBECASTS_H
