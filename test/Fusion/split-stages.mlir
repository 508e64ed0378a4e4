// RUN: scalify-opt %s --scalify-place-stages="stages=2" --scalify-form-plan --scalify-split-stages | FileCheck %s
// RUN: scalify-opt %s --scalify-place-stages="stages=2" --scalify-form-plan --scalify-split-stages --scalify-take-stage="stage=1" | FileCheck %s --check-prefix=TAKEN
// RUN: scalify-opt %s --scalify-place-stages="stages=2" --scalify-form-plan --scalify-split-stages --scalify-take-stage="stage=0" --scalify-overlap-collectives | FileCheck %s --check-prefix=BESIDE

// The first stage is one forward ahead. Each has its own state, and of the batch
// what it reads: arguments and results have new numbers. What is sent when a
// task ends stands before what starts then.
// CHECK-LABEL: plan.program @stage0
// CHECK-SAME: arg_owners = [0, 1, -1, -1], {{.*}}args = [0, 2, 3], {{.*}}result_owners = [0, 1]
// CHECK-SAME: results = [0], stage = 0 : i64
// CHECK: plan.result 0 aliases 0
// CHECK: plan.task = "F0.0"
// CHECK: plan.message "F0.0 multiply_add" %[[X:.*]] to 1
// CHECK: plan.task = "F0.1"
// CHECK: plan.message "F0.1 add" %{{.*}} to 1
// CHECK: plan.message "B1.0 tanh" %[[G:.*]] from 1
// CHECK: plan.kernel "negate" reads(%[[G]] {{.*}}plan.task = "B0.0"
// CHECK: plan.message "B1.1 tanh" %{{.*}} from 1
// CHECK: plan.task = "B0.1"
// CHECK: plan.task = "U0"

// CHECK-LABEL: plan.program @stage1
// CHECK-SAME: args = [1],
// CHECK-SAME: results = [1], stage = 1 : i64
// CHECK: plan.result 0 aliases 0
// CHECK: plan.message "F0.0 multiply_add" %[[X:.*]] from 0
// CHECK: plan.kernel "multiply_add" reads(%[[X]], {{.*}}plan.task = "F1.0"
// CHECK: plan.message "F0.1 add" %{{.*}} from 0
// CHECK: plan.task = "B1.0"
// CHECK: plan.message "B1.0 tanh" %{{.*}} to 0
// CHECK: plan.task = "F1.1"
// CHECK: plan.task = "B1.1"
// CHECK: plan.message "B1.1 tanh" %{{.*}} to 0
// CHECK: plan.task = "U1"

// TAKEN: module attributes {plan.pipeline = {{.*}}stage = 1 : i64
// TAKEN-NOT: @stage
// TAKEN: plan.program @step
// TAKEN: plan.message "F0.0 multiply_add" %{{.*}} from 0
// TAKEN-NOT: plan.program

// On a stream of their own messages keep nobody: what needs one waits for it.
// BESIDE: plan.task = "F0.0"
// BESIDE: plan.record [[MADE:.*]] on 0
// BESIDE-NEXT: plan.wait [[MADE]] on 1
// BESIDE-NEXT: plan.message "F0.0 multiply_add" {{.*}}plan.stream = 1
// BESIDE: plan.message "B1.0 tanh" {{.*}}plan.stream = 1
// BESIDE-NEXT: plan.record [[CAME:.*]] on 1
// BESIDE-NEXT: plan.wait [[CAME]] on 0
// BESIDE-NEXT: plan.kernel "negate"
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
