//===- Recompute.h - Rematerialisation in the backward ----------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_RECOMPUTE_H
#define SCALIFY_PRECISION_RECOMPUTE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// On a cast that repeats another one: the executable does not count it.
inline constexpr llvm::StringLiteral kUncountedAttr = "scalify.uncounted";

/// Rematerialises in the backward the forward values that elementwise ops
/// compute from others, so that the fewest bytes are kept. Kept values have
/// their own type, or the format `saved`. Returns the number of cloned ops.
unsigned recomputeForBackward(mlir::func::FuncOp func, mlir::Type saved);

/// Does the same after values are cast, and clones casts too, whose operand may
/// be kept anyway. Does not clone block-scaled and stochastic casts, nor ops
/// that a forward after the first backward reads. Changes no bit of a result.
/// Cloned casts do not count.
unsigned recomputeCastsForBackward(mlir::func::FuncOp func);

/// Lets the first cast of each name count if no cast of that name does, as when
/// only the backward still reads the cast.
void countFirstCasts(mlir::Block &block);

} // namespace scalify

#endif // SCALIFY_PRECISION_RECOMPUTE_H
