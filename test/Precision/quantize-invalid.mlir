// RUN: scalify-opt %s --scalify-quantize -verify-diagnostics -split-input-file

module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
  func.func @undecided(%x: tensor<4x64xf32>, %w: tensor<64x8xf32>) -> tensor<4x8xf32> {
    // expected-error @+1 {{'stablehlo.dot_general' op has no role: run scalify-decide-formats first}}
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}

// -----

module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
  func.func @no_scales(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    // expected-error @+1 {{has formats, but operands without a scale: run scalify-propagate first}}
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] {scalify.dot_role = #scalify.dot_role<linear>, scalify.formats = #scalify.formats<f8E4M3FN, f8E5M2>, scalify.phase = #scalify.phase<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}
