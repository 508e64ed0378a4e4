//===- Passes.td - From kernels to LLVM --------------------*- tablegen -*-===//

#ifndef SCALIFY_CODEGEN_PASSES
#define SCALIFY_CODEGEN_PASSES

include "mlir/Pass/PassBase.td"

def LowerKernels : Pass<"scalify-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "lower each distinct kernel to a function of loops and vectors";
  let description = [{
    Before: the program's kernels have bodies of StableHLO ops on tensors.
    After: each kernel also names a `func.func` that computes its rows, and
    says how many rows there are and how they may be cut. Kernels with equal
    bodies share one function, so that the layers of a model compile once.

    ```mlir
    plan.kernel "add" reads(%0 : memref<64xf32>) writes(%1 : memref<64xf32>)
        attributes {function = @k0, grain = 4, rows = 4} { .. }

    func.func @k0(%x: memref<64xf32>, %y: memref<64xf32>, %lo: index,
                  %hi: index, %counters: memref<1xi64>)
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
    "::mlir::gpu::GPUDialect", "::mlir::NVVM::NVVMDialect"];
  let statistics = [
    Statistic<"numKernels", "kernels", "kernels in the program">,
    Statistic<"numFunctions", "functions", "functions written for them">];
}

def ExpandMath : Pass<"scalify-expand-math", "::mlir::func::FuncOp"> {
  let summary = "expand math functions into polynomials that vectorise";
  let description = [{
    After it no `math` op is left that would call a library: kernels call
    nothing. At zeros, infinities and NaN all are IEEE 754's functions. F64 has
    its own series, good to a few units of the last place, sines and cosines of
    large angles too; functions of F32 that are rare are computed in it and
    rounded once.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

def KernelsToLLVM : Pass<"scalify-kernels-to-llvm", "::mlir::ModuleOp"> {
  let summary = "lower kernel functions to the LLVM dialect";
  let description = [{
    Each function gets the C form `void k(void *const *bufs, int64_t lo,
    int64_t hi, uint64_t *counters)`, which loads the pointers and calls the
    body. Fails if any op outside the LLVM dialect is left, naming it.
    Expects a module that holds kernel functions only.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def KernelsToNVVM : Pass<"scalify-kernels-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "lower GPU kernel functions to the NVVM dialect";
  let description = [{
    Before: a module of kernel functions that `scalify-lower-kernels` wrote for
    a GPU. After: it holds one `gpu.module @kernels` of functions in the LLVM
    and NVVM dialects that a driver can launch, with a pointer for each
    buffer and one for the counters. As many blocks must fit into a
    multiprocessor as have 512 threads, so that a thread has up to 128 registers
    and spills nothing. Fails if any other op is left, naming it.

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

#endif // SCALIFY_CODEGEN_PASSES
