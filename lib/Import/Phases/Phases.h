//===- Phases.h - Forward, backward, optimizer ------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_PHASES_H
#define SCALIFY_LIB_IMPORT_PHASES_PHASES_H

#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

namespace scalify::import {

using PhaseMap = llvm::DenseMap<mlir::Operation *, Phase>;

/// True if `op` must have a phase. Terminators have none, nor ops in regions of
/// reductions and the like, which belong to the op around them.
bool takesPhase(mlir::Operation *op);

/// Returns the values that `op` reads, including those that its regions
/// capture.
llvm::SmallVector<mlir::Value> getReads(mlir::Operation &op);

/// Returns the phase given by the stack of JAX's names, if any.
std::optional<Phase> getPhaseFromNames(mlir::Operation *op);

/// True if JAX's names say that a checkpoint recomputes the value.
bool isRecomputedByNames(mlir::Operation *op);

/// Computes the phase of each op from locations. Returns false, and no phases,
/// if no location of main gives one.
bool computePhasesFromLocations(mlir::func::FuncOp main, PhaseMap &phases);

/// Computes the phase of each op of main's block from the ops that the results
/// need. Returns false, with every op forward, if no result can be the loss, or
/// if `named` and nothing is updated: JAX's names would tell of a derivative,
/// and gradients written by hand must show in the flow of data.
bool computePhasesFromSlices(mlir::func::FuncOp main, bool named,
                             PhaseMap &phases);

/// Gives ops on constants alone the first phase among their users.
void settleConstants(mlir::func::FuncOp main, PhaseMap &phases);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_PHASES_PHASES_H
