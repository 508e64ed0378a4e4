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

struct ScalingOptions {
  bool strict = false;
  bool remarks = true;
  /// Warn of arguments that each step measures.
  bool tellMeasured = true;
  /// Nothing measures arguments without a declared scale: they count as 2^0,
  /// and are an error under `strict`.
  bool declared = false;
  /// Keep which facts each scale came from.
  bool explain = false;
};

/// place the rescales, propagate, apply the rescales, validate.
void buildScalingPipeline(mlir::OpPassManager &pm,
                          const ScalingOptions &options);

} // namespace scalify

#endif // SCALIFY_SCALING_PASSES_H
