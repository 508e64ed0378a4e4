//===- LapackCalls.h - Ops that LAPACK computes -----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_LAPACKCALLS_H
#define SCALIFY_LIB_FUSION_LAPACKCALLS_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace scalify {

/// A call of a LAPACK routine on the operands of an op.
struct LapackMatch {
  std::string routine;                 // without the letter of its type
  std::string letters;                 // its options
  llvm::SmallVector<int64_t, 4> sizes; // batch, m, n, k
  /// The results of the op that the routine writes, in its order; the op's
  /// other results have no uses.
  llvm::SmallVector<unsigned> results;
  bool isComplex = false;
};

/// Matches custom calls that JAX emits for LAPACK's routines, in the
/// column-major layout of theirs, `stablehlo.cholesky` and
/// `stablehlo.triangular_solve`.
std::optional<LapackMatch> matchLapack(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_LAPACKCALLS_H
