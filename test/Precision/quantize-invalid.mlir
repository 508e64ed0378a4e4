// RUN: scalify-opt %s --scalify-quantize -verify-diagnostics

module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
  func.func @undecided(%x: tensor<4x64xf32>, %w: tensor<64x8xf32>) -> tensor<4x8xf32> {
    // expected-error @+1 {{'stablehlo.dot_general' op has no role: run scalify-decide-formats first}}
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}
