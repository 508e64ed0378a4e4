//===- CollectivePasses.td - Passes on collectives ---------*- tablegen -*-===//
//
// The fusion stage's passes on collectives: they form them, schedule them
// beside compute, and prove that all ranks issue them in the same order.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_FUSION_COLLECTIVEPASSES
#define SCALIFY_FUSION_COLLECTIVEPASSES

include "mlir/Pass/PassBase.td"

def FormCollectives : Pass<"scalify-form-collectives", "::mlir::func::FuncOp"> {
  let summary = "form plan.communicate on dense memory";
  let description = [{
    Before: StableHLO collectives along any dimension. After: one
    `plan.communicate` for each operand, whose parts lie one after the other in
    memory; transposes around it bring other layouts into this order. A
    reduction is a sum, a product, a maximum, a minimum, an and or an or; any
    other reduction, and groups of unequal size, are errors.

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
  let summary = "split ops on stacks into slices and hoist collectives";
  let description = [{
    For plans with collectives. Before: StableHLO without loops. After: an op on
    a stack whose users all read single slices, such as the sum of the
    micro-batches' gradients, is computed slice by slice; so is a maximum or a
    sum of integers over such a stack, such as the statistics of its cast. A
    collective, with the casts, moves and packing of its source, directly
    follows the last producer of its source instead of the whole stack. No bit
    changes.

    ```mlir
    %s = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
    %t = stablehlo.add %acc, %s : tensor<2x8xf32>
    %0 = stablehlo.slice %t [1:2, 0:8] : (tensor<2x8xf32>) -> tensor<1x8xf32>
    // becomes, after %b
    %p = stablehlo.slice %acc [1:2, 0:8] : (tensor<2x8xf32>) -> tensor<1x8xf32>
    %0 = stablehlo.add %p, %b : tensor<1x8xf32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numSplit", "split", "ops on stacks split into ops on slices">,
    Statistic<"numMoved", "moved", "collectives hoisted to their producers">];
}

def GatherAgain : Pass<"scalify-gather-again", "::mlir::ModuleOp"> {
  let summary = "rematerialise all-gathers under a memory limit";
  let description = [{
    Before: StableHLO without loops, with `plan.communicate`. After:
    all-gathers, such as those of weights under ZeRO-3, add at most `most-bytes`
    to memory at one time, as far as possible: at the peak, the pass evicts the
    gather whose next use is furthest, and gathers, moves and casts it again
    before that use. No bit changes; a repeated cast counts once.
    `plan.gathered_bytes` records the peak before the pass.

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
           "bytes that all-gathers may add to memory at one time; -1 for no "
           "limit">];
  let statistics = [
    Statistic<"numGathered", "gathered", "all-gathers rematerialised">];
}

def OverlapCollectives : Pass<"scalify-overlap-collectives",
                              "::mlir::ModuleOp"> {
  let summary = "overlap collectives with compute";
  let description = [{
    Before: a program whose temporaries have no offsets. After: a collective
    directly follows the producer of its source, or the last earlier user of its
    destination, on a stream of its own (`plan.stream`), and users of its result
    wait for it only where they need it. Commands that compute keep their order,
    except those that only finish results of collectives, such as the last stage
    of a sum: each precedes its first user. The verifier proves that collectives
    execute in the order of issue. A collective that overlaps no compute stays
    in place on the first stream.

    With `sums` (GPUs), a kernel that sums the ranks' parts (`scalify.in_order`)
    runs on that stream too, after the collective that delivers them: compute
    does not wait for it, and the parts die early.

    Messages and collectives of a pipeline stage keep their places, all on that
    stream.

    Of the collectives that depend on nothing, such as all-gathers of
    parameters, the first is issued when the step starts, and each other one
    before the first user of its predecessor: two are in memory. Rematerialised
    all-gathers (`scalify-gather-again`) are issued the same way.
    `most-in-flight` limits the number of collectives in flight, each of which
    keeps its source live: compute waits for the excess, and collectives do not
    run ahead of compute.

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
                        "also put sums of the ranks' parts on the stream">,
                 Option<"mostInFlight", "most-in-flight", "int64_t", "0",
                        "collectives in flight at one time; 0 for no limit">];
  let statistics = [
    Statistic<"numOverlapped", "overlapped",
              "collectives that overlap compute">,
    Statistic<"numEvents", "events", "events recorded">];
}

def ProveExchanges : Pass<"scalify-prove-exchanges", "::mlir::ModuleOp"> {
  let summary = "prove that all ranks issue the same collectives in one order";
  let description = [{
    Before and after: a program whose collectives are in order of issue; the
    verifier proves that each stream reaches them in that order. The pass
    simulates all ranks: each goes through its list and waits at each collective
    until all members of its group arrive. If all ranks reach the end, the
    members of each communicator issue the same collectives in the same order.
    Otherwise, as where no group contains a rank or ranks wait for each other,
    the error names the collective and where the other ranks stand.
    `scalify-take-stage` proves the same for the stages of a pipeline, which run
    different programs.

    ```mlir
    plan.collective all_reduce sum %0 to %0 groups dense<[[0, 1], [2, 3]]> ...
    plan.collective all_reduce sum %1 to %1 groups dense<[[0, 1]]> ...
    // error: 'plan.collective' op leaves out rank 2 of the 4 that there are
    ```
  }];
  let statistics = [Statistic<"numProved", "proved", "collectives">];
}

#endif // SCALIFY_FUSION_COLLECTIVEPASSES
