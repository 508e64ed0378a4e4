// RUN: scalify-opt %s --scalify-place-stages | FileCheck %s

// Without stages, borders are dropped in the bodies of loops as well.
// CHECK-NOT: optimization_barrier
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %x : tensor<4xf32>
  // CHECK: plan.iterate @body carries(%arg0) trips 9
  %1 = plan.iterate @body carries(%0) trips 9 : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
// CHECK: func.func private @body
func.func private @body(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
  %0 = stablehlo.optimization_barrier {scalify.stage_border = "backward"} %x : tensor<4xf32>
  // CHECK: stablehlo.add %arg0, %arg0
  %1 = stablehlo.add %0, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
