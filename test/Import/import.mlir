// RUN: scalify-opt %s --scalify-import | FileCheck %s
// RUN: scalify-opt %s --scalify-import | scalify-opt --scalify-import | FileCheck %s

// The whole stage on a step as JAX prints it; running it twice changes nothing.

// CHECK: func.func public @main
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x4xf32> {scalify.name = "result[0]['w']", scalify.role = #scalify.role<param>, tf.aliasing_output = 0 : i32}
// CHECK-SAME: %[[X:[^:]*]]: tensor<8x4xf32> {scalify.name = "arg1", scalify.role = #scalify.role<batch>}
// CHECK: %[[Y:.*]] = stablehlo.dot_general %[[X]], %[[W]], {{.*}} {scalify.phase = #scalify.phase<forward>}
// CHECK: %[[S:.*]] = stablehlo.multiply %[[Y]], %[[Y]] {scalify.phase = #scalify.phase<forward>}
// CHECK: %[[L:.*]] = stablehlo.reduce(%[[S]] {{.*}} {scalify.phase = #scalify.phase<forward>}
// CHECK: %[[G:.*]] = stablehlo.dot_general %[[X]], %[[Y]], {{.*}} {scalify.phase = #scalify.phase<backward>}
// CHECK: %[[N:.*]] = stablehlo.subtract %[[W]], %[[G]] {scalify.phase = #scalify.phase<optimizer>}
// CHECK: return %[[N]], %[[L]]
module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%w: tensor<4x4xf32> {jax.buffer_donor = true}, %x: tensor<8x4xf32>) -> (tensor<4x4xf32> {jax.result_info = "result[0]['w']"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %loss = call @norm(%y) : (tensor<8x4xf32>) -> tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %dy = stablehlo.multiply %ones, %y : tensor<8x4xf32>
    %g = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %new = stablehlo.subtract %w, %g : tensor<4x4xf32>
    return %new, %loss : tensor<4x4xf32>, tensor<f32>
  }
  func.func private @norm(%y: tensor<8x4xf32>) -> tensor<f32> {
    %0 = chlo.square %y : tensor<8x4xf32> -> tensor<8x4xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
}
