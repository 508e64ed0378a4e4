//===- PlanLapack.td - Calls of LAPACK in the plan dialect -*- tablegen -*-===//
//
// Included by PlanOps.td, whose classes it uses.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_PLAN_LAPACK
#define SCALIFY_DIALECT_PLAN_LAPACK

def LapackOp : Plan_Op<"lapack", [AttrSizedOperandSegments]> {
  let summary = "run a routine of LAPACK for each matrix of a batch";
  let description = [{
    On a CPU only, in F32 or F64, or in complex numbers of these: then a matrix
    has two buffers, of its real and its imaginary parts (so do the eigenvectors
    of a real matrix). Matrices are row major in memory. `sizes` are
    batch, m, n, k; `letters` are the routine's options in the order of its own
    parameters, such as side, triangle, transposition and diagonal of a `trsm`.
    Writes may include the routine's `info`, one i32 for each matrix. `work` has
    room for the copies of one or more matrices: as many tasks share the batch.
    `runtime/blas/LapackShape.h` has the routines, and the shapes that each
    reads and writes.

    ```mlir
    plan.lapack "potrf" reads(%a : memref<3x4x4xf32>)
        writes(%l, %info : memref<3x4x4xf32>, memref<3xi32>)
        work %w : memref<48xf32> sizes [3, 4, 4, 0] letters "L"
    ```
  }];
  let arguments = (ins StrAttr:$routine, Variadic<Plan_Buffer>:$reads,
    Variadic<Plan_Buffer>:$writes, Plan_Buffer:$work,
    DenseI64ArrayAttr:$sizes, StrAttr:$letters, UnitAttr:$is_complex);
  let assemblyFormat = [{
    (`complex` $is_complex^)? $routine `reads` `(` $reads `:` type($reads) `)`
    `writes` `(` $writes `:` type($writes) `)` `work` $work `:` type($work)
    `sizes` $sizes `letters` $letters attr-dict
  }];
  let hasVerifier = 1;
}

def FactorizeOp : Plan_Op<"factorize", [Pure]> {
  let summary = "run a routine of LAPACK on tensors, before buffers exist";
  let description = [{
    `scalify-form-lapack` forms it from calls of LAPACK and from StableHLO's
    solvers.

    ```mlir
    %l, %info = plan.factorize "potrf" %a sizes [3, 4, 4, 0] letters "L"
        : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3xi32>)
    ```
  }];
  let arguments = (ins StrAttr:$routine, Variadic<AnyRankedTensor>:$inputs,
    DenseI64ArrayAttr:$sizes, StrAttr:$letters, UnitAttr:$is_complex);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    (`complex` $is_complex^)? $routine $inputs `sizes` $sizes `letters` $letters attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // SCALIFY_DIALECT_PLAN_LAPACK
