//===- Passes.td - Kernels for NVIDIA GPUs -----------------*- tablegen -*-===//

#ifndef SCALIFY_TARGET_CUDA_PASSES
#define SCALIFY_TARGET_CUDA_PASSES

include "mlir/Pass/PassBase.td"

def EmitPTX : Pass<"scalify-emit-ptx", "::mlir::ModuleOp"> {
  let summary = "translate GPU kernels to PTX";
  let description = [{
    Before: `gpu.module`s of functions in the LLVM and NVVM dialects, from
    `scalify-kernels-to-nvvm`. After: each is a `gpu.binary` of the same name
    with the PTX of all its kernels, for ptxas. Fails if a kernel calls a
    function that no kernel defines, which otherwise only a driver would detect.

    ```mlir
    gpu.binary @kernels [#gpu.object<#nvvm.target<chip = "sm_90a", features = "+ptx86">, assembly = "...">]
    ```
  }];
  let options = [
    Option<"chip", "chip", "std::string", "\"sm_90a\"", "the architecture">];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::gpu::GPUDialect"];
}

#endif // SCALIFY_TARGET_CUDA_PASSES
