//===- Recompute.h - What the backward computes once more -------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_RECOMPUTE_H
#define SCALIFY_PRECISION_RECOMPUTE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// On a cast that makes again what another one made: it counts nothing.
inline constexpr llvm::StringLiteral kUncountedAttr = "scalify.uncounted";

/// Computes again, in the backward, what follows by elementwise ops from other
/// values of the forward, so that the fewest bytes are kept: in their own type,
/// or in the format `saved`. Returns the number of ops.
unsigned recomputeForBackward(mlir::func::FuncOp func, mlir::Type saved);

/// The same of a function whose values are cast, by casts too: what they are
/// made of may be kept anyway. Casts by blocks and stochastic ones stay, and so
/// does what a forward behind the first backward reads. Changes no bit; what
/// casts again counts nothing.
unsigned recomputeCastsForBackward(mlir::func::FuncOp func);

/// Of casts of one name the first one counts where none that counts is left, as
/// when the backward alone reads what was cast.
void countFirstCasts(mlir::Block &block);

} // namespace scalify

#endif // SCALIFY_PRECISION_RECOMPUTE_H
