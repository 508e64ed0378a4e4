//===- Passes.td - Kernels for the CPU ---------------------*- tablegen -*-===//

#ifndef SCALIFY_TARGET_CPU_PASSES
#define SCALIFY_TARGET_CPU_PASSES

include "mlir/Pass/PassBase.td"

def KernelsToLLVM : Pass<"scalify-kernels-to-llvm", "::mlir::ModuleOp"> {
  let summary = "lower kernel functions to the LLVM dialect";
  let description = [{
    Gives each function a C entry point `void k(void *const *bufs, int64_t lo,
    int64_t hi, uint64_t *counters)`, which loads the pointers and calls the
    body. Fails if any op outside the LLVM dialect remains, and names it.
    Expects a module that holds only kernel functions.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // SCALIFY_TARGET_CPU_PASSES
