// RUN: scalify-opt %s --scalify-place-stages="stages=2" --scalify-form-plan --scalify-split-stages | FileCheck %s

// The scales of narrow state are every stage's: each reads its own copy, and
// gets at the end of the step those that the next one reads by.
// CHECK-LABEL: plan.program @stage0
// CHECK-SAME: arg_owners = [0, 1, -1, -1], {{.*}}args = [0, 2, 3], {{.*}}result_owners = [0, 1, -1]
// CHECK-SAME: results = [0, 2], stage = 0 : i64
// CHECK-NOT: from 1 : memref<2xf32>
// CHECK: plan.message {{.*}} to 1 : memref<2xf32>

// CHECK-LABEL: plan.program @stage1
// CHECK-SAME: args = [1, 3],
// CHECK-SAME: results = [1, 2], stage = 1 : i64
// CHECK: plan.message {{.*}} from 0 : memref<2xf32>
func.func @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %v: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %x: tensor<4xf32>, %scales: tensor<2xf32> {scalify.name = "scalify.state_scales", tf.aliasing_output = 2 : i32}) -> (tensor<4xf32>, tensor<4xf32>, tensor<2xf32>) {
  %s = stablehlo.slice %scales [1:2] : (tensor<2xf32>) -> tensor<1xf32>
  %s0 = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<f32>
  %spread = stablehlo.broadcast_in_dim %s0, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %v2 = stablehlo.multiply %v, %spread : tensor<4xf32>
  %a = stablehlo.add %w, %x : tensor<4xf32>
  %b = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %a : tensor<4xf32>
  %c = stablehlo.add %b, %v2 : tensor<4xf32>
  %d = stablehlo.tanh %c {scalify.phase = "backward"} : tensor<4xf32>
  %e = stablehlo.optimization_barrier {scalify.stage_border = "backward"} %d : tensor<4xf32>
  %f = stablehlo.negate %e : tensor<4xf32>
  %g = stablehlo.add %f, %w {scalify.phase = "optimizer"} : tensor<4xf32>
  %h = stablehlo.add %d, %v {scalify.phase = "optimizer"} : tensor<4xf32>
  %part = stablehlo.slice %g [0:2] {scalify.phase = "optimizer"} : (tensor<4xf32>) -> tensor<2xf32>
  %next = stablehlo.multiply %part, %scales {scalify.phase = "optimizer"} : tensor<2xf32>
  return %g, %h, %next : tensor<4xf32>, tensor<4xf32>, tensor<2xf32>
}
