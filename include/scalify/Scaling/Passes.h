//===- Passes.h - The Scaling stage -----------------------------*- C++ -*-===//

#ifndef SCALIFY_SCALING_PASSES_H
#define SCALIFY_SCALING_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace scalify {

#define GEN_PASS_DECL
#include "scalify/Scaling/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Scaling/Passes.h.inc"

/// On the module: the places of `scalify-place-rescales`, an array of strings.
inline constexpr llvm::StringLiteral kPlacesAttr = "scalify.rescale_at";

} // namespace scalify

#endif // SCALIFY_SCALING_PASSES_H
