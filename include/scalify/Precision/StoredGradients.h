//===- StoredGradients.h - Gradients that are stored narrow -----*- C++ -*-===//

#ifndef SCALIFY_PRECISION_STOREDGRADIENTS_H
#define SCALIFY_PRECISION_STOREDGRADIENTS_H

#include "llvm/ADT/StringRef.h"

namespace scalify {

/// On a cast of a weight's gradient: the number of the gradient, and the part
/// of it that is cast: the whole, the terms of ranks, or the sum of the terms.
inline constexpr llvm::StringLiteral kGradientAttr = "scalify.gradient";
inline constexpr llvm::StringLiteral kGradientPartAttr =
    "scalify.gradient_part";
inline constexpr llvm::StringLiteral kGradientWhole = "whole";
inline constexpr llvm::StringLiteral kGradientRanks = "ranks";
inline constexpr llvm::StringLiteral kGradientSum = "sum";
/// The number of ranks that sum it; without, the recipe's `simulated_ranks`.
inline constexpr llvm::StringLiteral kGradientGroupAttr =
    "scalify.gradient_group";

/// The argument of main that `scalify-scale-gradients` appends.
inline constexpr llvm::StringLiteral kGradientMuName = "scalify.gradient_mu";

} // namespace scalify

#endif // SCALIFY_PRECISION_STOREDGRADIENTS_H
