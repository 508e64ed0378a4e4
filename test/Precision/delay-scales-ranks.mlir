// RUN: scalify-opt %s --scalify-delay-scales | FileCheck %s

// In the program of one device the history gets the largest amax of all
// devices, so that they keep the same one.

module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed">} {
  sdy.mesh @mesh = <["x"=2]>
  // CHECK: %[[OWN:.*]] = stablehlo.concatenate
  // CHECK: %[[ALL:.*]] = "stablehlo.all_reduce"(%[[OWN]])
  // CHECK-SAME: replica_groups = dense<{{\[\[}}0, 1]]> : tensor<1x2xi64>
  // CHECK: stablehlo.maximum
  // CHECK: stablehlo.concatenate %{{.*}}, %[[ALL]]
  func.func @main(
      %x: tensor<4x8xf32> {scalify.whole_type = tensor<8x8xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %w: tensor<8x4xf32>) -> tensor<4x4xf32> {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
    %1 = scalify.dequantize %0, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    return %2 : tensor<4x4xf32>
  }
}
