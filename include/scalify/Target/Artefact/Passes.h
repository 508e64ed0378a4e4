//===- Passes.h - Preparation of artefacts ----------------------*- C++ -*-===//

#ifndef SCALIFY_TARGET_ARTEFACT_PASSES_H
#define SCALIFY_TARGET_ARTEFACT_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace scalify {

/// The nested module of kernel functions.
inline constexpr llvm::StringLiteral kKernels = "kernels";

/// Returns the nested module, which `scalify-outline-kernels` makes.
mlir::FailureOr<mlir::ModuleOp> getKernels(mlir::ModuleOp module);

#define GEN_PASS_DECL
#include "scalify/Target/Artefact/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Target/Artefact/Passes.h.inc"

} // namespace scalify

#endif // SCALIFY_TARGET_ARTEFACT_PASSES_H
