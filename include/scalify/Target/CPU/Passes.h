//===- Passes.h - Kernels for the CPU ---------------------------*- C++ -*-===//

#ifndef SCALIFY_TARGET_CPU_PASSES_H
#define SCALIFY_TARGET_CPU_PASSES_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace scalify {

/// Registers the target `cpu`, once.
void registerCPUTarget();

/// Compiles a module of LLVM functions to an ELF shared object without
/// dependencies. Consumes the functions.
mlir::FailureOr<std::string> compileKernels(mlir::ModuleOp kernels,
                                            llvm::StringRef mcpu);

#define GEN_PASS_DECL
#include "scalify/Target/CPU/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Target/CPU/Passes.h.inc"

} // namespace scalify

#endif // SCALIFY_TARGET_CPU_PASSES_H
