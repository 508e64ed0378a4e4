//===- Passes.td - The Scaling stage -----------------------*- tablegen -*-===//

#ifndef SCALIFY_SCALING_PASSES_TD
#define SCALIFY_SCALING_PASSES_TD

include "mlir/Pass/PassBase.td"

def PropagateScales : Pass<"scalify-propagate", "::mlir::ModuleOp"> {
  let summary = "give every floating-point tensor a scale, op by op";
  let description = [{
    Before: the normal form that Import leaves, on true values. After: every
    op computes on data, the value divided by its scale; `scalify.rescale` is
    the only arithmetic added; arguments and results are still true values.
    Each op has `scalify.scale`, the log2 of its result's scale, and
    `scalify.rule`, the rule that set it.

    Facts are inferred first (`ScaleRuleInterface::inferFacts`), then one walk
    rewrites each op by its family. An op without a rule computes on true
    values and gets a remark that names it; an error under `strict`.

    ```mlir
    func.func @main(%x: tensor<4x64xf32> {scalify.scale = 1 : i32},
                    %w: tensor<64x8xf32> {scalify.scale = -5 : i32}) -> tensor<4x8xf32> {
      %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    // %x and %w are rescaled to 2^1 and 2^-5, the dot of their data has scale
    // 2^-4, and its result 2^-1 = 2^(1 - 5) * sqrt(64).
    ```
  }];
  let options = [
    Option<"strict", "strict", "bool", "false",
           "make an op without a rule an error">,
    Option<"remarks", "remarks", "bool", "true",
           "report what has no rule or no declared scale">,
    Option<"explain", "explain", "bool", "false",
           "number the values, and keep in the module which facts each scale "
           "came from">
  ];
  let statistics = [
    Statistic<"numRescales", "rescales", "rescales inserted">,
    Statistic<"numWithoutRule", "without-rule", "ops without a rule">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def FoldScales : Pass<"scalify-fold", "::mlir::ModuleOp"> {
  let summary = "fold scale arithmetic away";
  let description = [{
    Before: the output of `scalify-propagate`. After: ops compute on true
    values again, and what is left of the scales is one `scalify.set_scale` on
    each operand of a dot: there a narrow format may be used, and a cast to it
    divides by the scale, the product of the two scales going to the GEMM's
    alpha. `scalify.rescale` sinks through each op by its family until it
    meets its inverse. What does not meet one stays, counted in the
    statistics.
  }];
  let statistics = [
    Statistic<"numBefore", "before", "rescales before folding">,
    Statistic<"numAfter", "after", "rescales after folding">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def ValidateScales : Pass<"scalify-validate-scales", "::mlir::ModuleOp"> {
  let summary = "check what Scaling promises to Precision";
  let description = [{
    Fails, naming the op, where a floating-point dot has an operand without
    `scalify.set_scale`, a constant scale is not a positive power of two, a
    pair is still packed, or a rescale of a full tensor is left.
  }];
}

#endif // SCALIFY_SCALING_PASSES_TD
