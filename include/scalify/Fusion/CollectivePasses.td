//===- CollectivePasses.td - What ranks exchange -------------*- tablegen -*-===//
//
// Passes of the fusion stage on collectives: their form, their place beside what
// is computed, and the proof that ranks meet in them.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_FUSION_COLLECTIVEPASSES
#define SCALIFY_FUSION_COLLECTIVEPASSES

include "mlir/Pass/PassBase.td"

def FormCollectives : Pass<"scalify-form-collectives", "::mlir::func::FuncOp"> {
  let summary = "form plan.communicate on dense memory";
  let description = [{
    Before: StableHLO collectives along any dimension. After: `plan.communicate`,
    one for each operand, whose parts lie one behind the other; where that was
    not so, transposes stand around it. What joins elements is a sum, a product,
    a maximum, a minimum, an and, an or; anything else, and groups of unequal
    size, are errors.

    ```mlir
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 1 : i64, ...}>
        : (tensor<3x4xf32>) -> tensor<3x8xf32>
    // becomes
    %g = plan.communicate all_gather none %0 groups ... : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
    %t = stablehlo.transpose %g, dims = [1, 0, 2] : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
    %1 = stablehlo.reshape %t : (tensor<3x2x4xf32>) -> tensor<3x8xf32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect",
                           "::scalify::plan::PlanDialect"];
  let statistics = [
    Statistic<"numCollectives", "collectives", "collectives formed">];
}

def SplitStacks : Pass<"scalify-split-stacks", "::mlir::func::FuncOp"> {
  let summary = "split what collectives need of stacks into slices, computed early";
  let description = [{
    For plans with collectives. Before: StableHLO without loops. After: what is
    computed of a stack and read slice by slice alone, as the sum of what
    micro-batches add up, is computed slice by slice; so is a maximum or a sum of
    integers of such a stack, as the statistics of its cast. A collective, with
    what casts, moves and packs what it sends, stands behind the last op that
    makes that, not behind the whole stack. No bit changes.

    ```mlir
    %s = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
    %t = stablehlo.add %acc, %s : tensor<2x8xf32>
    %0 = stablehlo.slice %t [1:2, 0:8] : (tensor<2x8xf32>) -> tensor<1x8xf32>
    // becomes, behind %b
    %p = stablehlo.slice %acc [1:2, 0:8] : (tensor<2x8xf32>) -> tensor<1x8xf32>
    %0 = stablehlo.add %p, %b : tensor<1x8xf32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numSplit", "split", "ops on stacks that became ops on slices">,
    Statistic<"numMoved", "moved", "collectives behind what they need">];
}

def GatherAgain : Pass<"scalify-gather-again", "::mlir::ModuleOp"> {
  let summary = "rematerialise all-gathers under a memory limit";
  let description = [{
    Before: StableHLO without loops, with `plan.communicate`. After: gathers, as
    those of weights under ZeRO-3, add no more than `most-bytes` to memory at one
    time, as far as that can be had: where there is most of it, that which would
    wait longest for its next read is let go, and gathered, moved and cast again
    before it. No bit changes; a cast that is done again
    counts once. `plan.gathered_bytes` says how many there were at most before.

    ```mlir
    %w = plan.communicate all_gather none %share groups ...
    %y = stablehlo.dot_general %x, %w ...
    // the rest of the forward, and of the backward
    %dx = stablehlo.dot_general %dy, %w ...
    // becomes
    %w = plan.communicate all_gather none %share groups ...
    %y = stablehlo.dot_general %x, %w ...
    %v = plan.communicate all_gather none %share groups ... {plan.gathered_again = 1 : i64}
    %dx = stablehlo.dot_general %dy, %v ...
    ```
  }];
  let options = [
    Option<"mostBytes", "most-bytes", "int64_t", "-1",
           "that gathers add to memory at one time; -1 for any number">];
  let statistics = [
    Statistic<"numGathered", "gathered", "gathers that are done again">];
}

def OverlapCollectives : Pass<"scalify-overlap-collectives",
                              "::mlir::ModuleOp"> {
  let summary = "overlap collectives with compute";
  let description = [{
    Before: a program whose temporaries have no offsets. After: a collective
    stands behind the command that makes its source, or lets its destination be
    written, on a stream of its own (`plan.stream`), and what needs its result
    waits for it there and not before. Commands that compute stay in their order,
    but for what only finishes collectives' results, as the last stage of a sum:
    that stands before what reads it. Collectives follow each other in that in which they are issued, which the
    verifier proves. One beside which nothing is computed stays on the first
    stream, where the plan has it.

    With `sums` (GPUs) a kernel that sums what ranks gave (`scalify.in_order`)
    goes on that stream too, behind the collective that brought it: what is
    computed beside it does not wait, and the parts are not kept.

    Messages and collectives of a pipeline's stage stand where they stood, all on
    that stream.

    Of collectives that wait for nothing, as gathers of parameters, the first
    is issued when the step starts, and each other one before what needs the
    one before it: so two are in memory. So is what is gathered again
    (`scalify-gather-again`). With `most-in-flight` what is computed waits until
    no more collectives are on their way, which hold what they send, and these
    do not run ahead of it.

    ```mlir
    plan.gemm "dw1" %x, %dy, %g1 ...
    plan.gemm "dx" %dy, %w, %dx ...
    plan.collective all_reduce sum %g1 to %s1 ...
    plan.kernel "update" reads(%s1, ...
    // becomes
    plan.gemm "dw1" %x, %dy, %g1 ...
    plan.record 0 on 0
    plan.wait 0 on 1
    plan.collective all_reduce sum %g1 to %s1 ... {plan.stream = 1 : i64}
    plan.record 1 on 1
    plan.gemm "dx" %dy, %w, %dx ...
    plan.wait 1 on 0
    plan.kernel "update" reads(%s1, ...
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let options = [Option<"sums", "sums", "bool", "false",
                        "sums of what ranks gave are on the stream, too">,
                 Option<"mostInFlight", "most-in-flight", "int64_t", "0",
                        "collectives on their way at one time; 0 for any number">];
  let statistics = [
    Statistic<"numOverlapped", "overlapped",
              "collectives beside what is computed">,
    Statistic<"numEvents", "events", "events recorded">];
}

def ProveExchanges : Pass<"scalify-prove-exchanges", "::mlir::ModuleOp"> {
  let summary = "prove that all ranks issue the same collectives in one order";
  let description = [{
    Before and after: a program with its collectives in the order of issue, which the
    verifier holds to be that in which each stream gets to them. Every rank goes
    through its list, and waits at each collective until all of its group are
    there; all come to the end, and so, for each communicator, its members issue
    the same collectives in the same order. Else it is an error that names the
    collective, and where the other ranks stand: a rank that no group has, ranks
    that wait for each other. Of the stages of a pipeline, which run several
    programs, `scalify-take-stage` proves the same.

    ```mlir
    plan.collective all_reduce sum %0 to %0 groups dense<[[0, 1], [2, 3]]> ...
    plan.collective all_reduce sum %1 to %1 groups dense<[[0, 1]]> ...
    // error: 'plan.collective' op leaves out rank 2 of the 4 that there are
    ```
  }];
  let statistics = [Statistic<"numProved", "proved", "collectives">];
}

#endif // SCALIFY_FUSION_COLLECTIVEPASSES
