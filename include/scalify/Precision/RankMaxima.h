//===- RankMaxima.h - What all ranks have measured --------------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_RANKMAXIMA_H
#define SCALIFY_PRECISION_RANKMAXIMA_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace scalify {

/// The devices that run a function each for itself; 1 for a program of whole
/// values, which may be sharded too.
int64_t countRanks(mlir::func::FuncOp function);

/// Builds the maximum of `value` over all devices where the function is the
/// program of one device of a mesh; else returns `value`. What a device
/// measures of its parts becomes what all of them keep for the next step.
mlir::Value buildMaxOverRanks(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value value);

} // namespace scalify

#endif // SCALIFY_PRECISION_RANKMAXIMA_H
