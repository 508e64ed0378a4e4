//===- Passes.td - From tensors to a plan ------------------*- tablegen -*-===//

#ifndef SCALIFY_FUSION_PASSES
#define SCALIFY_FUSION_PASSES

include "mlir/Pass/PassBase.td"
include "scalify/Fusion/CollectivePasses.td"
include "scalify/Fusion/ExpandPasses.td"

def UnrollLoops : Pass<"scalify-unroll-loops", "::mlir::func::FuncOp"> {
  let summary = "unroll loops of known trip count";
  let description = [{
    Before: StableHLO with loops and branches. After: no `stablehlo.while`; an
    iteration is a copy of the body in which the counter is a constant, what is
    computed from it is folded, and a branch that it chooses is inlined. Of
    branches that data choose all are computed, and a select takes the results
    of one; what is cast in the others counts in the step's health. A slice
    of a stack reads the value that an iteration put there, and a stack that is
    read as a whole is one concatenation, marked `plan.stack` where its pieces
    can be computed in place. A loop whose trip count is not known is an error.

    ```mlir
    %r:2 = stablehlo.while(%i = %c0, %s = %stack) : tensor<i32>, tensor<2x8xf32>
      cond { ... compare LT, %i, %c2 ... } do {
        %y = ...
        %t = stablehlo.dynamic_update_slice %s, %y, %i, %c0 : ...
        %j = stablehlo.add %i, %c1 : tensor<i32>
        stablehlo.return %j, %t : tensor<i32>, tensor<2x8xf32>
      }
    // becomes
    %y0 = ...
    %y1 = ...
    %r = stablehlo.concatenate %y0, %y1, dim = 0 {plan.stack} : ...
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let options = [
    Option<"maxOps", "max-ops", "int64_t", "200000",
           "ops that all iterations may have together: a plan of more takes "
           "minutes to make">];
  let statistics = [
    Statistic<"numLoops", "loops", "loops replaced">,
    Statistic<"numIterations", "iterations", "iterations written out">,
    Statistic<"numStacks", "stacks", "stacks made concatenations">,
    Statistic<"numSelects", "selects", "branches that data choose">];
}

def FormHostCalls : Pass<"scalify-form-host-calls", "::mlir::func::FuncOp"> {
  let summary = "form host calls for callbacks and for ops without a CPU lowering";
  let description = [{
    Before: custom calls of JAX's callbacks, and with `fallback=xla` ops that the
    CPU target has no lowering for: calls of libraries, FFT, Cholesky, complex
    numbers, loops of unknown length. After: `plan.invoke` for each callback, and
    for each such op. Ops that pass each other values which no buffer can hold
    (complex ones) become one, with all that lies between them. Its `program` is
    a module whose `@main` is what was cut out; a remark says what that was. The
    pass goes into loops of known length and branches. Without `callbacks` a callback is
    an error, since nobody would know what it calls.

    ```mlir
    %1 = stablehlo.cholesky %0 : tensor<4x4xf32>
    // becomes
    %1 = plan.invoke "cholesky" %0 program "module { func.func @main... }"
        : (tensor<4x4xf32>) -> tensor<4x4xf32>
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let options = [
    Option<"callbacks", "callbacks", "bool", "false",
           "whoever runs the plan has the functions that are called back">,
    Option<"fallback", "fallback", "std::string", "\"\"",
           "xla: what the CPU target lacks is run by XLA">];
  let statistics = [
    Statistic<"numCallbacks", "callbacks", "callbacks formed">,
    Statistic<"numFallbacks", "fallbacks", "programs cut out for XLA">];
}

def OrderHostCalls : Pass<"scalify-order-host-calls", "::mlir::func::FuncOp"> {
  let summary = "chain host calls with side effects in program order";
  let description = [{
    Before: one block whose `plan.invoke` ops with `effects` are ordered by their
    places alone. After: each reads an i32 that the one before it made, so that
    no scheduling can change the order.

    ```mlir
    plan.invoke "print" %x callback 0 effects : (tensor<f32>) -> ()
    // becomes
    %1 = plan.invoke "print" %x after %0 callback 0 effects
        : (tensor<f32>, tensor<i32>) -> tensor<i32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

def RecomputeCasts : Pass<"scalify-recompute-casts", "::mlir::func::FuncOp"> {
  let summary = "rematerialise casts whose source is already saved";
  let description = [{
    For GPUs. Before: StableHLO without loops, whose values Precision cast, each
    once. After: what the forward keeps for the backward is the cheapest cut in
    bytes through elementwise ops and casts by one scale. Data whose source the
    backward reads as well are cast again in the backward, by a
    `scalify.quantize` that is `scalify.uncounted`. No bit changes. Casts of
    arguments stay, one a step, and so does what another forward behind the
    first backward reads, in steps of several micro-batches.

    ```mlir
    %t = stablehlo.tanh %h : tensor<16x32xf32>
    %q = scalify.quantize %t, %s : tensor<16x32xf32> -> tensor<16x32xf8E4M3FN>
    // the forward's dot, ..., the backward's dot, both on
    %d = scalify.dequantize %q, %s : ...
    // becomes, beside the backward's dot,
    %t1 = stablehlo.tanh %h {scalify.phase = #scalify.phase<backward>} : tensor<16x32xf32>
    %q1 = scalify.quantize %t1, %s {scalify.phase = #scalify.phase<backward>, scalify.uncounted} : ...
    %d1 = scalify.dequantize %q1, %s : ...
    ```
  }];
  let statistics = [
    Statistic<"numRecomputed", "recomputed", "ops that the backward computes again">];
}

def PreparePlan : Pass<"scalify-prepare-plan", "::mlir::func::FuncOp"> {
  let summary = "rewrite ops that no kernel or GEMM runs as they are";
  let description = [{
    Before: StableHLO without loops, branches, sorts, windows and convolutions. After: dots are f32 and floating point; other dots
    are sums of products; reductions are over trailing dimensions or over
    others, never both; a sum of a large tensor to few elements has two stages
    of fixed size, so that its bits do not depend on threads; barriers are
    gone; each dequantized value is made anew near its uses, so that what lives
    from forward to backward is the FP8 tensor; equal constant scales are one,
    and a scale that is an entry of `scalify.scales` is the constant that it
    starts from, marked `plan.scale_entry`, so that both plan alike. Ops that the plan cannot hold
    (Fourier transforms, complex and random numbers, F64 forms of functions that are polynomials) are errors.
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let options = [
    Option<"phaseDistance", "phase-distance", "int64_t", "8",
           "ops between a use and one of another phase of the step that is "
           "to have a dequantized value of its own">];
  let statistics = [
    Statistic<"numSplitReduces", "split-reduces", "reductions cut in stages">,
    Statistic<"numWidenedDots", "widened-dots", "dots made f32">,
    Statistic<"numRemade", "remade", "dequantized values made a second time">];
}

def NarrowDots : Pass<"scalify-narrow-dots", "::mlir::func::FuncOp"> {
  let summary = "feed dots the narrow data behind their operands";
  let description = [{
    For GPUs of the Hopper kind. Before: dots on wide operands that are made of
    narrow data, `scalify.dequantize` or a convert. After: dots on the data
    themselves, and products of their results with the scales; what was made
    for dots alone is gone. Both operands of an FP8 dot have the sum's dimension
    innermost, in strides of 16 bytes: where the data lie otherwise they are
    stored once more beside where they are made, transposed, one copy for all
    dots that want it. A sum of no multiple of 16 elements is filled up with
    zeros in what a kernel stores anyway: whoever else reads these data reads
    the filled rows. What no FP8 product of the library can be (two operands of
    E5M2, a sum of 24 over an argument, rows of the result of no 16 bytes) is
    one of BF16, which is exact, with a remark.

    An operand with many scales, a `scalify.dequantize` with `block`, stays one,
    on a matrix whose data and scales lie as the library reads both, and is
    marked `plan.scaling` with how: `rows`, `vectors` of 128 or `blocks` of
    128 x 128 (`plan.gemm`). Scales of more elements are written for each part.
    What these cannot say, and a batch, is a product of BF16: block scales are
    powers of two, so that it too is exact.

    ```mlir
    %x = scalify.dequantize %q, %s : tensor<16x32xf8E4M3FN> -> tensor<16x32xf32>
    %w = scalify.dequantize %p, %t : tensor<32x48xf8E4M3FN> -> tensor<32x48xf32>
    %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ...
    // becomes, with constant scales,
    %p1 = stablehlo.transpose %p, dims = [1, 0] {plan.materialise} : ... -> tensor<48x32xf8E4M3FN>
    %d1 = stablehlo.dot_general %q, %p1, contracting_dims = [1] x [1] : ... -> tensor<16x48xf32>
    %d = stablehlo.multiply %d1, %both : tensor<16x48xf32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numNarrowed", "narrowed", "dots that read narrow data">,
    Statistic<"numTransposed", "transposed", "FP8 tensors stored transposed">,
    Statistic<"numFilled", "filled", "FP8 tensors whose rows are filled up">];
}

def FormAttention : Pass<"scalify-form-attention", "::mlir::func::FuncOp"> {
  let summary = "fuse dots around a softmax into a library's attention";
  let description = [{
    For GPUs, behind `scalify-narrow-dots`. Before: a softmax of a dot that is
    scaled by constants and perhaps masked causally, dots that mix values by its
    weights, and dots on its gradient, all on operands of BF16 or F16. After:
    `plan.attend` of the forward and of the gradient; weights and scores are
    gone. What `scalify.nn.attention` and its gradient decompose to has this
    form. Scales of the operands' data are in the attention's scale, and those
    of its results are multiplied behind it, where they are powers of two. What
    `scalify-quantize` lets the backward compute again is read as computed once.

    The library rounds its results to 16 bits. With the level `exact` the program
    must do so too. With `recipe` it need not where the recipe's own casts made
    the operands BF16: then the attention is a product that the recipe has in
    BF16, and its results are rounded where they leave it.

    Where anything else reads its weights, or the hardware's library has no such
    attention, it stays as it is, and a remark says the reason.

    ```mlir
    %s = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : ...
    %p = (softmax of %s * 0.125, rounded to bf16)
    %o = stablehlo.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : ...
    // becomes
    %o, %statistics = plan.attend %q, %k, %v sizes [2, 4, 4, 64, 64, 32] windows [...] scale 0.125 : ...
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let options = [
    Option<"level", "level", "std::string", "\"recipe\"",
           "exact: where the program rounds as the library does; recipe: also "
           "where the recipe casts the operands to BF16">];
  let statistics = [
    Statistic<"numForwards", "forwards", "forward attentions formed">,
    Statistic<"numGradients", "gradients", "gradients of attention formed">];
}

def FormGemms : Pass<"scalify-form-gemms", "::mlir::func::FuncOp"> {
  let summary = "convert dots to strided GEMMs";
  let description = [{
    Before: `stablehlo.dot_general` on f32. After: `plan.matmul`, whose strides
    hold the transposes, reshapes and slices around the dot, and whose alpha
    holds a multiply of the result by a constant; scales of FP8 operands that
    are no constants, or many, the GEMM reads from memory. An operand whose layout no
    GEMM can read is copied, with a remark. On a GPU F32 dots that ask for TF32
    get it.

    ```mlir
    %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %d = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : ...
    // becomes
    %d = plan.matmul %x, %w m 2 n 8 k 4 strides [4, 1] x [1, 4] to [8, 1] ...
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let statistics = [
    Statistic<"numGemms", "gemms", "GEMMs made">,
    Statistic<"numCopies", "copies", "operands copied for their layout">,
    Statistic<"numAlphas", "alphas", "multiplies folded into a GEMM">];
}

def FormEpilogues : Pass<"scalify-form-epilogues", "::mlir::func::FuncOp"> {
  let summary = "fuse bias, activation and cast epilogues into GEMMs";
  let description = [{
    For GPUs, behind `scalify-form-gemms`. Before: `plan.matmul` without an
    epilogue, and what is done to its result. After: where a vector is added to
    each of its rows, or a ReLU follows, or both, and then perhaps a rounding to
    16 bits, and what that makes is in memory anyway, as an operand of another
    call or a result, it is the GEMM's epilogue, and no kernel does it. The
    backward asks the stored result where it asked the product if it was above 0.

    No rounding changes: sums stay F32 until they are stored. A product that the
    program rounds before it adds a bias, a bias of a type that the library does
    not add to such a result, one along the columns, and operands with many
    scales keep their kernel, with a remark that says why. Where kernels alone
    read what is made, each adds the bias itself, which costs nothing, and
    nothing is said.

    With the level `all` the library also rounds once where the program rounds the
    product before it adds the bias, and does GELU in its tanh form, by a tanh of
    its own. What else reads the sum reads what the library stores of it. The
    product of a gradient goes on behind a GELU whose input is in memory, and
    behind a ReLU that is a GEMM's, which stores a bit an element for it.

    A product of FP8 of which nothing but a cast to FP8 is read, by a scale that
    is known before, and perhaps its largest magnitude, is stored as FP8, in the
    order of what reads it if that is one. With the level `exact` it is a cast of
    the program's own that clamps to the format; with `all` also one that is
    counted, which the library's is not, or that has a NaN where the library
    saturates, and one behind a bias, a ReLU or a GELU.

    ```mlir
    %d = plan.matmul %x, %w m 16 n 32 k 8 ... : ... -> tensor<16x32xf32>
    %b = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<32xf32>) -> tensor<16x32xf32>
    %s = stablehlo.add %d, %b : tensor<16x32xf32>
    %h = stablehlo.maximum %s, %zero : tensor<16x32xf32>
    %y = plan.matmul %h, %v ...
    // becomes
    %h = plan.matmul %x, %w m 16 n 32 k 8 ... epilogue bias_relu bias(%bias) : ... -> tensor<16x32xf32>
    %y = plan.matmul %h, %v ...
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let options = [
    Option<"level", "level", "std::string", "\"exact\"",
           "exact: what rounds as the program does; all: what the library has">];
  let statistics = [
    Statistic<"numEpilogues", "epilogues", "GEMMs that have an epilogue">];
}

def PlaceStages : Pass<"scalify-place-stages", "::mlir::ModuleOp"> {
  let summary = "place ops on the stages of a pipeline";
  let description = [{
    Before: `@main` of a step without loops, with borders between the chunks of
    the model (`stablehlo.optimization_barrier` with `scalify.stage_border`,
    "forward", and "backward" in the gradient) once for each micro-batch. After:
    no borders. With `stages`, ops have the task that they belong to
    (`plan.task`): "F2.1", the forward of chunk 2 for micro-batch 1, "B2.1", its
    backward, or "U0", what stage 0 does when all backwards are done; chunk c is
    on stage c mod `stages`. The module's `plan.pipeline` also has the `ranks` of
    each stage: those of the mesh that the program is of. Ops that read no state have none: every stage that
    wants what they make does them. Arguments that are state have the stage that
    keeps them (`plan.owner`), but for the scales of narrow state: all have these.

    What reads state alone, as a cast of a weight, is in the first task that
    reads it. The optimizer is where its gradients are. A value that another
    stage reads without a border is sent there, with a remark.

    ```mlir
    %h = stablehlo.tanh %x : tensor<8x16xf32>
    %b = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %h : tensor<8x16xf32>
    %y = stablehlo.exponential %b : tensor<8x16xf32>
    // becomes
    %h = stablehlo.tanh %x {plan.task = "F0.0"} : tensor<8x16xf32>
    %y = stablehlo.exponential %h {plan.task = "F1.0"} : tensor<8x16xf32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect",
                           "::scalify::plan::PlanDialect"];
  let options = [
    Option<"stages", "stages", "int64_t", "0",
           "of the pipeline; with 0 borders only go">,
    Option<"virtualChunks", "virtual", "int64_t", "1",
           "chunks of the model on each stage">];
}

def SplitStages : Pass<"scalify-split-stages", "::mlir::ModuleOp"> {
  let summary = "split the plan into one program for each pipeline stage";
  let description = [{
    Before: `plan.program @step` whose commands have tasks, temporaries without
    offsets. After: programs `@stage0`, `@stage1`, ..., each with the arguments,
    results and commands of one stage. A stage does its tasks in the order of
    the schedule, 1F1B or interleaved; what it reads of others comes by
    `plan.message`, all messages of all stages in one order. Results stay with
    the stage that makes them; those of one element, and what replaces an
    argument that all stages have, go to all.

    ```mlir
    plan.kernel "tanh" ... writes(%h : memref<8xf32>) attributes {plan.task = "F0.0"}
    plan.kernel "exponential" reads(%h : memref<8xf32>) ... attributes {plan.task = "F1.0"}
    // becomes
    plan.program @stage0 {
      plan.kernel "tanh" ... writes(%h : memref<8xf32>)
      plan.message "F0.0 tanh" %h to 1 : memref<8xf32>
    }
    plan.program @stage1 {
      plan.message "F0.0 tanh" %h from 0 : memref<8xf32>
      plan.kernel "exponential" reads(%h : memref<8xf32>) ...
    }
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let statistics = [
    Statistic<"numMessages", "messages", "messages between stages">];
}

def TakeStage : Pass<"scalify-take-stage", "::mlir::ModuleOp"> {
  let summary = "extract one pipeline stage, if all stages fit together";
  let description = [{
    Before: `plan.program @stage0`, `@stage1`, ... of all stages, each of which
    its `ranks` run: groups of collectives are of these, numbered within the
    stage, and peers of messages are stages, where the rank of the same place is
    meant. After: that of `stage` alone, as `@step`. Proves first, for all ranks,
    that each message meets its other end, of the same name and type, and each
    collective all of its group, also where nothing is ever under way: who
    comes first waits. What would wait for ever is an error that names the
    exchange at which each stage stands.
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let options = [
    Option<"stage", "stage", "int64_t", "0", "whose program is kept">];
}

def FormPlan : Pass<"scalify-form-plan", "::mlir::ModuleOp"> {
  let summary = "cluster ops into kernels and form the plan";
  let description = [{
    Before: `@main` of StableHLO ops and `plan.matmul`. After: a `plan.program
    @step` whose kernels, GEMMs, copies and fills do the same in program order.
    Another function, `@rescale`, becomes a program of its own name.
    A kernel holds ops over one space of rows and columns: elementwise ops,
    sums of rows and what is computed from them. Cheap ops are computed again
    in each kernel that uses them rather than stored; a result that takes its
    argument's memory is written there where no read follows. What a forward
    keeps for its backward is kept as narrow as it is rounded.
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect",
                           "::mlir::memref::MemRefDialect"];
  let options = [
    Option<"maxBuffers", "max-buffers", "unsigned", "48",
           "buffers of a kernel at most: each is a register or a spill">,
    Option<"maxOps", "max-ops", "unsigned", "256",
           "ops of a kernel at most: compile time grows faster than linearly">,
    Option<"phaseDistance", "phase-distance", "int64_t", "8",
           "ops between the forward and the backward from which on no kernel "
           "of the forward makes more for the backward than is kept anyway">];
  let statistics = [
    Statistic<"numKernels", "kernels", "kernels formed">,
    Statistic<"numMerged", "merged", "kernels merged into another one">];
}

def BindSlices : Pass<"scalify-bind-slices", "::mlir::ModuleOp"> {
  let summary = "bind slices of stacks to kernels in place";
  let description = [{
    Before: kernels whose bodies slice what they read. After: where all that a
    kernel reads of a temporary, an argument or a result are slices that are one
    run of memory each, from a multiple of 64 bytes on or of one element, it
    reads buffers that are those parts. Kernels of layers that differ in nothing
    but their place in a stack, or among the scales of all state, are equal
    then, and share their code. A part counts as its temporary or argument in
    live ranges and in what may be written in place.

    ```mlir
    plan.kernel "abs" reads(%x : memref<3x64xf32>) writes(%y : memref<64xf32>) {
    ^bb0(%v: tensor<3x64xf32>):
      %s = stablehlo.slice %v [1:2, 0:64] : (tensor<3x64xf32>) -> tensor<1x64xf32>
      ...
    // becomes
    %1 = plan.argument 0 {plan.offset = 256 : i64} : memref<1x64xf32>
    plan.kernel "abs" reads(%1 : memref<1x64xf32>) writes(%y : memref<64xf32>) {
    ^bb0(%s: tensor<1x64xf32>):
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let statistics = [
    Statistic<"numSlices", "slices", "slices that are buffers now">];
}

def AssignStreams : Pass<"scalify-assign-streams", "::mlir::ModuleOp"> {
  let summary = "assign independent chains of commands to streams";
  let description = [{
    Before: a program whose commands run one after another, its temporaries
    without offsets. After: commands that others need late, as the gradients of
    weights, run on streams of their own (`plan.stream`) beside those that a
    cost model of an H100 says do not fill it; `plan.record` and `plan.wait`
    order what depends on each other, and the verifier proves that they do. The
    order of the commands in the program stays, so a machine without streams runs
    it as it is.

    A product is tiles of 128 x 128 for 132 multiprocessors, and leaves idle what its
    last wave does; what is bound by memory fills the GPU; nothing takes less
    than 2 us. A chain moves if two events cost less than it saves. It starts behind
    what is before it in the program, and where it should be done the first stream
    waits for it, so that memory is not held for longer.

    ```mlir
    plan.kernel "dy" ...
    plan.gemm "dw" %x, %dy, %dw ...
    plan.gemm "dx" %dy, %w, %dx ...
    plan.kernel "update" reads(%dw, ...
    // becomes
    plan.kernel "dy" ...
    plan.record 0 on 0
    plan.wait 0 on 1
    plan.gemm "dw" %x, %dy, %dw ... {plan.stream = 1 : i64}
    plan.record 1 on 1
    plan.gemm "dx" %dy, %w, %dx ...
    plan.wait 1 on 0
    plan.kernel "update" reads(%dw, ...
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let options = [
    Option<"streams", "streams", "int64_t", "2",
           "streams of a program at most, the first one included">];
  let statistics = [
    Statistic<"numMoved", "moved", "commands beside the first stream">,
    Statistic<"numEvents", "events", "events recorded">,
    Statistic<"numSaved", "saved-ns", "nanoseconds that the model saves">];
}

def AssignBuffers : Pass<"scalify-assign-buffers", "::mlir::ModuleOp"> {
  let summary = "assign temporaries to one arena and reuse memory in place";
  let description = [{
    Before: a program whose temporaries have no offsets. After: every `plan.temp`
    has an offset, a multiple of 64 bytes, the program has `arena_bytes`, and kernels say which outputs lie in the memory of an input
    that dies there; a collective's result takes the place of its source so, where
    both are as large. The program's verifier proves that nothing overlaps. Memory is
    used again when every stream is behind what touched it. Buffers are placed by
    best fit in three orders: as the program writes them, largest first, and
    longest in memory first; the smallest arena is taken, of equal ones the first.
    With more than 16,384 buffers only the first order is tried.
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let statistics = [
    Statistic<"arenaBytes", "arena-bytes", "size of the arena">,
    Statistic<"numInPlace", "in-place", "outputs in the memory of an input">];
}

def KeepAmaxes : Pass<"scalify-keep-amaxes", "::mlir::ModuleOp"> {
  let summary = "carry parameter amaxes across steps";
  let description = [{
    Does nothing unless the recipe's scales are `current`. Before: a step
    without loops. After: where it took the largest magnitude of
    a donated argument, perhaps rounded, or of its slices along the first
    dimension, main has that as an entry of one more argument, last,
    `tensor<N x f32>` named `scalify.argument_amax`. It returns the amaxes of the
    results that take the arguments' memory, which the kernels that make these
    have in registers. Beside main stands `@measure`, which takes the arguments
    and returns their amaxes: whoever runs main calls it first, and again
    whenever one of them is not the last step's result. A maximum has the same
    bits in any order, so the step's are those without the pass.

    An argument whose new value is gathered from other ranks or put together of
    pieces is read as before, with a remark.

    ```mlir
    func.func @main(%w: tensor<4x8xf32> {scalify.name = "w", tf.aliasing_output = 0 : i32})
        -> tensor<4x8xf32> {
      %0 = stablehlo.abs %w : tensor<4x8xf32>
      %amax = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [0, 1]
    // becomes
    func.func @main(%w: tensor<4x8xf32> {scalify.name = "w", tf.aliasing_output = 0 : i32},
                    %a: tensor<1xf32> {scalify.name = "scalify.argument_amax", tf.aliasing_output = 1 : i32})
        -> (tensor<4x8xf32>, tensor<1xf32>) {
      %amax = stablehlo.reshape %a : (tensor<1xf32>) -> tensor<f32>
    ```
  }];
  let statistics = [
    Statistic<"numKept", "kept", "arguments whose amaxes are kept">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

#endif // SCALIFY_FUSION_PASSES
