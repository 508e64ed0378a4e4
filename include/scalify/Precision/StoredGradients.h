//===- StoredGradients.h - Gradients that are stored narrow -----*- C++ -*-===//

#ifndef SCALIFY_PRECISION_STOREDGRADIENTS_H
#define SCALIFY_PRECISION_STOREDGRADIENTS_H

#include "llvm/ADT/StringRef.h"

namespace scalify {

/// On a cast of a weight's gradient, which of them it is: a number, and what it
/// casts: the whole, those of ranks, or the sum of the latter.
inline constexpr llvm::StringLiteral kGradientAttr = "scalify.gradient";
inline constexpr llvm::StringLiteral kGradientPartAttr =
    "scalify.gradient_part";
inline constexpr llvm::StringLiteral kGradientWhole = "whole";
inline constexpr llvm::StringLiteral kGradientRanks = "ranks";
inline constexpr llvm::StringLiteral kGradientSum = "sum";
/// How many ranks sum it; those that the recipe plays, if not said.
inline constexpr llvm::StringLiteral kGradientGroupAttr =
    "scalify.gradient_group";

/// The argument of main that `scalify-scale-gradients` appends.
inline constexpr llvm::StringLiteral kGradientMuName = "scalify.gradient_mu";

} // namespace scalify

#endif // SCALIFY_PRECISION_STOREDGRADIENTS_H
