//===- Phases.h - Forward, backward, optimizer ------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_PHASES_H
#define SCALIFY_LIB_IMPORT_PHASES_PHASES_H

#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

namespace scalify::import {

using PhaseMap = llvm::DenseMap<mlir::Operation *, Phase>;

/// Whether the contract asks for a phase on `op`: not on terminators, nor
/// inside the bodies of reductions and their like, which belong to their op.
bool takesPhase(mlir::Operation *op);

/// The values that `op` reads, those that its regions capture included.
llvm::SmallVector<mlir::Value> getReads(mlir::Operation &op);

/// The phase that the stack of JAX's names tells, if it does.
std::optional<Phase> getPhaseFromNames(mlir::Operation *op);

/// Whether JAX's names say that a checkpoint makes the value again.
bool isRecomputedByNames(mlir::Operation *op);

/// Reads the phase of each op from locations. False, and no phase, if no
/// location of main tells one.
bool computePhasesFromLocations(mlir::func::FuncOp main, PhaseMap &phases);

/// Derives the phase of each op of main's block from what the results need.
/// False, with every op forward, if no result can be the loss.
bool computePhasesFromSlices(mlir::func::FuncOp main, PhaseMap &phases);

/// The arguments whose memory or type makes them state: the donated ones, or,
/// where nothing is donated, those of a result's type.
llvm::SmallVector<bool> findStateArguments(mlir::func::FuncOp main);

/// Results that state or gradients leave by: the donated ones, or, where
/// nothing is donated, those of the type of a float argument.
llvm::SmallVector<bool> findStateResults(mlir::func::FuncOp main);

/// Constants and the like take the phase of the first op that reads them.
void settleConstants(mlir::func::FuncOp main, PhaseMap &phases);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_PHASES_PHASES_H
