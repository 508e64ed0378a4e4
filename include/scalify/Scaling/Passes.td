//===- Passes.td - The Scaling stage -----------------------*- tablegen -*-===//

#ifndef SCALIFY_SCALING_PASSES_TD
#define SCALIFY_SCALING_PASSES_TD

include "mlir/Pass/PassBase.td"

def WidenValues : Pass<"scalify-widen-values", "::mlir::ModuleOp"> {
  let summary = "widen 16-bit values to F32";
  let description = [{
    Before: the normal form. After: under a recipe with a format for what the
    backward keeps (`fp16`, `bf16`), every F16 value is F32. So is every BF16
    value, unless that format is BF16. Arguments and results keep their types
    and are converted at the border. Other recipes change nothing.

    A step traced in F16 narrows without scales, so gradients underflow before a
    recipe can scale them. An F16 recipe keeps more digits than BF16 has. BF16
    under a BF16 recipe loses neither range nor digits.

    ```mlir
    %y = stablehlo.add %x, %x : tensor<4xf16>
    // becomes
    %w = stablehlo.convert %x : (tensor<4xf16>) -> tensor<4xf32>
    %y = stablehlo.add %w, %w : tensor<4xf32>
    %r = stablehlo.convert %y : (tensor<4xf32>) -> tensor<4xf16>
    ```
  }];
  let statistics = [
    Statistic<"numWidened", "widened", "values that became F32">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def SetPriors : Pass<"scalify-set-priors", "::mlir::ModuleOp"> {
  let summary = "set the priors that predictions use";
  let description = [{
    After: the module has `scalify.priors`, which overrides the part `priors` of
    its recipe: names of the table in `scalify/Scaling/Priors.h`, `"default"`
    for all priors, `"none"` for no prior. An unknown name is an error. So
    does the option `--scalify-priors` of `scalify-compile`.

    ```mlir
    module attributes {scalify.priors = ["none"]} {}
    ```
  }];
  let options = [
    ListOption<"use", "use", "std::string", "names of priors, default or none">
  ];
}

def MeasureArguments : Pass<"scalify-measure-arguments", "::mlir::ModuleOp"> {
  let summary = "mark arguments whose scale the step measures";
  let description = [{
    Before: the normal form. After: each floating-point argument of main without
    `scalify.scale` has `scalify.measured`, log2 of the size that predictions
    assume. The program does not change. `scalify-apply-rescales` measures the
    root mean square of those arguments that a cast depends on, in each step.

    Two kinds of arguments are excluded: donated state that is not a parameter,
    which takes the scale of the values written into it, and any argument under
    a recipe that does not read the rules' scales.

    ```mlir
    func.func @main(%w: tensor<64x64xf32>) -> tensor<64x64xf32>
    // becomes, where %w is a weight
    func.func @main(%w: tensor<64x64xf32> {scalify.measured = -3 : i32}) -> tensor<64x64xf32>
    ```
  }];
  let statistics = [
    Statistic<"numArguments", "arguments", "arguments without a scale">,
    Statistic<"numBytes", "bytes", "bytes of these arguments">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect"];
}

def PropagateScales : Pass<"scalify-propagate", "::mlir::ModuleOp"> {
  let summary = "write predicted scales where casts read them";
  let description = [{
    Before: the normal form that Import leaves. After: the same ops on the same
    true values, with attributes and hints. Each op has `scalify.scale`, log2 of
    its result's scale, and `scalify.rule`, the rule that set it. Each operand
    of a dot goes through a `scalify.scale_hint`, where a narrow format may be
    used. Loops and branches have `scalify.carry_scales`, and
    `scalify.growing_carries` where no constant scale fits.

    The pass first infers facts (`ScaleRuleInterface::inferFacts`), then writes
    the scales in one walk. The result of an op without a rule counts as 2^0. A
    remark names the op; under `strict` it is an error.

    ```mlir
    func.func @main(%x: tensor<4x64xf32> {scalify.scale = 1 : i32},
                    %w: tensor<64x8xf32> {scalify.scale = -5 : i32}) -> tensor<4x8xf32> {
      %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    // becomes, with %c2 and %c32 constants of 2 and 2^-5
    %a = scalify.scale_hint %x, %c2 : tensor<4x64xf32>
    %b = scalify.scale_hint %w, %c32 : tensor<64x8xf32>
    %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {scalify.rule = "dot: sqrt(K = 64)", scalify.scale = -1 : i32} : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let options = [
    Option<"strict", "strict", "bool", "false",
           "make an op without a rule an error">,
    Option<"remarks", "remarks", "bool", "true",
           "report ops without a rule and arguments without a declared scale">,
    Option<"declared", "declared", "bool", "false",
           "with strict, make an argument without a declared scale an error">,
    Option<"explain", "explain", "bool", "false",
           "number the values, and record in the module the sources of each "
           "scale">,
    Option<"composites", "composites", "bool", "true",
           "use the rules of known expressions: softmax, norms, GELU, ..">
  ];
  let statistics = [
    Statistic<"numHints", "hints", "operands of dots that got a scale">,
    Statistic<"numWithoutRule", "without-rule", "ops without a rule">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def PlaceRescales : Pass<"scalify-place-rescales", "::mlir::ModuleOp"> {
  let summary = "place measured scales";
  let description = [{
    Before: the normal form. After: the same with a `scalify.rescale_point` at
    each place, on true values. Without places, nothing changes.

    A place is `residual_grad` (the sums at which gradients join the residual
    stream: two per layer in a transformer), `residual` (the same sums of the
    forward), or a regular expression that is searched in the names of an op's
    location. A regular expression selects the results that leave the matching
    ops, or, after `grad:`, their gradients.

    A place is used if predictions may have drifted by `drift` binades since the
    previous one, at a sixteenth of a binade per product. A measurement reads
    every k-th row, with the smallest k for which all places together read at
    most `budget` times the bytes that measuring each operand of the products
    would read.

    A place that matches no value gets a remark, or is an error under `strict`.
    A place of gradients is exempt in a program without a backward.

    ```mlir
    %g = stablehlo.add %skip, %branch {scalify.phase = #scalify.phase<backward>} : tensor<16x128x256xf32>
    // followed by
    %r = scalify.rescale_point l2 %g {by = "residual_grad", sample = 4 : i64} : tensor<16x128x256xf32>
    ```
  }];
  let options = [
    ListOption<"places", "places", "std::string",
               "roles or location patterns; if empty, the module's "
               "scalify.rescale_at; the recipe's places are added">,
    Option<"statistic", "statistic", "std::string", "\"l2\"",
           "max, l1 or l2">,
    Option<"drift", "drift", "double", "0",
           "least predicted drift, in binades, at which a place is used">,
    Option<"budget", "budget", "double", "0.05",
           "bytes read, relative to the bytes that current scaling would read">,
    Option<"strict", "strict", "bool", "false",
           "make a place that matches no value an error">
  ];
  let statistics = [
    Statistic<"numPlaced", "placed", "rescale points placed">,
    Statistic<"bytesRead", "bytes", "bytes that they read">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect"];
}

def ApplyRescales : Pass<"scalify-apply-rescales", "::mlir::ModuleOp"> {
  let summary = "propagate run-time scales to casts";
  let description = [{
    Before: the output of `scalify-propagate`, with `scalify.override_scale`,
    `scalify.rescale_point` and `scalify.data_scale` on true values, from the
    user (`scalify.lax`) or `scalify-place-rescales`. After: none of these. The
    scale of each `scalify.scale_hint` downstream of a rescale is its constant
    times a correction that the step measures. Corrections have rank 0: only
    `scalify.measured_scale` reads a full tensor.

    ```mlir
    %r = scalify.rescale_point l2 %x : tensor<4x64xf32>
    %h = scalify.scale_hint %r, %s : tensor<4x64xf32>
    // becomes, where 2^-8 is the scale that the rules predicted for %x
    %t = scalify.measured_scale l2 %x, %c : tensor<4x64xf32>
    %d = stablehlo.divide %t, %c : tensor<f32>
    %u = stablehlo.multiply %s, %d : tensor<f32>
    %h = scalify.scale_hint %x, %u : tensor<4x64xf32>
    ```

    Arguments with `scalify.measured` are measured if a hint depends on them.
    Their measurement is the unrounded root mean square. Sums, powers and
    functions propagate it by their rules, and loops carry it beside the data.
    The attribute stays on the measured arguments only. One warning gives their
    number.

    If rows have scales of their own (`axes`), a dot that does not contract
    along the rows divides its operand by these scales and multiplies its result
    by them. Any other dot takes the largest of them, with a remark.
  }];
  let options = [
    Option<"strict", "strict", "bool", "false",
           "make a dot that cannot take the scales of rows an error">,
    Option<"remarks", "remarks", "bool", "true",
           "report a dot that cannot take the scales of rows">,
    Option<"tellMeasured", "tell-measured", "bool", "true",
           "warn once about the arguments that each step measures">
  ];
  let statistics = [
    Statistic<"numMeasured", "measured", "scales that the step measures">,
    Statistic<"bytesMeasured", "bytes", "bytes that these measurements read">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def ValidateScales : Pass<"scalify-validate-scales", "::mlir::ModuleOp"> {
  let summary = "validate the contract of the Scaling stage";
  let description = [{
    Fails, naming the op, if a floating-point dot has an operand without
    `scalify.scale_hint`, or a constant scale is not a positive power of two.
  }];
}

def AnalyseRanges : Pass<"scalify-analyse-ranges", "::mlir::ModuleOp"> {
  let summary = "prove that casts cannot saturate, or name what prevents it";
  let description = [{
    Bounds every value by its largest magnitude and by norms along axes
    (docs/stages/ranges.md), from the declared `scalify.range` of arguments. The
    program does not change. After: each `scalify.scale_hint` has
    `scalify.proved` if no element can saturate in the format that the recipe
    casts it to, with the bound and the arguments whose ranges are assumed.
    Otherwise it has `scalify.unproved`, with the bound and the op at which the
    proof is lost. The module has `scalify.assumptions`, all ranges that proofs
    assume.

    A norm's output has rows of 2-norm sqrt(n), for any input:

    ```mlir
    func.func @main(%x: tensor<4x64xf32>,
                    %g: tensor<64xf32> {scalify.range = {max = 2.0}}) -> tensor<4x64xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %n = stablehlo.constant dense<64.0> : tensor<4xf32>
      %eps = stablehlo.constant dense<1.0e-5> : tensor<4xf32>
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %square = stablehlo.multiply %x, %x : tensor<4x64xf32>
      %sum = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x64xf32>, tensor<f32>) -> tensor<4xf32>
      %mean = stablehlo.divide %sum, %n : tensor<4xf32>
      %safe = stablehlo.add %mean, %eps : tensor<4xf32>
      %inverse = stablehlo.rsqrt %safe : tensor<4xf32>
      %rows = stablehlo.broadcast_in_dim %inverse, dims = [0] : (tensor<4xf32>) -> tensor<4x64xf32>
      %normal = stablehlo.multiply %x, %rows : tensor<4x64xf32>
      %gain = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<64xf32>) -> tensor<4x64xf32>
      %y = stablehlo.multiply %normal, %gain : tensor<4x64xf32>
      %z = scalify.scale_hint %y, %one : tensor<4x64xf32>
      // scalify.proved = {assumed = ["arg1"], bound = 16.0.., data = 16.0.., format = f8E4M3FN}
      return %z : tensor<4x64xf32>
    }
    ```
  }];
  let options = [
    Option<"annotate", "annotate", "std::string", "\"casts\"",
           "casts: proofs on casts; all: also the bounds of every op's results, "
           "as scalify.ranges">,
    Option<"remarks", "remarks", "bool", "false",
           "report each cast, with a note where its bound is lost">
  ];
  let statistics = [
    Statistic<"numProved", "proved", "casts that cannot saturate">,
    Statistic<"numUnproved", "unproved", "casts without a proof">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

#endif // SCALIFY_SCALING_PASSES_TD
