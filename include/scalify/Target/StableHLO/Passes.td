//===- Passes.td - StableHLO out ---------------------------*- tablegen -*-===//

#ifndef SCALIFY_TARGET_STABLEHLO_PASSES_TD
#define SCALIFY_TARGET_STABLEHLO_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExportStableHLO : Pass<"scalify-to-stablehlo", "::mlir::ModuleOp"> {
  let summary = "write the scalify dialect as plain StableHLO";
  let description = [{
    Before: the output of Precision. After: StableHLO that any XLA backend
    runs, without one scalify op or attribute.

    A cast becomes multiply by 1 / scale, clamp to the format's largest finite
    value, convert: XLA needs the clamp for its FP8 pattern, and it is what
    makes the cast saturate. A dequantize becomes convert, multiply by the
    broadcast scale: the form that XLA:GPU matches into an FP8 cuBLASLt matmul.
  }];
  let options = [
    Option<"probeCasts", "probe-casts", "bool", "false",
           "return the wide value and the scale of every cast, in order, after "
           "the results of main">
  ];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

#endif // SCALIFY_TARGET_STABLEHLO_PASSES_TD
