//===- Passes.td - From tensors to a plan ------------------*- tablegen -*-===//

#ifndef SCALIFY_FUSION_PASSES
#define SCALIFY_FUSION_PASSES

include "mlir/Pass/PassBase.td"
include "scalify/Fusion/CollectivePasses.td"
include "scalify/Fusion/ExpandPasses.td"
include "scalify/Fusion/LoopPasses.td"

def FormHostCalls : Pass<"scalify-form-host-calls", "::mlir::func::FuncOp"> {
  let summary = "form host calls for callbacks and ops without a CPU lowering";
  let description = [{
    Before: custom calls of JAX's callbacks, and with `fallback=xla` ops without
    a CPU lowering: calls of libraries other than LAPACK, FFTs whose length has
    a large prime factor, loops of unknown trip count that call back with side
    effects. After: a `plan.invoke` for each callback and each such op. Ops that
    exchange values which no buffer can hold (complex ones) become one
    `plan.invoke`, with all ops on paths between them. Its `program` is a module
    whose `@main` holds the outlined ops; a remark names them. The pass descends
    into branches and loops. Without `callbacks` a callback is an error, since
    the plan's caller has no function for it.

    ```mlir
    %1 = stablehlo.custom_call @library(%0) : (tensor<4xf32>) -> tensor<4xf32>
    // becomes
    %1 = plan.invoke "custom_call" %0 program "module { func.func @main... }"
        : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let options = [
    Option<"callbacks", "callbacks", "bool", "false",
           "the plan's caller has the functions of the callbacks">,
    Option<"fallback", "fallback", "std::string", "\"\"",
           "xla: XLA runs the ops without a CPU lowering">];
  let statistics = [
    Statistic<"numCallbacks", "callbacks", "callbacks formed">,
    Statistic<"numFallbacks", "fallbacks", "programs outlined for XLA">];
}

def FormLapack : Pass<"scalify-form-lapack", "::mlir::func::FuncOp"> {
  let summary = "form plan.factorize from calls of LAPACK";
  let description = [{
    For a CPU. Before: `stablehlo.cholesky`, `stablehlo.triangular_solve`, and
    custom calls of LAPACK's routines as JAX emits them, on real or complex
    matrices in column-major order. After: a `plan.factorize` for each routine
    of `runtime/blas/LapackShape.h`; a complex operand or result is its two
    parts, and a solver of 16 bits is computed in F32. A Cholesky factor has
    zeros in the other triangle, and is NaN if the matrix is not positive
    definite. Other calls stay.

    ```mlir
    %1:2 = stablehlo.custom_call @lapack_spotrf_ffi(%0) {...}
        : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3xi32>)
    // becomes
    %1:2 = plan.factorize "potrf" %0 sizes [3, 4, 4, 0] letters "L"
        : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3xi32>)
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect",
                           "::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numFormed", "formed", "calls of LAPACK formed">];
}

