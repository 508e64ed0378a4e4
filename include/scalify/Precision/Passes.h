//===- Passes.h - The Precision stage ---------------------------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_PASSES_H
#define SCALIFY_PRECISION_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace scalify {

#define GEN_PASS_DECL
#include "scalify/Precision/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Precision/Passes.h.inc"

/// On a dot: why it stays wide.
inline constexpr llvm::StringLiteral kWideAttr = "scalify.wide";

struct PrecisionOptions {
  /// A preset's name; empty for the module's own recipe.
  std::string recipe;
  bool strict = false;
  bool remarks = true;
  /// What the range analysis is for: "report" or "choose".
  std::string rangeUse = "report";
  /// State that the recipe narrows is narrow data also between steps.
  bool packState = false;
  /// Whoever runs main keeps arguments that are added to it.
  bool keepsState = true;
  /// Whoever runs main brings a key of random words in each step.
  bool roundingKey = true;
  /// Casts that may outgrow propagated scales measure theirs in each step.
  bool measureUnproved = false;
  /// The runtime counts saturated and flushed values of casts in loops of
  /// unknown length.
  bool countsLoops = true;
  /// The backward computes again what follows from what it keeps.
  bool recompute = false;
};

/// quantize, expand measured scales, delay scales, scale gradients, store
/// state, validate.
void buildPrecisionPipeline(mlir::OpPassManager &pm,
                            const PrecisionOptions &options);

} // namespace scalify

#endif // SCALIFY_PRECISION_PASSES_H
