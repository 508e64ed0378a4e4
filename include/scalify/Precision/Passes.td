//===- Passes.td - The Precision stage ---------------------*- tablegen -*-===//

#ifndef SCALIFY_PRECISION_PASSES_TD
#define SCALIFY_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def QuantizeDots : Pass<"scalify-quantize", "::mlir::ModuleOp"> {
  let summary = "cast operands of dots, saved values and state by the recipe";
  let description = [{
    Before: true values, with `scalify.scale_hint` on the operands of dots and
    convolutions. After: a dot that the recipe wants narrow has two
    `scalify.dequantize` operands, each over the data of one
    `scalify.quantize`; no `scalify.scale_hint` is left. The format follows the
    dot's role, or an exception by its name, and the phase that made the
    operand.

    A value is cast to a format once: the cast stands at the value's
    definition, and reshapes and transposes between it and the dots move narrow
    data. What the backward needs of an activation is then the narrow tensor.

    Dots that stay wide carry `scalify.wide` with the reason, and get a remark:
    the role that the recipe does not cast, the exception by name, or the
    health of a cast: those of the module's `scalify.wide_casts`, a list of
    dictionaries (`cast`, `elements`, `names`, `reason`), are not made, and the
    other casts keep the names that they have with them.

    What the backward reads of the forward and can compute again by elementwise
    ops from other values that it keeps, it does with `recompute`, so that the
    fewest bytes are kept. An executable of ours is compiled so; XLA, which has
    the text otherwise, would merge equal ops again.

    Under a recipe with formats for state, a step's new parameters and moments
    go through that format on their way out; under one with a format for what
    is saved, so does what the backward reads of the forward.

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
           "make a dot that the recipe wants narrow and that stays wide an error">,
    Option<"remarks", "remarks", "bool", "true", "report dots that stay wide">,
    Option<"recompute", "recompute", "bool", "false",
           "compute again in the backward what follows by elementwise ops from "
           "what is kept of the forward">,
    Option<"roundingKey", "rounding-key", "bool", "true",
           "whoever runs main brings another key of random words in each step; "
           "else state is rounded to nearest, with a remark">,
    Option<"measureUnproved", "measure-unproved", "bool", "false",
           "under propagated scales, a cast takes the constant where it holds "
           "what the step casts, and else the scale of its amax, as "
           "scalify-carry-scales would move it: for a step that nobody hands "
           "scales from the one before. Not where a proof keeps the constant">,
    Option<"countsLoops", "counts-loops", "bool", "true",
           "the runtime counts saturated and flushed values of casts in loops of "
           "unknown length; if not, dots in such loops stay wide under propagated "
           "and delayed scales, which nothing would adapt">,
    Option<"rangeUse", "range-use", "std::string", "\"report\"",
           "report: proofs of the range analysis are only noted; choose: E5M2 "
           "where a bound fits that format and not the recipe's, and under "
           "strict no cast in the forward without a proof">
  ];
  let statistics = [
    Statistic<"numCasts", "casts", "quantizing casts">,
    Statistic<"numRecomputed", "recomputed", "ops of the forward that the backward computes again">,
    Statistic<"numNarrowDots", "narrow-dots", "dots on narrow operands">,
    Statistic<"numNarrowStacks", "narrow-stacks", "stacks of loops that hold narrow data">,
    Statistic<"numWideDots", "wide-dots", "dots left wide">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def ExpandMeasuredScales
    : Pass<"scalify-expand-measured-scales", "::mlir::ModuleOp"> {
  let summary = "expand measured scales into arithmetic";
  let description = [{
    Before: `scalify.measured_scale` and `scalify.round_scale` as operands of
    casts, `scalify.shared_scale`, and `scalify.measured_row_scales`. After: the reductions and the rank-0 arithmetic that compute them.
    What the user said of scales (`scalify.override_scale`,
    `scalify.rescale_point`, `scalify.data_scale`) goes away where nothing is
    cast and so nothing was propagated: the identity, and a scale of 1.
  }];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def CountSteps : Pass<"scalify-count-steps", "::mlir::ModuleOp"> {
  let summary = "thread the seed and the step counter to stochastic casts";
  let description = [{
    Does nothing unless main has a cast with `rounding = stochastic`. Before:
    such casts without a counter. After: main has one more argument, last,
    `tensor<2xui32>` named `scalify.step`, which is (seed, steps so far), and
    one more result, last, to which it is donated: the same with one step more.
    The casts have it as their counter.

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

    Beside main stands `@rescale(scales, counters) -> scales`, which a run-time
    calls between two steps: elementwise ops on these vectors that move an
    entry up by 1, 2, 4 or 8 binades where more than 2^-12, 1 %, 10 % or 30 %
    of the cast's values saturated, and down by 1, 2 or 4 where more than 2 %,
    10 % or 50 % became zero and none is a sixteenth of the format's largest or
    more. Row i of the counters is (saturated, flushed, zeros, NaNs, top, scale)
    of cast i.
    `scalify-limit-rescale` ends Distribution.

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
    the scales that the rules predict, constants or what the step measures of
    arguments. After: main has one more argument, last, `tensor<N x f32>` named
    `scalify.carried_scales`, and one more result, last, to which it is donated.
    Entry i is the scale of the cast that `scalify.casts` names at i, and 0 while
    it is the predicted one. Where the step measures the scale, each iteration of
    a loop its own, the entry is a factor of it, and is held below zero.

    A step measures of what each cast reads the largest magnitude, and whether
    more than one in 64 elements that are not zero become zero. In the next step
    a scale is another one where the largest magnitude was outside of a window,
    or where too many became zero and nothing was in the four binades at the top.
    It is then the smallest power of two by which the amax fits with some room.
    Windows go from a multiple of the smallest normal number to a share of the
    largest value: E4M3's from 2^4 to 2^-2, with room of 2 binades; that of
    formats with five bits of exponent from 2^14 to 2^-11 with 12, of gradients
    from 2^14 to 2^-6 with 8. Else the scale stays, and so do the bits of the
    step. An amax that is zero or not finite moves
    nothing. In loops and branches statistics are carried out as maxima, and
    over ranks their maxima count.

    Constants stay where a proof of the range analysis rests on no more than
    gains of norms and integers, in BF16, where data leave the step or become
    state, in the condition of a loop, and inside of manual computations. Casts
    that write data for one reader have one entry.

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
    Import leaves it. After: the same, with decisions on its dots that are those
    of the step's plain form, a copy whose loops are written out and in which
    what a checkpoint computes again is computed once. The copy goes through
    Scaling, and the models of `sensitive` and `unprofitable` judge it. So a
    scan, what it is unrolled, and either of them under a checkpoint, start from
    the same scales and cast the same dots, and then train to the same bits.

    Of dots at one place (the layers of a stack), and of those that are one in
    the copy, all stay wide if one does, and take the largest scales. Loops of
    an unknown number of iterations stay loops, and branches that data choose
    stay branches, in the copy too.

    `scalify-quantize` takes the decisions: `scalify.plain_role` is a dot's
    role, `scalify.plain_scales` log2 of the scales of its operands,
    `scalify.plain_decision` why it stays wide. By
    `scalify.plain_class`, which dots that are decided together have in common,
    `scalify-delay-scales` gives casts a row, and takes the attributes away.

    ```mlir
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.plain_class = 0, scalify.plain_role = #scalify.dot_role<linear>, scalify.plain_scales = array<i32: 1, -3>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def DelayScales : Pass<"scalify-delay-scales", "::mlir::ModuleOp"> {
  let summary = "derive scales from the amaxes of earlier steps";
  let description = [{
    Does nothing unless the recipe's scales are `delayed`. Before: casts with
    the constant scales that the rules predict. After: main has one more
    argument, last, `tensor<N x W x f32>` named `scalify.amax_history`, and one
    more result, last, to which it is donated. Row i is of the casts to FP8 that
    `scalify.casts` names at i; the newest amax is last. A cast's scale is the
    smallest power of two by which the largest amax of its row (or the newest)
    fits the format, `margin` binades up; the prediction while the row is zero.

    A step measures the amax of what each cast reads, and appends it to the
    row while the oldest one falls out. Zero and what is not finite do not
    count: if nothing else was seen the row stays as it is. In loops and
    branches the amax is carried out as a maximum.

    Casts at one place of the program (names, frames, shape, format) have one
    row, and so do those that products of one place read: a value that a
    checkpoint makes again has the row of the value, and a loop has the rows
    that it has once unrolled. So do an argument and its slices.

    A cast keeps its constant where its data leave the step or become state,
    in the condition of a loop, and inside of manual computations.

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
    Before: donated arguments of main whose new values go through a narrow
    format, so that they are narrow data times a constant power of two, or for a
    second moment the square of that. After: such an argument and the result
    that takes its memory are the narrow data, the true values are made where
    the step first reads them, and the argument carries `scalify.stored` with
    log2 of the scale and whether its true values are squares. All other values
    are the same bits.

    An argument that the step returns as it is, or that stays wide, keeps its
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
    Before: casts of weights' gradients, which `scalify.gradient` numbers. After:
    the value that is cast is multiplied by a number of rank 0, and what reads
    its data by the inverse. Under `gradient_scaling = inverse_sqrt` the number
    is one over the root of `simulated_ranks`, under `minimum` there is none.

    Under `mu` main has one more argument, last, `tensor<Nxf32>` named
    `scalify.gradient_mu`, and one more result, last, to which it is donated.
    Entry i is the number of gradient i; 0 stands for 1, that of a first step.
    The next one is a half of it if more than 1e-5 of the data are at the
    format's largest value, else 2^(1/1000) times it, within [2^-10, 2].

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
    Fails, naming the op, where a `scalify.scale_hint` is left, an argument that `scalify.stored` marks is read or written other than
    as data of its scale, a dot or convolution has one narrow operand and one wide one or two
    formats that cannot meet, a value is cast twice to one format, or a
    floating-point dot is neither on narrow operands nor marked `scalify.wide`
    under a recipe that casts.
  }];
}

#endif // SCALIFY_PRECISION_PASSES_TD
