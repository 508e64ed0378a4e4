//===- KeptAmaxes.h - Amaxes kept from the previous step --------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_KEPTAMAXES_H
#define SCALIFY_PRECISION_KEPTAMAXES_H

#include "llvm/ADT/StringRef.h"

namespace scalify {

/// The argument and the result of main that `scalify-keep-amaxes` appends.
inline constexpr llvm::StringLiteral kArgumentAmaxName =
    "scalify.argument_amax";
/// The function that computes it for arguments that the last step did not
/// return.
inline constexpr llvm::StringLiteral kMeasureFunction = "measure";

} // namespace scalify

#endif // SCALIFY_PRECISION_KEPTAMAXES_H
