//===- KeptAmaxes.h - Amaxes that the last step has left --------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_KEPTAMAXES_H
#define SCALIFY_PRECISION_KEPTAMAXES_H

#include "llvm/ADT/StringRef.h"

namespace scalify {

/// The argument and the result of main that `scalify-keep-amaxes` appends.
inline constexpr llvm::StringLiteral kArgumentAmaxName =
    "scalify.argument_amax";
/// The function that makes it of arguments which the last step did not return.
inline constexpr llvm::StringLiteral kMeasureFunction = "measure";

} // namespace scalify

#endif // SCALIFY_PRECISION_KEPTAMAXES_H
