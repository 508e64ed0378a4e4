//===- Passes.h - Kernels for NVIDIA GPUs -----------------------*- C++ -*-===//

#ifndef SCALIFY_TARGET_CUDA_PASSES_H
#define SCALIFY_TARGET_CUDA_PASSES_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace scalify {

/// Registers NVIDIA's GPUs, once.
void registerCUDATargets();

/// Returns the PTX of a module of kernels in the LLVM and NVVM dialects. Fails
/// if they call a function that no kernel defines.
mlir::FailureOr<std::string> emitPTX(mlir::gpu::GPUModuleOp kernels,
                                     llvm::StringRef chip);

#define GEN_PASS_DECL
#include "scalify/Target/CUDA/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Target/CUDA/Passes.h.inc"

} // namespace scalify

#endif // SCALIFY_TARGET_CUDA_PASSES_H
