//===- RankMaxima.h - Maxima over ranks -------------------------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_RANKMAXIMA_H
#define SCALIFY_PRECISION_RANKMAXIMA_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace scalify {

/// Returns the number of devices if the function is the program of one device
/// of a mesh; 1 for a program on whole values, sharded or not.
int64_t countRanks(mlir::func::FuncOp function);

/// Builds an all-reduce of `value` by maximum over all devices if the function
/// is the program of one device of a mesh; else returns `value`. So all devices
/// keep the same measurement for the next step.
mlir::Value buildMaxOverRanks(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value value);

} // namespace scalify

#endif // SCALIFY_PRECISION_RANKMAXIMA_H
