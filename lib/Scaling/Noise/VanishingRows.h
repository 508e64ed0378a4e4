//===- VanishingRows.h - Norms of rows that may vanish ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_NOISE_VANISHINGROWS_H
#define SCALIFY_LIB_SCALING_NOISE_VANISHINGROWS_H

#include "scalify/Scaling/ScaleAnalysis.h"

#include "llvm/ADT/DenseMap.h"

namespace scalify {

/// Returns the root's operand of each norm whose rows may vanish, with the
/// factor by which its relative error exceeds that of rows of one size.
///
/// A row c v of a product with one term, c normal with variance s^2, has the
/// mean square c^2 r. The gradient of c after the norm is
/// g r^(1/2) e (c^2 r + e)^(-3/2), for eps = e. Integrated over c, nearly all
/// of its mean square comes from rows with c^2 r < e, and an error of variance
/// d^2 in c changes it there by d^2 r / e of itself, as the error of a mean
/// square of `width` independent elements does by 4 d^2 / (s^2 width).
llvm::DenseMap<mlir::Value, double>
findVanishingRows(mlir::FunctionOpInterface func, const ScaleAnalysis &facts);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_NOISE_VANISHINGROWS_H
