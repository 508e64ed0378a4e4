//===- KernelModule.h - Module of a plan's kernels --------------*- C++ -*-===//

#ifndef SCALIFY_TARGET_ARTEFACT_KERNELMODULE_H
#define SCALIFY_TARGET_ARTEFACT_KERNELMODULE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace scalify {

/// Emits the functions of the plan's kernels, unless they exist.
mlir::LogicalResult lowerKernels(mlir::ModuleOp module, llvm::StringRef chip);

/// Moves the functions to a separate module.
mlir::OwningOpRef<mlir::ModuleOp> extractKernels(mlir::ModuleOp module);

} // namespace scalify

#endif // SCALIFY_TARGET_ARTEFACT_KERNELMODULE_H
