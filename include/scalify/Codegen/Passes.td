//===- Passes.td - Lowering of kernels to LLVM -------------*- tablegen -*-===//

#ifndef SCALIFY_CODEGEN_PASSES
#define SCALIFY_CODEGEN_PASSES

include "mlir/Pass/PassBase.td"

def LowerKernels : Pass<"scalify-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "lower each distinct kernel to a function of loops and vectors";
  let description = [{
    Before: the program's kernels have bodies of StableHLO ops on tensors.
    After: each kernel also names a `func.func` that computes its rows, the
    number of rows, and the grain by which tasks may split them. Kernels with
    equal bodies share one function, so that the layers of a model compile once.

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
    Statistic<"numFunctions", "functions", "functions emitted for them">];
}

def ExpandMath : Pass<"scalify-expand-math", "::mlir::func::FuncOp"> {
  let summary = "expand math functions into polynomials that vectorise";
  let description = [{
    After this pass no `math` op remains that would call a library, since
    kernels link to none. At zeros, infinities and NaN all functions follow IEEE
    754. F64 has its own series, accurate to a few units in the last place, also
    for sines and cosines of large angles. Rare F32 functions are computed in
    F64 and rounded once.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

#endif // SCALIFY_CODEGEN_PASSES
