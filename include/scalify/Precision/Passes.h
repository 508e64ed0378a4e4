//===- Passes.h - The Precision stage ---------------------------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_PASSES_H
#define SCALIFY_PRECISION_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace scalify {

#define GEN_PASS_DECL
#include "scalify/Precision/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Precision/Passes.h.inc"

/// On a dot that stays wide: the reason.
inline constexpr llvm::StringLiteral kWideAttr = "scalify.wide";

} // namespace scalify

#endif // SCALIFY_PRECISION_PASSES_H
