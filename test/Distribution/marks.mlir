// RUN: scalify-opt %s --scalify-hide-marks | FileCheck %s --check-prefix=HIDDEN
// RUN: scalify-opt %s --scalify-hide-marks --scalify-restore-marks | FileCheck %s

// HIDDEN-NOT: scalify.data_scale %
// HIDDEN: %[[ONE:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f32>
// HIDDEN: optimization_barrier {scalify.mark = {attrs = {}, name = "scalify.data_scale"}} %arg0, %[[ONE]]
// HIDDEN: optimization_barrier {scalify.mark = {attrs = {}, name = "scalify.override_scale"}} %{{.*}}#0, %arg1
// HIDDEN: optimization_barrier {scalify.mark = {attrs = {axes = array<i64: 1>, statistic = {{.*}}name = "scalify.rescale_point"}}
// HIDDEN: optimization_barrier %arg0

// What is no mark stays.
// CHECK: %[[DATA:.*]], %[[SCALE:.*]] = scalify.data_scale %arg0
// CHECK: %[[SET:.*]] = scalify.override_scale %[[DATA]], %arg1
// CHECK: %[[POINT:.*]] = scalify.rescale_point {{ *}}max %[[SET]] {axes = array<i64: 1>}
// CHECK: %[[BARRIER:.*]] = stablehlo.optimization_barrier %arg0
// CHECK: return %[[POINT]], %[[SCALE]], %[[BARRIER]]
func.func @main(%x: tensor<4x8xf32>, %s: tensor<f32>) -> (tensor<4x8xf32>, tensor<f32>, tensor<4x8xf32>) {
  %d, %t = scalify.data_scale %x : tensor<4x8xf32>
  %y = scalify.override_scale %d, %s : tensor<4x8xf32>
  %z = scalify.rescale_point max %y {axes = array<i64: 1>} : tensor<4x8xf32>
  %b = stablehlo.optimization_barrier %x : tensor<4x8xf32>
  return %z, %t, %b : tensor<4x8xf32>, tensor<f32>, tensor<4x8xf32>
}
