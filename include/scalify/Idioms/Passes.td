//===- Passes.td - Passes of idioms -------------------------*- tablegen -*-===//

#ifndef SCALIFY_IDIOMS_PASSES
#define SCALIFY_IDIOMS_PASSES

include "mlir/Pass/PassBase.td"

def ListIdioms : Pass<"scalify-list-idioms", "::mlir::ModuleOp"> {
  let summary = "list the idioms of a program, one remark each";
  let description = [{
    For a look at what the matchers of `lib/Idioms` recognise
    (docs/stages/idioms.md); no pipeline runs it. Before: the normal form that
    Import leaves. The program does not change. A remark on the last op of each
    idiom says `proved` if the match holds for any values, else `likely`, and
    gives its numbers:

    ```mlir
    // remark: proved x - max(x): 16 elements
    %shifted = stablehlo.subtract %x, %rows : tensor<8x16xf32>
    ```
  }];
}

#endif // SCALIFY_IDIOMS_PASSES
