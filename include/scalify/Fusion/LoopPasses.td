//===- LoopPasses.td - Passes on loops ---------------------*- tablegen -*-===//

#ifndef SCALIFY_FUSION_LOOPPASSES
#define SCALIFY_FUSION_LOOPPASSES

include "mlir/Pass/PassBase.td"

def OutlineLoops : Pass<"scalify-outline-loops", "::mlir::ModuleOp"> {
  let summary = "outline the bodies of loops that a plan runs as loops";
  let description = [{
    Before: StableHLO with loops. After: a loop of unknown trip count,
    and one that would unroll to more than `max-ops` ops, is a `plan.iterate`
    of a function that computes the next carries. Carries that the body returns
    unchanged, and values from outside that it reads, are reads; but those that
    follow from constants alone by cheap ops, as a causal mask, the function
    computes. A loop of unknown trip count has one more carry, its condition. On
    a GPU it waits for the host, which a remark says.

    A loop stays, to be unrolled, if its body has host calls with side effects,
    whose order a plan has only within one program. With collectives it stays on
    a CPU, if its trip count is unknown, and up to 16 times `max-ops` ops.

    ```mlir
    %r = stablehlo.while(%x = %a) : tensor<f32>
      cond { %p = stablehlo.compare LT, %x, %n : ... } do {
        %y = stablehlo.add %x, %x : tensor<f32>
        stablehlo.return %y : tensor<f32>
      }
    // becomes
    %p0 = stablehlo.compare LT, %a, %n : ...
    %r:2 = plan.iterate @loop0 carries(%a, %p0) reads(%n) while 1 : ...
    func.func private @loop0(%x: tensor<f32>, %p: tensor<i1>, %n: tensor<f32>)
        -> (tensor<f32>, tensor<i1>) {
      %y = stablehlo.add %x, %x : tensor<f32>
      %q = stablehlo.compare LT, %y, %n : ...
      return %y, %q : tensor<f32>, tensor<i1>
    }
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect",
                           "::scalify::stablehlo::StableHLODialect"];
  let options = [
    Option<"maxOps", "max-ops", "int64_t", "0",
           "the most ops of all iterations of a loop that is not outlined">];
  let statistics = [
    Statistic<"numOutlined", "outlined", "loops that a plan runs as loops">];
}

def UnrollLoops : Pass<"scalify-unroll-loops", "::mlir::func::FuncOp"> {
  let summary = "unroll loops of known trip count";
  let description = [{
    Before: StableHLO with loops and branches. After: no `stablehlo.while`; each
    iteration is a copy of the body in which the counter is a constant, ops on
    it are folded, and branches on it are inlined. All regions of a
    data-dependent branch are computed, and a select takes the results of one;
    casts in the other regions still count in the step's health; a
    `plan.iterate` with a condition there runs no iteration. A slice of a stack
    reads the value that an iteration wrote there, and a stack that is read as a
    whole is one concatenation, marked `plan.stack` if its pieces can
    be computed in place. A loop of unknown trip count is an error.

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
           "limit on the ops of all iterations: a larger plan takes minutes to "
           "form">,
    Option<"maxLoopOps", "max-loop-ops", "int64_t", "-1",
           "keep loops of unknown trip count, loops of more ops in all "
           "iterations, and data-dependent branches; -1: keep none">];
  let statistics = [
    Statistic<"numLoops", "loops", "loops replaced">,
    Statistic<"numIterations", "iterations", "iterations unrolled">,
    Statistic<"numStacks", "stacks", "stacks made concatenations">,
    Statistic<"numSelects", "selects", "data-dependent branches">];
}

def BindLoopSlices : Pass<"scalify-bind-loop-slices", "::mlir::ModuleOp"> {
  let summary = "bind slices of stacks as arguments of the bodies of loops";
  let description = [{
    Before: `plan.iterate` of functions that slice what they read, and update
    slices of their carries, at indices that follow from the iteration. After:
    the functions take and return such slices, and the loops name their places,
    if a slice is contiguous and starts at a multiple of 64 bytes, or is one
    element. Carries that no used result follows from, as often the counter,
    and values that are not read any more, are gone. A stack of which the
    iterations write all begins as `plan.undefined`.

    ```mlir
    %r:2 = plan.iterate @loop0 carries(%i, %stack) reads(%x) trips 64 : ...
    func.func private @loop0(%i: tensor<i32>, %s: tensor<64x16xf32>, %x: tensor<64x16xf32>) ... {
      %y = stablehlo.dynamic_slice %x, %i, %c0, sizes = [1, 16] : ...
      %z = stablehlo.tanh %y : tensor<1x16xf32>
      %t = stablehlo.dynamic_update_slice %s, %z, %i, %c0 : ...
    // becomes
    %any = plan.undefined : tensor<64x16xf32>
    %r = plan.iterate @loop0 carries(%any) reads(%x) trips 64
        slices [0, 0, 64, 4032, 1, 0, 64, 4032] : ...
    func.func private @loop0(%s: tensor<1x16xf32>, %y: tensor<1x16xf32>) ... {
      %z = stablehlo.tanh %y : tensor<1x16xf32>
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect"];
  let statistics = [
    Statistic<"numReads", "reads", "slices that are read">,
    Statistic<"numWrites", "writes", "slices that are written">,
    Statistic<"numDead", "dead", "carries erased">];
}

#endif // SCALIFY_FUSION_LOOPPASSES
