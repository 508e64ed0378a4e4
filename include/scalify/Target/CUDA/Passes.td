//===- Passes.td - Kernels for NVIDIA GPUs -----------------*- tablegen -*-===//

#ifndef SCALIFY_TARGET_CUDA_PASSES
#define SCALIFY_TARGET_CUDA_PASSES

include "mlir/Pass/PassBase.td"

def KernelsToNVVM : Pass<"scalify-kernels-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "lower GPU kernel functions to the NVVM dialect";
  let description = [{
    Before: a module of kernel functions that `scalify-lower-kernels` emitted
    for a GPU. After: the module holds one `gpu.module @kernels` of functions in
    the LLVM and NVVM dialects that a driver can launch. Their parameters are a
    pointer per buffer and one for the counters. `nvvm.minctasm` makes as many
    blocks fit into a multiprocessor as have 512 threads together, so that a
    thread has up to 128 registers and spills nothing. Fails if any other op
    remains, and names it.

    ```mlir
    gpu.module @kernels {
      llvm.func @k0(%x: !llvm.ptr, %y: !llvm.ptr, %counters: !llvm.ptr)
          attributes {gpu.kernel, nvvm.kernel, nvvm.maxntid = array<i32: 64, 1, 1>,
                      nvvm.minctasm = 8 : i32}
    ```
  }];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::gpu::GPUDialect"];
}

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
