// RUN: scalify-opt %s --scalify-form-collectives --scalify-place-stages="stages=2" --scalify-form-plan --scalify-split-stages --scalify-take-stage="stage=0" --scalify-overlap-collectives | FileCheck %s --check-prefixes=CHECK,FIRST
// RUN: scalify-opt %s --scalify-form-collectives --scalify-place-stages="stages=2" --scalify-form-plan --scalify-split-stages --scalify-take-stage="stage=1" --scalify-overlap-collectives | FileCheck %s --check-prefixes=CHECK,LAST

// Two stages of two ranks each, one micro-batch: a rank's own program, with the
// sums over its stage's ranks in the tasks that make what they sum. What ranks
// of a stage and what stages exchange is in one order, on one stream: a gradient
// that another stage waits for before a sum that nobody does.

// CHECK: module attributes {plan.pipeline = {{.*}}ranks = 2 : i64

// FIRST: plan.message "F0.0 {{.*}} to 1 {plan.stream = 1
// FIRST: plan.message "B1.0 {{.*}} from 1 {plan.stream = 1
// FIRST: plan.collective all_reduce sum {{.*}} groups dense<{{\[\[}}0, 1]]> {{.*}}plan.stream = 1 : i64, plan.task = "B0.0"
// FIRST-NOT: plan.collective

// LAST: plan.message "F0.0 {{.*}} from 0 {plan.stream = 1
// LAST: plan.message "B1.0 {{.*}} to 0 {plan.stream = 1
// LAST: plan.collective all_reduce sum {{.*}} groups dense<{{\[\[}}0, 1]]> {{.*}}plan.stream = 1 : i64, plan.task = "B1.0"
// LAST-NOT: plan.collective
module {
  sdy.mesh @mesh = <["data"=2]>
  func.func @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %v: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %a = stablehlo.add %w, %x : tensor<4xf32>
    %b = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %a : tensor<4xf32>
    %c = stablehlo.add %b, %v : tensor<4xf32>
    %d = stablehlo.tanh %c {scalify.phase = #scalify.phase<backward>} : tensor<4xf32>
    %e = stablehlo.optimization_barrier {scalify.stage_border = "backward"} %d : tensor<4xf32>
    %f = stablehlo.negate %e : tensor<4xf32>
    %g = "stablehlo.all_reduce"(%f) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {scalify.phase = #scalify.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    %h = "stablehlo.all_reduce"(%d) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {scalify.phase = #scalify.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    %i = stablehlo.add %w, %g {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
    %j = stablehlo.add %v, %h {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
    return %i, %j : tensor<4xf32>, tensor<4xf32>
  }
}
