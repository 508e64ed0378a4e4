//===- Moments.h - Variances from products ----------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_MOMENTS_H
#define SCALIFY_LIB_PRECISION_MOMENTS_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseSet.h"

namespace scalify {

/// Returns the dots whose difference is a variance or a covariance,
/// E[x y] - E[x] E[y] of averages that are dots over the same data. The
/// difference of rounded ones may be negative, for which logarithms and roots
/// of variances are NaN.
llvm::DenseSet<mlir::Operation *> findMoments(mlir::FunctionOpInterface func);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_MOMENTS_H
