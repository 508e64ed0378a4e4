//===- KernelModule.h - The kernels of a plan, on their own -----*- C++ -*-===//

#ifndef SCALIFY_TARGET_ARTEFACT_KERNELMODULE_H
#define SCALIFY_TARGET_ARTEFACT_KERNELMODULE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace scalify {

/// Writes the functions of the plan's kernels, unless they are there.
mlir::LogicalResult lowerKernels(mlir::ModuleOp module, llvm::StringRef chip);

/// Moves the functions to a module of their own.
mlir::OwningOpRef<mlir::ModuleOp> takeKernels(mlir::ModuleOp module);

} // namespace scalify

#endif // SCALIFY_TARGET_ARTEFACT_KERNELMODULE_H
