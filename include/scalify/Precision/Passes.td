//===- Passes.td - The Precision stage ---------------------*- tablegen -*-===//

#ifndef SCALIFY_PRECISION_PASSES_TD
#define SCALIFY_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def DecideFormats : Pass<"scalify-decide-formats", "::mlir::ModuleOp"> {
  let summary = "decide the role and the formats of each dot by the recipe";
  let description = [{
    Before: true values, with `scalify.scale_hint` on the operands of dots and
    convolutions. After: the same ops, with attributes. Each dot has
    `scalify.dot_role`, and `scalify.dot_kind` unless it is one of the update,
    with `scalify.dot_weight` if an argument is its layer's weight.
    If the recipe casts dots, each one on floats also has `scalify.formats` or
    `scalify.wide`, the reason why it stays wide, which is reported in a remark.
    The format of an operand depends on the dot's role or kind, or on an
    exception by its name, and on the phase that produced the operand.

    A dot has both if the recipe has formats for it, but an operand is not
    proved to fit, contains a constant that would saturate, or is in the
    module's `scalify.wide_casts`. This is a list of dictionaries (`cast`,
    `elements`, `names`, `reason`) of casts that clipped in an earlier run and
    are left out. The other casts keep their names.

    A dot to cast has `scalify.accumulation` if its sums are not those of its
    phase, and `scalify.judgement` if a model keeps it out of FP8. Slices of a
    stack that is cast as a whole have `scalify.whole_stack`.

    ```mlir
    %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
    // becomes, under #scalify.recipe<"fp8">,
    %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {scalify.dot_kind = #scalify.dot_kind<forward_dot>, scalify.dot_role = #scalify.dot_role<linear>, scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>} : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let options = [
    Option<"preset", "recipe", "std::string", "\"\"",
           "a preset's name; the module's scalify.recipe if empty">,
    Option<"strict", "strict", "bool", "false",
           "make it an error if a dot that the recipe casts stays wide">,
    Option<"remarks", "remarks", "bool", "true", "report dots that stay wide">,
    Option<"measureUnproved", "measure-unproved", "bool", "false",
           "that option of scalify-quantize: casts that measure their scale are "
           "of slices, not of whole stacks">,
    Option<"stays", "stays", "bool", "false",
           "formats stay for all of training: they also hold for weights as large "
           "as the prior unit-gain predicts">,
    Option<"noiseExponent", "noise-exponent", "int64_t", "0",
           "log2 of the mean square of gradients' errors, as a caller measured it, "
           "over the predicted one">,
    Option<"countsLoops", "counts-loops", "bool", "true",
           "the runtime counts saturated and flushed values of casts in loops of "
           "unknown trip count; if not, dots in such loops stay wide under "
           "propagated and delayed scales, since nothing would adapt them">,
    Option<"rangeUse", "range-use", "std::string", "\"report\"",
           "report: only record proofs of the range analysis; choose: use E5M2 "
           "if a bound fits it and not the recipe's format, and under strict "
           "do not cast forward operands without a proof">
  ];
  let statistics = [
    Statistic<"numNarrowDots", "narrow-dots", "dots on narrow operands">,
    Statistic<"numWideDots", "wide-dots", "dots left wide">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def QuantizeDots : Pass<"scalify-quantize", "::mlir::ModuleOp"> {
  let summary = "cast operands of dots, saved values and state";
  let description = [{
    Before: `scalify.scale_hint` on the operands of dots, and the attributes of
    `scalify-decide-formats`. After: a dot with `scalify.formats` and without
    `scalify.wide` has two `scalify.dequantize` operands, each on the data of
    one `scalify.quantize` in its format. No `scalify.scale_hint`,
    `scalify.dot_role`, `scalify.formats` or `scalify.whole_stack` is left; kind
    and weight stay for the report. The pass decides nothing about dots.

    A value is cast once per format, at its definition. Reshapes and transposes
    between the cast and the dots move narrow data, so that the backward keeps
    the narrow tensor of an activation.

    With `recompute`, the backward rematerialises forward values that
    elementwise ops compute from other kept values, so that the fewest bytes are
    kept. Executables of Scalify are compiled with it. StableHLO for XLA is not,
    since XLA would merge equal ops again.

    If the recipe has formats for state, new parameters and moments are cast
    before main returns them. If it has a format for saved values, so are the
    forward values that the backward reads.

    ```mlir
    %a = scalify.scale_hint %x, %s : tensor<4x64xf32>
    %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>, ...} : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
    // becomes, with %d made in the same way,
    %q = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x64xf32> -> tensor<4x64xf8E4M3FN>
    %c = scalify.dequantize %q, %s : tensor<4x64xf8E4M3FN> -> tensor<4x64xf32>
    %y = stablehlo.dot_general %c, %d, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let options = [
    Option<"strict", "strict", "bool", "false",
           "make it an error if the recipe's format of state or of a gradient "
           "cannot be used">,
    Option<"recompute", "recompute", "bool", "false",
           "rematerialise in the backward the forward values that elementwise "
           "ops compute from kept ones">,
    Option<"roundingKey", "rounding-key", "bool", "true",
           "main's caller passes a new key of random words in each step; else "
           "state is rounded to nearest, with a remark">,
    Option<"measureUnproved", "measure-unproved", "bool", "false",
           "under propagated scales, a cast uses its constant if that holds "
           "the step's values, and else the scale of their amax, as "
           "scalify-carry-scales would move it: for a step whose caller does "
           "not keep scales. A cast whose constant is proved always uses it">
  ];
  let statistics = [
    Statistic<"numCasts", "casts", "quantizing casts">,
    Statistic<"numRecomputed", "recomputed",
              "forward ops cloned into the backward">,
    Statistic<"numNarrowStacks", "narrow-stacks", "stacks of loops that hold narrow data">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def ExpandMeasuredScales
    : Pass<"scalify-expand-measured-scales", "::mlir::ModuleOp"> {
  let summary = "expand measured scales into arithmetic";
  let description = [{
    Before: `scalify.measured_scale` and `scalify.round_scale` as operands of
    casts, `scalify.shared_scale`, and `scalify.measured_row_scales`. After: the
    reductions and the arithmetic on their results that compute them. If nothing
    is cast, and so nothing was propagated, the user's marks
    (`scalify.override_scale`, `scalify.rescale_point`, `scalify.data_scale`)
    become the identity, and a scale of 1.
  }];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def CountSteps : Pass<"scalify-count-steps", "::mlir::ModuleOp"> {
  let summary = "thread the seed and the step counter to stochastic casts";
  let description = [{
    Does nothing unless main has a cast with `rounding = stochastic`. Before:
    such casts without a counter. After: main has one more argument, last,
    `tensor<2xui32>` named `scalify.step`: (seed, steps so far). It is the
    counter of the casts, and is donated to one more result, last: (seed, steps
    so far + 1).

    ```mlir
    func.func @main(%w: tensor<4x8xf32>, %step: tensor<2xui32> {scalify.name = "scalify.step", tf.aliasing_output = 1 : i32, ...})
        -> (tensor<4x8xf32>, tensor<2xui32>) {
      %q = scalify.quantize %w1, %s at %step {rounding = #scalify.rounding<stochastic>, stream = 0 : i64} : tensor<4x8xf32> -> tensor<4x8xf16>
    ```
  }];
  let statistics = [
    Statistic<"numCounted", "counted", "casts that read the step">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def AdaptScales : Pass<"scalify-adapt-scales", "::mlir::ModuleOp"> {
  let summary = "turn constant scales of casts into an argument of main";
  let description = [{
    Before: the output of Precision. After: main has one more argument, last,
    `tensor<N x f32>` named `scalify.scales`, with an entry for each of the N
    casts in the order of the text; a cast whose scale was a constant reads its
    entry. Entries must be powers of two. With the constants that were there
    the step gives the same bits.

    The module also has `@rescale(scales, counters) -> scales`, which a runtime
    calls between two steps. Its ops are elementwise on these vectors. They move
    an entry up by 1, 2, 4 or 8 binades if more than 2^-12, 1 %, 10 % or 30 % of
    the cast's values saturated, and down by 1, 2 or 4 if more than 2 %, 10 % or
    50 % became zero and none is a sixteenth of the format's largest or more.
    Row i of the counters is (saturated, flushed, zeros, NaNs, top, scale) of
    cast i. `scalify-limit-rescale`, which ends Distribution, updates the
    numbers of elements in `@rescale`.

    ```mlir
    %q = scalify.quantize %x, %c : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
    // becomes, for the third cast,
    %0 = stablehlo.slice %scales [2:3] : (tensor<7xf32>) -> tensor<1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<f32>
    %q = scalify.quantize %x, %1 : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
    ```
  }];
  let statistics = [
    Statistic<"numAdapted", "adapted", "casts that read their scale">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def CarryScales : Pass<"scalify-carry-scales", "::mlir::ModuleOp"> {
  let summary = "carry scales of casts across steps";
  let description = [{
    Does nothing unless the recipe's scales are `propagated`. Before: casts with
    the scales that the rules predict: constants, or measured in the step from
    arguments. After: main has one more argument, last, `tensor<N x f32>` named
    `scalify.carried_scales`, and one more result, last, to which it is donated.
    Entry i is the scale of the cast that `scalify.casts` names at i, and 0
    while that is the predicted one. If the step measures the scale, in each
    iteration of a loop, the entry is a factor of the measured scale, stored as
    a negative number.

    A step measures the amax of each cast's operand, and whether more than one
    in 64 nonzero elements become zero. A scale changes for the next step if the
    amax was outside of a window, or if too many elements became zero and none
    was in the top four binades of the format. The new scale is the smallest
    power of two by which the amax fits, plus some room. A window goes from a
    multiple of the smallest normal number to a fraction of the largest value:
    for E4M3 from 2^4 to 2^-2, with room of 2 binades; for formats with five
    exponent bits from 2^14 to 2^-11 with 12, and for gradients in these from
    2^14 to 2^-6 with 8. Otherwise the scale stays, and so do the bits of the
    step. An amax that is zero or not finite moves nothing. Loops and branches
    return the maxima of the statistics, and ranks combine theirs by maximum.

    Casts keep constants if a proof of the range analysis assumes no more than
    gains of norms and integers, in BF16, if their data leave the step or become
    state, in the condition of a loop, and in manual computations. Casts that
    write data for one reader share an entry.

    ```mlir
    func.func @main(%x: tensor<4x8xf32>, %s: tensor<1xf32> {scalify.name = "scalify.carried_scales", tf.aliasing_output = 1 : i32, ...})
        -> (tensor<4x8xf32>, tensor<1xf32>)
    ```
  }];
  let options = [
    Option<"marked", "marked", "bool", "false",
           "carry the casts with `scalify.carried` and no others">
  ];
  let statistics = [
    Statistic<"numCarried", "carried", "casts whose scale is carried">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def JudgePlainForm : Pass<"scalify-judge-plain-form", "::mlir::ModuleOp"> {
  let summary = "decide for delayed scales on a clone without loops or rematerialisation";
  let description = [{
    Does nothing unless the recipe's scales are `delayed`. Before: StableHLO as
    Import leaves it. After: the same, with decisions on its dots. They are made
    on the step's plain form, a clone in which loops are unrolled and nothing
    is rematerialised. The pipeline `scaling` gives the clone its scales, and
    the models of `sensitive` and `unprofitable` judge it. So a scan, its
    unrolled form, and either of them under a checkpoint start from the same
    scales, cast the same dots, and then train to the same bits.

    Dots at one place (the layers of a stack), and dots that are one in the
    clone, form a class: all stay wide if one does, and all take the largest
    scales. The clone keeps loops of unknown trip count and branches on data.

    `scalify-decide-formats` keeps the role of a dot, `scalify.dot_role`, and
    applies `scalify.plain_decision`, the reason why it stays wide.
    `scalify-quantize` applies `scalify.plain_scales`, log2 of the scales of its
    operands. By the number of the class, `scalify.plain_class`,
    `scalify-delay-scales` assigns rows to casts. It then removes the
    attributes.

    ```mlir
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.dot_role = #scalify.dot_role<linear>, scalify.plain_class = 0, scalify.plain_scales = array<i32: 1, -3>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let options = [
    ListOption<"scaling", "scaling", "::mlir::OpPassManager",
               "pipelines that give the clone its scales">,
    Option<"stays", "stays", "bool", "false",
           "that option of scalify-decide-formats">,
    Option<"noiseExponent", "noise-exponent", "int64_t", "0",
           "that option of scalify-decide-formats">
  ];
}

def DelayScales : Pass<"scalify-delay-scales", "::mlir::ModuleOp"> {
  let summary = "derive scales from the amaxes of earlier steps";
  let description = [{
    Does nothing unless the recipe's scales are `delayed`. Before: casts with
    the constant scales that the rules predict. After: main has one more
    argument, last, `tensor<N x W x f32>` named `scalify.amax_history`, and one
    more result, last, to which it is donated. Row i is of the casts to FP8 that
    `scalify.casts` names at i; the newest amax is last. A cast's scale is the
    smallest power of two by which the largest (or the newest) amax of its row
    fits the format, plus `margin` binades; the prediction while the row is
    zero.

    A step measures the amax of each cast's operand, appends it to the row, and
    drops the oldest one. Amaxes that are zero or not finite do not count; a row
    without any other stays as it is. Loops and branches return the amax as a
    maximum.

    Casts at one place of the program (names, frames, shape, format) share a
    row, and so do casts that dots at one place read. So a value that a
    checkpoint rematerialises has the row of the value, a loop has the rows of
    its unrolled form, and an argument shares a row with its slices.

    A cast keeps its constant if its data leave the step or become state, in
    the condition of a loop, and in manual computations.

    ```mlir
    func.func @main(%x: tensor<4x8xf32>, %h: tensor<1x16xf32> {scalify.name = "scalify.amax_history", tf.aliasing_output = 1 : i32, ...})
        -> (tensor<4x8xf32>, tensor<1x16xf32>)
    ```
  }];
  let statistics = [
    Statistic<"numDelayed", "delayed", "casts whose scale is delayed">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def StoreState : Pass<"scalify-store-state", "::mlir::ModuleOp"> {
  let summary = "pack state as narrow data between steps";
  let description = [{
    Before: donated arguments of main whose new values are cast, so that they
    are narrow data times a constant power of two, or, for a second moment, the
    square of that product. After: such an argument and the result that aliases
    it are the narrow data, the step computes the true values where it first
    reads them, and the argument carries `scalify.stored` with log2 of the scale
    and whether its true values are squares. All other values keep their bits.

    An argument that the step returns unchanged, or that stays wide, keeps its
    type.

    ```mlir
    func.func @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
      %new = "some.step"(%w) : (tensor<4xf32>) -> tensor<4xf32>
      %q = scalify.quantize %new, %s {scalify.state = "value"} : tensor<4xf32> -> tensor<4xf16>
      %y = scalify.dequantize %q, %s : tensor<4xf16> -> tensor<4xf32>
      return %y : tensor<4xf32>
    // becomes
    func.func @main(%w: tensor<4xf16> {scalify.stored = {exponent = -5, root = false}, tf.aliasing_output = 0 : i32}) -> tensor<4xf16> {
      %x = scalify.dequantize %w, %s : tensor<4xf16> -> tensor<4xf32>
      %new = "some.step"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %q = scalify.quantize %new, %s : tensor<4xf32> -> tensor<4xf16>
      return %q : tensor<4xf16>
    ```
  }];
  let statistics = [
    Statistic<"numStored", "stored", "arguments that are stored narrow">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def ScaleGradients : Pass<"scalify-scale-gradients", "::mlir::ModuleOp"> {
  let summary = "scale gradients before they are stored narrow";
  let description = [{
    Before: casts of weights' gradients, which `scalify.gradient` numbers.
    After: the operand of the cast is multiplied by a rank-0 factor, and its
    dequantized data by the inverse. Under `gradient_scaling = inverse_sqrt` the
    factor is one over the root of the number of ranks that sum the gradient
    (`scalify.gradient_group`, else `simulated_ranks`); under `minimum` there is
    none.

    Under `mu` main has one more argument, last, `tensor<Nxf32>` named
    `scalify.gradient_mu`, and one more result, last, to which it is donated.
    Entry i is the factor of gradient i; 0 stands for 1, that of a first step.
    The next one is half of it if more than 1e-5 of the data are at the format's
    largest value, else 2^(1/1000) times it, within [2^-10, 2].

    ```mlir
    %q = scalify.quantize %g, %s {scalify.gradient = 2 : i64} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
    %y = scalify.dequantize %q, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
    // becomes
    %0 = stablehlo.slice %mu [2:3] : (tensor<7xf32>) -> tensor<1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<f32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %3 = stablehlo.multiply %g, %2 : tensor<4x8xf32>
    %q = scalify.quantize %3, %s {scalify.gradient = 2 : i64} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
    %4 = scalify.dequantize %q, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
    %5 = stablehlo.divide %one, %1 : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %y = stablehlo.multiply %4, %6 : tensor<4x8xf32>
    ```
  }];
  let options = [
    Option<"keepsState", "keeps-state", "bool", "true",
           "main's caller keeps arguments between steps; else mu stays 1">
  ];
  let statistics = [
    Statistic<"numScaled", "scaled", "gradients that are multiplied">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def ValidatePrecision : Pass<"scalify-validate-precision", "::mlir::ModuleOp"> {
  let summary = "validate the contract of the Precision stage";
  let description = [{
    Fails, naming the op, if a `scalify.scale_hint`, a measured scale or a mark
    of the user is left; if an argument with `scalify.stored` is read or written
    other than as data of its scale; if a dot or convolution has one narrow and
    one wide operand, or operands of two formats that it cannot combine; if a
    value is cast twice to one format; or if, under a recipe that casts, a
    floating-point dot has neither narrow operands nor `scalify.wide`.
  }];
}

#endif // SCALIFY_PRECISION_PASSES_TD
