// RUN: scalify-opt %s --scalify-place-stages="stages=2" --scalify-form-plan --scalify-split-stages | FileCheck %s

// The scales of narrow state are every stage's: each reads its own copy, and
// gets those that the next step reads by. They come beside the old ones, which
// may be read until the step ends, also first of all behind the message.
// CHECK-LABEL: plan.program @stage0
// CHECK-SAME: arg_owners = [0, 1, -1, -1], {{.*}}args = [0, 2, 3], {{.*}}result_owners = [0, 1, -1]
// CHECK-SAME: results = [0, 2], stage = 0 : i64
// CHECK: plan.message {{.*}} to 1 : memref<2xf32>

// CHECK-LABEL: plan.program @stage1
// CHECK-SAME: args = [1, 3],
// CHECK-SAME: results = [1, 2], stage = 1 : i64
// CHECK: %[[SCALES:.*]] = plan.result 1 aliases 1
// CHECK: %[[OLD:.*]] = plan.argument 1
// CHECK: plan.message {{.*}} %[[NEW:.*]] from 0 : memref<2xf32>
// CHECK: plan.kernel "compare_select" reads(%[[OLD]]
// CHECK: plan.kernel {{.*}} plan.task = "U1"
// CHECK: plan.copy %[[NEW]] to %[[SCALES]]
func.func @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %v: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %x: tensor<4xf32>, %scales: tensor<2xf32> {scalify.name = "scalify.state_scales", tf.aliasing_output = 2 : i32}) -> (tensor<4xf32>, tensor<4xf32>, tensor<2xf32>) {
  %zeros = stablehlo.constant dense<0.0> : tensor<2xf32>
  %first = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %is_set = stablehlo.compare GT, %scales, %zeros : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  %stored = stablehlo.select %is_set, %scales, %first : tensor<2xi1>, tensor<2xf32>
  %a = stablehlo.add %w, %x : tensor<4xf32>
  %b = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %a : tensor<4xf32>
  %c = stablehlo.add %b, %v : tensor<4xf32>
  %d = stablehlo.tanh %c {scalify.phase = #scalify.phase<backward>} : tensor<4xf32>
  %e = stablehlo.optimization_barrier {scalify.stage_border = "backward"} %d : tensor<4xf32>
  %f = stablehlo.negate %e : tensor<4xf32>
  %g = stablehlo.add %f, %w {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
  %part = stablehlo.slice %g [0:2] {scalify.phase = #scalify.phase<optimizer>} : (tensor<4xf32>) -> tensor<2xf32>
  %next = stablehlo.maximum %part, %stored {scalify.phase = #scalify.phase<optimizer>} : tensor<2xf32>
  %o = stablehlo.slice %stored [1:2] {scalify.phase = #scalify.phase<optimizer>} : (tensor<2xf32>) -> tensor<1xf32>
  %n = stablehlo.slice %next [1:2] {scalify.phase = #scalify.phase<optimizer>} : (tensor<2xf32>) -> tensor<1xf32>
  %spread_o = stablehlo.broadcast_in_dim %o, dims = [0] {scalify.phase = #scalify.phase<optimizer>} : (tensor<1xf32>) -> tensor<4xf32>
  %spread_n = stablehlo.broadcast_in_dim %n, dims = [0] {scalify.phase = #scalify.phase<optimizer>} : (tensor<1xf32>) -> tensor<4xf32>
  %h0 = stablehlo.multiply %d, %spread_o {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
  %h1 = stablehlo.multiply %h0, %spread_n {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
  %h = stablehlo.add %h1, %v {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
  return %g, %h, %next : tensor<4xf32>, tensor<4xf32>, tensor<2xf32>
}
