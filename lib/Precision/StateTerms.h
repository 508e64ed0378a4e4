//===- StateTerms.h - What a step computes state from -----------*- C++ -*-===//
//
// `own` is the old value of state, an argument of main, and `written` the new
// one, which main returns.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_PRECISION_STATETERMS_H
#define SCALIFY_LIB_PRECISION_STATETERMS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace scalify {

/// Returns the value, and the values among which selects and branches choose
/// it, as in a step that keeps its state if gradients are not finite. With
/// `areWhole`, a select must choose all elements by one condition.
llvm::SmallVector<mlir::Value> findAlternatives(mlir::Value value,
                                                bool areWhole = false);

/// True if the state is a sum of squares, or the step takes its root: a second
/// moment.
bool isMeanOfSquares(mlir::Value own, mlir::Value written);

/// True if the step takes the root of a difference of which the new state, or
/// its square, is one part, as of a variance: rounding may leave less than
/// zero.
bool entersVariance(mlir::Value written);

/// True if the state is a sum of gradients between two updates, as of
/// micro-batches: the step adds to it, undamped, or sets it to zero.
bool isReset(mlir::Value own, mlir::Value written);

/// Returns the values of which the optimizer computes the new state linearly.
/// The old one and `known` values have no terms.
llvm::SmallVector<mlir::Value>
findTerms(mlir::Value own, mlir::Value written,
          const llvm::DenseSet<mlir::Value> &known);

/// True if the optimizer subtracts the state and an argument that it keeps, as
/// the initial weights by which Prodigy and DoG find their rate. The distance
/// starts at zero, below a rounding of the state.
bool entersDistance(mlir::func::FuncOp main, mlir::Value own,
                    mlir::Value written);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_STATETERMS_H
