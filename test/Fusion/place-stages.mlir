// RUN: scalify-opt %s --split-input-file --scalify-place-stages="stages=2" | FileCheck %s
// RUN: scalify-opt %s --split-input-file --scalify-place-stages | FileCheck %s --check-prefix=PLAIN

// Two chunks, two micro-batches. The square of w is made where it is first
// read; the mask has no task; the update is where its gradients are.
// CHECK: plan.pipeline = {microbatches = 2 : i64, ranks = 1 : i64, stages = 2 : i64, virtual = 1 : i64}
// CHECK: %arg0: tensor<4xf32> {plan.owner = 0 : i64
// CHECK-SAME: %arg1: tensor<4xf32> {plan.owner = 1 : i64
// CHECK-NOT: optimization_barrier
// CHECK: stablehlo.multiply %arg0, %arg0 {plan.task = "F0.0"}
// CHECK: stablehlo.multiply %arg1, %arg1 {plan.task = "F1.0"}
// CHECK: stablehlo.constant
// CHECK: stablehlo.add {{.*}}, %arg2 {plan.task = "F0.0"}
// CHECK: stablehlo.add {{.*}} {plan.task = "F1.0"}
// CHECK: stablehlo.tanh {{.*}} {plan.task = "B1.0", scalify.phase = #scalify.phase<backward>}
// CHECK: stablehlo.negate {{.*}} {plan.task = "B0.0"}
// CHECK: stablehlo.add {{.*}}, %arg3 {plan.task = "F0.1"}
// CHECK: stablehlo.add {{.*}} {plan.task = "F1.1"}
// CHECK: stablehlo.tanh {{.*}} {plan.task = "B1.1", scalify.phase = #scalify.phase<backward>}
// CHECK: stablehlo.negate {{.*}} {plan.task = "B0.1"}
// CHECK: stablehlo.add {{.*}} {plan.task = "U0", scalify.phase = #scalify.phase<optimizer>}
// CHECK: stablehlo.add {{.*}} {plan.task = "U1", scalify.phase = #scalify.phase<optimizer>}

// PLAIN-NOT: optimization_barrier
// PLAIN-NOT: plan.task
// PLAIN-NOT: plan.owner

func.func @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %v: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %x0: tensor<4xf32>, %x1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %w2 = stablehlo.multiply %w, %w : tensor<4xf32>
  %v2 = stablehlo.multiply %v, %v : tensor<4xf32>
  %mask = stablehlo.constant dense<2.0> : tensor<4xf32>
  %a0 = stablehlo.add %w2, %x0 : tensor<4xf32>
  %b0 = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %a0 : tensor<4xf32>
  %c0 = stablehlo.add %b0, %v2 : tensor<4xf32>
  %d0 = stablehlo.tanh %c0 {scalify.phase = #scalify.phase<backward>} : tensor<4xf32>
  %e0 = stablehlo.optimization_barrier {scalify.stage_border = "backward"} %d0 : tensor<4xf32>
  %f0 = stablehlo.negate %e0 : tensor<4xf32>
  %a1 = stablehlo.add %w2, %x1 : tensor<4xf32>
  %b1 = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %a1 : tensor<4xf32>
  %c1 = stablehlo.add %b1, %v2 : tensor<4xf32>
  %d1 = stablehlo.tanh %c1 {scalify.phase = #scalify.phase<backward>} : tensor<4xf32>
  %e1 = stablehlo.optimization_barrier {scalify.stage_border = "backward"} %d1 : tensor<4xf32>
  %f1 = stablehlo.negate %e1 : tensor<4xf32>
  %g = stablehlo.add %f0, %f1 {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
  %h = stablehlo.add %d0, %d1 {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
  return %g, %h : tensor<4xf32>, tensor<4xf32>
}