def OrderHostCalls : Pass<"scalify-order-host-calls", "::mlir::func::FuncOp"> {
  let summary = "chain host calls with side effects in program order";
  let description = [{
    Before: one block in which only their positions order the `plan.invoke` ops
    with `effects`. After: each reads an i32 that its predecessor returns, so
    that no scheduling can change the order.

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
    For GPUs. Before: StableHLO without loops, in which Precision cast each
    value once. After: the forward saves the minimum cut in bytes, through
    elementwise ops and casts by one scale, for the backward. If the backward
    also reads the source of a cast, it casts that source again, by a
    `scalify.quantize` with `scalify.uncounted`. No bit changes. Casts of
    arguments stay, one per step, and so do values that another forward after
    the first backward reads, in steps of several micro-batches.

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
    Statistic<"numRecomputed", "recomputed", "ops rematerialised">];
}

def PreparePlan : Pass<"scalify-prepare-plan", "::mlir::func::FuncOp"> {
  let summary = "legalise ops for kernels and GEMMs";
  let description = [{
    Before: StableHLO without loops, branches, sorts, windows and convolutions.
    After: dots are f32, or of one 16-bit format that the target multiplies;
    integer and F64 dots are sums of products; a reduction is over trailing
    dimensions or over others, never both; a sum of a large tensor to few
    elements has two stages of fixed size, so that its bits do not depend on the
    number of threads; barriers are gone; dequantized values are rematerialised
    near their uses, so that only the FP8 tensor lives from forward to backward;
    equal constant scales are one value, and a scale that is an entry of
    `scalify.scales` is its initial value as a constant, marked
    `plan.scale_entry`, so that both kinds give the same plan. Ops that the plan
    cannot hold (complex arguments and results, `rng`, floating-point types that
    kernels do not compute, reductions of FP8 data) are errors.
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let options = [
    Option<"phaseDistance", "phase-distance", "int64_t", "8",
           "distance in ops from which on a use in another phase of the step "
           "gets a dequantized value of its own">];
  let statistics = [
    Statistic<"numSplitReduces", "split-reduces", "reductions split in stages">,
    Statistic<"numWidenedDots", "widened-dots", "dots widened to f32">,
    Statistic<"numRemade", "remade", "dequantized values rematerialised">];
}

def NarrowDots : Pass<"scalify-narrow-dots", "::mlir::func::FuncOp"> {
  let summary = "feed narrow data to dots directly";
  let description = [{
    Before: dots on wide operands, each a `scalify.dequantize` or a convert of
    narrow data. After: dots on the narrow data, with their results multiplied
    by the scales; ops that only fed dots are gone.

    Where the target multiplies BF16 but no FP8, as a CPU does, FP8 data are
    converted to BF16 next to their producer, and again next to uses that are
    far away or in another phase. Data of many scales are multiplied by them
    first. Dots of other formats stay wide.

    On a Hopper GPU both operands of an FP8 dot have the contracting dimension
    innermost, and strides that are multiples of 16 bytes. Where the data lie
    otherwise, a transposed copy is stored next to their producer, one for all
    dots that need it. A contracting dimension of no multiple of 16 elements is
    padded with zeros in a tensor that a kernel stores anyway; its other users
    read the padded rows.
    A dot that the library does not have in FP8 (two E5M2 operands, K = 24 with
    an argument as operand, result rows that are no multiple of 16 bytes)
    becomes a BF16 dot, which is exact, with a remark.

    An operand with many scales, a `scalify.dequantize` with `block`, keeps the
    dequantize, on a matrix whose data and scales have the library's layouts,
    marked by `plan.scaling`: `rows`, `vectors` of 128 or `blocks` of 128 x 128
    (`plan.gemm`). A scale that covers more elements is repeated for each part.
    Other blocks, and batches, become BF16 dots: block scales are powers of two,
    so these are exact too.

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
    Statistic<"numRemade", "remade", "converted data rematerialised">,
    Statistic<"numTransposed", "transposed", "FP8 tensors stored transposed">,
    Statistic<"numFilled", "filled", "FP8 tensors with padded rows">];
}

def FormAttention : Pass<"scalify-form-attention", "::mlir::func::FuncOp"> {
  let summary = "fuse dots around a softmax into library attention calls";
  let description = [{
    For GPUs, after `scalify-narrow-dots`. Before: a softmax of a dot that is
    scaled by constants and perhaps masked causally, dots of values with its
    weights, and dots on its gradient, all on BF16 or F16 operands. After:
    `plan.attend` for the forward and for the gradient; weights and scores are
    gone. `scalify.nn.attention` and its gradient decompose to this form. Scales
    of the operands' data are folded into the attention's scale; scales of its
    results are multiplied after it, where they are powers of two. Ops that
    `scalify-quantize` rematerialises in the backward are matched as if computed
    once.

    The library rounds its results to 16 bits. At the level `exact` the program
    must do so too. At `recipe` it need not where the recipe's own casts made
    the operands BF16: the recipe then runs the attention in BF16, and its
    results are rounded when stored.

    If anything else reads its weights, or the hardware's library has no such
    attention, the ops stay as they are, and a remark gives the reason.

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
    Before: `stablehlo.dot_general` on operands that the target multiplies, F32
    or the narrow data of `scalify-narrow-dots`. After: `plan.matmul`, whose
    strides absorb the transposes, reshapes and slices around the dot, and whose
    alpha absorbs multiplies of the result by constants. The GEMM reads the
    scales of FP8 operands from memory if they are not constant, or many. An
    operand in a layout that no GEMM reads is copied, with a remark. On a GPU,
    F32 dots that request TF32 use it.

    ```mlir
    %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %d = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : ...
    // becomes
    %d = plan.matmul %x, %w m 2 n 8 k 4 strides [4, 1] x [1, 4] to [8, 1] ...
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let statistics = [
    Statistic<"numGemms", "gemms", "GEMMs formed">,
    Statistic<"numCopies", "copies", "operands copied for their layout">,
    Statistic<"numAlphas", "alphas", "multiplies folded into a GEMM">];
}

def FormEpilogues : Pass<"scalify-form-epilogues", "::mlir::func::FuncOp"> {
  let summary = "fuse bias, activation and cast epilogues into GEMMs";
  let description = [{
    For GPUs, after `scalify-form-gemms`. Before: `plan.matmul` without an
    epilogue, and ops on its result. After: the addition of a vector to each
    row, a ReLU, or both, and then perhaps a rounding to 16 bits, are the GEMM's
    epilogue instead of a kernel's if their result is in memory anyway, as an
    operand of another call or a result. The backward compares the stored result
    with 0 where it compared the product.

    No rounding changes: sums stay F32 until they are stored. A product that the
    program rounds before it adds a bias, a bias of a type that the library does
    not add to such a result, a bias along the columns, and operands with many
    scales keep their kernel, with a remark that gives the reason. If only
    kernels read the result, each adds the bias itself at no cost, without a
    remark.

    At the level `all` the library also rounds once where the program rounds the
    product before it adds the bias, and computes GELU in its tanh form, with
    its own tanh. Other users of the sum read the copy that the library stores.
    The product of a gradient takes the gradient of a GELU as epilogue if the
    GELU's input is in memory, and that of a ReLU if the ReLU is a GEMM's
    epilogue, which stores one bit per element for it.

    An FP8 product whose only users are a cast to FP8, by a scale known before
    the product, and perhaps an amax, is stored as FP8, and transposed if its
    one user reads it so. At the level `exact` the cast must be the program's
    own and clamp to the format; at `all` it may also be one that is counted,
    which the library's is not, one that gives NaN where the library saturates,
    or one after a bias, a ReLU or a GELU.

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
           "exact: epilogues that round as the program does; all: all that "
           "the library has">];
  let statistics = [
    Statistic<"numEpilogues", "epilogues", "GEMMs that have an epilogue">];
}

def PlaceStages : Pass<"scalify-place-stages", "::mlir::ModuleOp"> {
  let summary = "place ops on the stages of a pipeline";
  let description = [{
    Before: `@main` of a step without loops, with borders between the chunks of
    the model (`stablehlo.optimization_barrier` with `scalify.stage_border`,
    "forward", and "backward" in the gradient), once for each micro-batch.
    After: no borders. With `stages`, ops have a task (`plan.task`): "F2.1", the
    forward of chunk 2 for micro-batch 1, "B2.1", its backward, or "U0", the
    work of stage 0 after all backwards; chunk c is on stage c mod `stages`. The
    module's `plan.pipeline` also has the number of `ranks` per stage, those of
    the program's mesh. Ops that read no state have no task: every stage that
    uses their results computes them. State arguments name the stage that keeps
    them (`plan.owner`), except the scales of narrow state, which all stages
    have.

    Ops that read only state, such as casts of weights, belong to the first task
    that uses them. The optimizer runs on the stage of its gradients. A value
    that another stage reads without a border is sent there, with a remark.

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
           "stages of the pipeline; 0 only erases borders">,
    Option<"virtualChunks", "virtual", "int64_t", "1",
           "chunks of the model on each stage">];
}

def SplitStages : Pass<"scalify-split-stages", "::mlir::ModuleOp"> {
  let summary = "split the plan into one program for each pipeline stage";
  let description = [{
    Before: `plan.program @step` whose commands have tasks, temporaries without
    offsets. After: programs `@stage0`, `@stage1`, ..., each with the arguments,
    results and commands of one stage. A stage runs its tasks in the order of
    the schedule, 1F1B or interleaved; `plan.message` ops, in one order for all
    stages, bring it values of other stages. Results stay on the stage that
    computes them; those of one element, and those that replace an argument that
    all stages have, go to all.

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
    Before: `plan.program @stage0`, `@stage1`, ... of all stages, each run by
    `ranks` ranks. Replica groups number the ranks within the stage; the peer of
    a message is a stage, and means the rank with the same number there. After:
    only the program of `stage`, as `@step`. The pass first proves, for all
    ranks, that each message meets its counterpart, of the same name and type,
    and each collective all of its group, even if nothing is buffered: the first
    to arrive waits. A deadlock is an error that names the exchange at which
    each stage stands.
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let options = [
    Option<"stage", "stage", "int64_t", "0", "stage whose program is kept">];
}

def FormPlan : Pass<"scalify-form-plan", "::mlir::ModuleOp"> {
  let summary = "cluster ops into kernels and form the plan";
  let description = [{
    Before: `@main` of StableHLO ops and `plan.matmul`. After: a `plan.program
    @step` whose kernels, GEMMs, copies and fills compute the same in program
    order. Another function, such as `@rescale`, becomes a program of the same
    name. A kernel holds ops over one space of rows and columns: elementwise
    ops, row reductions and ops on their results. Cheap ops are recomputed in
    each kernel that uses them rather than stored; a result that aliases a
    donated argument is written in place if no read follows. The forward saves
    values for the backward in the narrow type that they are rounded to.
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect",
                           "::mlir::memref::MemRefDialect"];
  let options = [
    Option<"maxBuffers", "max-buffers", "unsigned", "48",
           "limit on the buffers of a kernel: each is a register or a spill">,
    Option<"maxOps", "max-ops", "unsigned", "256",
           "limit on the ops of a kernel: compile time grows faster than "
           "linearly">,
    Option<"phaseDistance", "phase-distance", "int64_t", "8",
           "distance in ops from which on a kernel of the forward stores for "
           "the backward only what is saved anyway">];
  let statistics = [
    Statistic<"numKernels", "kernels", "kernels formed">,
    Statistic<"numMerged", "merged", "kernels merged into another one">];
}

def BindSlices : Pass<"scalify-bind-slices", "::mlir::ModuleOp"> {
  let summary = "bind slices of stacks as buffers of kernels";
  let description = [{
    Before: kernels whose bodies slice their inputs. After: if a kernel reads a
    temporary, an argument or a result only by slices, each contiguous and
    either at a multiple of 64 bytes or of one element, it reads buffers that
    are those parts. Kernels of layers that differ only in their position in a
    stack, or among the scales of all state, are then equal and share code. A
    part counts as its temporary or argument in live ranges and in the checks of
    in-place writes.

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
    Statistic<"numSlices", "slices", "slices bound as buffers">];
}

def AssignStreams : Pass<"scalify-assign-streams", "::mlir::ModuleOp"> {
  let summary = "assign independent chains of commands to streams";
  let description = [{
    Before: a program whose commands run one after another, its temporaries
    without offsets. After: commands whose results are needed late, such as
    weight gradients, run on streams of their own (`plan.stream`), beside
    commands that leave the GPU partly idle by a cost model of the target.
    `plan.record` and `plan.wait` order dependent commands, which the verifier
    proves. The order of the commands in the program stays, so a machine without
    streams runs it as it is.

    In the model a GEMM is tiles of 128 x 128 on the target's multiprocessors,
    of which its last wave leaves some idle; a memory-bound command fills the
    GPU; no command takes less than a launch. A chain moves if two events cost
    less than it saves. It starts after its predecessors in the program, and the
    first stream waits for it where the model has it done, so that memory is not
    held for longer.

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
           "limit on the streams of a program, the first one included">];
  let statistics = [
    Statistic<"numMoved", "moved", "commands moved off the first stream">,
    Statistic<"numEvents", "events", "events recorded">,
    Statistic<"numSaved", "saved-ns", "nanoseconds that the model saves">];
}

def TileCommands : Pass<"scalify-tile-commands", "::mlir::ModuleOp"> {
  let summary = "run chains of batched products tile by tile";
  let description = [{
    Before: programs whose temporaries have no offsets, for a CPU. After: groups
    of neighbouring commands that start at a product with a batch have
    `plan.tiles`, their number of tiles and that of the group; temporaries that
    only they touch are memory of a thread that holds one tile (`plan.temp tile
    of`). Commands may be moved past others that touch none of their memory. The
    program's verifier proves that no tile touches what another one writes. No
    bit changes: each element is computed as before.

    A command joins if it reads what the group has computed, or multiplies the
    same batch, and its tile t needs the t-th part alone of all that the group
    computes. At least 8 tiles balance the threads, and the group must pass on
    1 MiB, which no core's cache holds otherwise.

    ```mlir
    %s = plan.temp tile of 64 : memref<64x256x256xf32>
    plan.gemm "dot" %q, %k, %s ... {plan.tiles = array<i64: 64, 0>}
    plan.kernel "exponential" reads(%s) writes(%p) attributes {plan.tiles = array<i64: 64, 0>}
    plan.gemm "dot" %p, %v, %o ... {plan.tiles = array<i64: 64, 0>}
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let statistics = [
    Statistic<"numGroups", "groups", "groups of commands">,
    Statistic<"numCommands", "commands", "commands in groups">];
}

def RecomputeTiles : Pass<"scalify-recompute-tiles", "::mlir::ModuleOp"> {
  let summary = "recompute tiles that a later group reads instead of saving them";
  let description = [{
    Before: groups of commands that run tile by tile
    (`--scalify-tile-commands`). After: where a group reads temporaries that an
    earlier group of as many tiles computes, and nothing else does, it computes
    them again, from the same operands, which no command between has written.
    Both copies are memory of one tile: scores and weights of an attention are
    not saved from the forward to the backward. No bit changes. Casts of the
    second copy are not counted.

    The commands that are repeated may take 32 instructions for each byte that
    is not saved: what a core executes in about the time in which it moves a
    byte to memory and back.

    ```mlir
    plan.gemm "dot" %q, %k, %s ... {plan.tiles = array<i64: 64, 0>}
    plan.kernel "exponential" reads(%s) writes(%p) ... // forward
    // ... backward
    plan.gemm "dot" %q, %k, %s2 ... {plan.tiles = array<i64: 64, 1>}
    plan.kernel "exponential" reads(%s2) writes(%p2) ...
    plan.gemm "dot" %p2, %do, %dv ... {plan.tiles = array<i64: 64, 1>}
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let statistics = [
    Statistic<"numCommands", "commands", "commands that are repeated">,
    Statistic<"numBytes", "bytes", "bytes that are not saved">];
}

def AssignBuffers : Pass<"scalify-assign-buffers", "::mlir::ModuleOp"> {
  let summary = "assign temporaries to one arena and reuse memory in place";
  let description = [{
    Before: a program whose temporaries have no offsets. After: every
    `plan.temp` has an offset, a multiple of 64 bytes, the program has
    `arena_bytes`, and kernels mark the outputs that take the memory of an input
    that dies there. A collective's result likewise takes the memory of its
    source if both have the same size. The program's verifier proves that no
    live buffers overlap. Memory is reused once every stream is past the
    commands that touched it. Buffers are placed by best fit in three orders: as
    the program writes them, largest first, and longest live range first; the
    smallest arena wins, of equal ones the first. With more than 16,384 buffers
    only the first order is tried.
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let statistics = [
    Statistic<"arenaBytes", "arena-bytes", "size of the arena">,
    Statistic<"numInPlace", "in-place", "outputs in the memory of an input">];
}

def KeepAmaxes : Pass<"scalify-keep-amaxes", "::mlir::ModuleOp"> {
  let summary = "carry parameter amaxes across steps";
  let description = [{
    Does nothing unless the recipe's scales are `current`. Before: a step whose
    loops are unrolled or `plan.iterate`. After: instead of computing the amax
    of a donated argument, perhaps rounded, or of its slices along the first
    dimension, main reads it from an additional last argument, `tensor<N x f32>`
    named `scalify.argument_amax`. Main returns the amaxes of the results that
    alias those arguments; the kernels that produce the results compute them
    from registers. The function `@measure` takes the arguments and returns
    their amaxes: the caller of main calls it first, and again whenever one of
    the arguments is not the last step's result. A maximum has the same bits in
    any order, so the pass changes no bit of the step.

    An argument whose new value is gathered from other ranks or concatenated
    from pieces is read as before, with a remark.

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
    Statistic<"numKept", "kept", "arguments whose amaxes are carried">
  ];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

#endif // SCALIFY_FUSION_PASSES
