//===- Passes.td - StableHLO out ---------------------------*- tablegen -*-===//

#ifndef SCALIFY_TARGET_STABLEHLO_PASSES_TD
#define SCALIFY_TARGET_STABLEHLO_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExportStableHLO : Pass<"scalify-to-stablehlo", "::mlir::ModuleOp"> {
  let summary = "export the scalify dialect to plain StableHLO";
  let description = [{
    Before: the output of Precision. After: StableHLO for any XLA backend,
    without scalify ops and attributes.

    A cast becomes multiply by 1 / scale, clamp to the format's largest finite
    value, convert. The clamp makes the cast saturate. A select makes NaN of
    infinities, so that the program's checks of finite values see them; XLA:GPU
    fuses a cast into the preceding matmul only without it, so that such a cast
    has none there.

    A dot on FP8 data has three forms. All give the same products, since scales
    are powers of two; only the order of sums may differ.

    - `wide`: `y = convert(q) : f32; z = multiply(y, broadcast(s)); dot(z, z')`.
      Runs everywhere, and fast without FP8 units.
    - `xla-gpu`: the pattern that XLA:GPU rewrites to its FP8 cuBLASLt call.
      Operands are reshaped and transposed as FP8 to [batch, M, K] or [batch, K,
      M], one dimension each, then converted to BF16 and multiplied by the
      broadcast of a rank-0 scale. BF16 represents an FP8 value times a power of
      two exactly. The result is the reshaped dot. Dots of the forward have
      precision DEFAULT (fast accumulation), others HIGHEST.
    - `plain`: `r = dot(q, q') : f32; multiply(r, broadcast(s * s'))`, for
      backends with dots on FP8, such as TPUs.

    Example, `fp8-form=xla-gpu`:

    ```mlir
    %q = scalify.quantize %x, %s : tensor<2x8x4xf32> -> tensor<2x8x4xf8E4M3FN>
    %y = scalify.dequantize %q, %s : tensor<2x8x4xf8E4M3FN> -> tensor<2x8x4xf32>
    %r = stablehlo.dot_general %y, %w, contracting_dims = [2] x [0] : ...
    ```

    becomes, for the left operand,

    ```mlir
    %2 = stablehlo.reshape %q : tensor<16x4xf8E4M3FN>
    %3 = stablehlo.convert %2 : tensor<16x4xbf16>
    %4 = stablehlo.convert %s : tensor<bf16>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : tensor<16x4xbf16>
    %6 = stablehlo.multiply %3, %5
    %7 = stablehlo.dot_general %6, %w, contracting_dims = [1] x [0] : tensor<16x6xf32>
    ```
  }];
  let options = [
    Option<"fp8Form", "fp8-form", "::scalify::FP8Form",
           "::scalify::FP8Form::Wide", "form of a dot on FP8 data", [{
             ::llvm::cl::values(
               clEnumValN(::scalify::FP8Form::Wide, "wide",
                          "F32 dots on dequantized data"),
               clEnumValN(::scalify::FP8Form::XLAGPU, "xla-gpu",
                          "the pattern of XLA:GPU's FP8 cuBLASLt call"),
               clEnumValN(::scalify::FP8Form::Plain, "plain",
                          "dots on the FP8 data, the scales after"))
           }]>,
    Option<"probeCasts", "probe-casts", "bool", "false",
           "return the wide value and the scale of every cast, in order, after "
           "the results of main">
  ];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

def CollectStatistics
    : Pass<"scalify-collect-statistics", "::mlir::ModuleOp"> {
  let summary = "collect statistics of every cast as results of main";
  let description = [{
    Before: the output of Precision. After: main has one more result, a tensor<N
    x 8 x f32> with a row for each `scalify.quantize` in the order of the text.
    Programs without this pass are unchanged.

    A row compares the value divided by its scale with the cast's result, over
    all finite elements:

    | column | what |
    |---|---|
    | 0 | elements that are finite |
    | 1 | largest magnitude, times the scale |
    | 2 | sum of squares |
    | 3 | sum of squares of cast minus value |
    | 4 | elements that saturated |
    | 5 | elements that were not zero and became zero |
    | 6 | elements that are not finite |
    | 7 | the scale |

    A cast in a loop sums over the iterations. A cast in a branch that is not
    taken has zeros, and so has one in the condition of a loop, which cannot
    return it. A cast in a manual computation cannot be measured, and is an
    error.

    ```mlir
    %q = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x64xf32> -> tensor<4x64xf8E4M3FN>
    return %y, %statistics : tensor<4x8xf32>, tensor<1x8xf32>
    ```
  }];
  let statistics = [
    Statistic<"numCasts", "casts", "casts that are measured">
  ];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

#endif // SCALIFY_TARGET_STABLEHLO_PASSES_TD
