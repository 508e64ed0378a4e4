// RUN: scalify-opt %s --scalify-adapt-scales | FileCheck %s

// Of the program of one device the limits are of what all devices cast, as the
// counts are that @rescale is given: a share of 0.01 of 2 x 32 values is 0.64.

module {
  sdy.mesh @mesh = <["x"=2]>
  // CHECK-LABEL: func.func @rescale
  // CHECK: stablehlo.constant dense<6.400000e-01> : tensor<1xf32>
  func.func @main(
      %x: tensor<4x8xf32> {scalify.whole_type = tensor<8x8xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> tensor<4x8xf32> {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
    %1 = scalify.dequantize %0, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}
