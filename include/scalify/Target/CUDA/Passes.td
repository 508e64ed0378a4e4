//===- Passes.td - Kernels for GPUs of NVIDIA --------------*- tablegen -*-===//

#ifndef SCALIFY_TARGET_CUDA_PASSES
#define SCALIFY_TARGET_CUDA_PASSES

include "mlir/Pass/PassBase.td"

def EmitPTX : Pass<"scalify-emit-ptx", "::mlir::ModuleOp"> {
  let summary = "translate GPU kernels to PTX";
  let description = [{
    Before: `gpu.module`s of functions in the LLVM and NVVM dialects, as
    `scalify-kernels-to-nvvm` leaves them. After: each is a `gpu.binary` of the
    same name with the PTX of all its kernels, which ptxas assembles. Fails
    where a kernel calls what none defines: a driver would notice first.

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
