//===- Passes.td - The Precision stage ---------------------*- tablegen -*-===//

#ifndef SCALIFY_PRECISION_PASSES_TD
#define SCALIFY_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def QuantizeDots : Pass<"scalify-quantize", "::mlir::ModuleOp"> {
  let summary = "cast the operands of dots to FP8, as the recipe says";
  let description = [{
    Before: true values, with `scalify.set_scale` on the operands of dots.
    After: a dot that the recipe wants in FP8 has two `scalify.dequantize`
    operands, each over FP8 data of one `scalify.quantize`; no
    `scalify.set_scale` is left. The format follows the phase that made the
    operand: E4M3 in the forward, E5M2 for gradients.

    A value is cast once: the cast stands at the value's definition, and
    reshapes and transposes between it and the dots move FP8 data. What the
    backward needs of an activation is then the FP8 tensor.

    Dots that stay wide carry `scalify.wide` with the reason, and get a remark:
    `attention` (two activations), `head` (the last linear layer before the
    loss and its gradients), `type` (operands that are not f32, f16 or bf16).

    ```mlir
    %q = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x64xf32> -> tensor<4x64xf8E4M3FN>
    %a = scalify.dequantize %q, %s : tensor<4x64xf8E4M3FN> -> tensor<4x64xf32>
    %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let options = [
    Option<"recipe", "recipe", "std::string", "\"\"",
           "a preset's name; the module's scalify.recipe if empty">,
    Option<"strict", "strict", "bool", "false",
           "make a dot that the recipe wants in FP8 and that stays wide an error">,
    Option<"remarks", "remarks", "bool", "true", "report dots that stay wide">
  ];
  let statistics = [
    Statistic<"numCasts", "casts", "quantizing casts">,
    Statistic<"numFP8Dots", "fp8-dots", "dots on FP8 operands">,
    Statistic<"numWideDots", "wide-dots", "dots left wide">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def ValidatePrecision : Pass<"scalify-validate-precision", "::mlir::ModuleOp"> {
  let summary = "check what Precision promises to Fusion";
  let description = [{
    Fails, naming the op, where a `scalify.set_scale`, a pair or a rescale is
    left, a dot has one FP8 operand and one wide one, a value is cast twice to
    one format, or a floating-point dot is neither on FP8 operands nor marked
    `scalify.wide` under a recipe that casts.
  }];
}

#endif // SCALIFY_PRECISION_PASSES_TD
