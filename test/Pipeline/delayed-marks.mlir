// Under delayed scales, too, a cast starts from what the user says of its scale.
//
// RUN: scalify-opt %s --scalify-import --scalify-scaling=remarks=0 --scalify-precision=remarks=0 | FileCheck %s

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.constant dense<[1.024000e+03, 1.000000e+00]> : tensor<2xf32>
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed", head = true>} {
  func.func public @main(%x: tensor<32x32xf32> {scalify.scale = 0 : i32}, %w: tensor<32x32xf32> {scalify.scale = 0 : i32}) -> tensor<32x32xf32> {
    %c = stablehlo.constant dense<1024.0> : tensor<f32>
    %0 = scalify.override_scale %x, %c : tensor<32x32xf32>
    %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}
