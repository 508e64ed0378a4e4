//===- SolverLoops.h - Loops that solve systems -----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_SOLVERLOOPS_H
#define SCALIFY_LIB_PRECISION_SOLVERLOOPS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseSet.h"

namespace scalify {

/// True if an op of the loop's body factorises a matrix or solves a system, or
/// calls a library that may.
bool hasSolver(stablehlo::WhileOp loop);

/// Returns the dots of such loops that read what a factorisation or a solution
/// has led to, in the same iteration or in an earlier one, as in a Kalman
/// filter and in its gradients.
llvm::DenseSet<mlir::Operation *>
findDotsAfterSolvers(mlir::FunctionOpInterface func);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_SOLVERLOOPS_H
