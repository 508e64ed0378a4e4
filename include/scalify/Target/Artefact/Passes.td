//===- Passes.td - Preparation of artefacts ----------------*- tablegen -*-===//

#ifndef SCALIFY_TARGET_ARTEFACT_PASSES
#define SCALIFY_TARGET_ARTEFACT_PASSES

include "mlir/Pass/PassBase.td"

def OutlineKernels : Pass<"scalify-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "move kernel functions to a nested module";
  let description = [{
    Before: the functions of kernels, from `scalify-lower-kernels`, stand beside
    the plan. After: they stand in `module @kernels`, which the target's passes
    lower and its emitter translates to machine code.

    ```mlir
    module @kernels {
      func.func @k0(%x: memref<64xf32>, %y: memref<64xf32>, %lo: index,
                    %hi: index, %counters: memref<1xi64>)
    }
    ```
  }];
}

#endif // SCALIFY_TARGET_ARTEFACT_PASSES
