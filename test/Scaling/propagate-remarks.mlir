// RUN: scalify-opt %s --scalify-propagate -verify-diagnostics -split-input-file

// expected-remark @+1 {{argument 0 of 'undeclared' has no declared scale: it counts as 2^0}}
func.func @undeclared(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// A weight counts as what keeps sizes: 64 products a sum, and 9 * 4 of them.
// expected-remark @+1 {{argument 0 of 'weights' has no declared scale: it counts as 2^0}}
func.func @weights(%x: tensor<1x8x8x4xf32> {scalify.role = "batch"},
    // expected-remark @+1 {{argument 1 of 'weights' has no declared scale: it counts as 2^-3}}
    %w: tensor<16x64xf32> {scalify.role = "param"},
    // expected-remark @+1 {{argument 2 of 'weights' has no declared scale: it counts as 2^-3}}
    %k: tensor<3x3x4x64xf32> {scalify.role = "param"},
    // No product reads it.
    // expected-remark @+1 {{argument 3 of 'weights' has no declared scale: it counts as 2^0}}
    %b: tensor<16xf32> {scalify.role = "param"}) -> tensor<1x8x8x16xf32> {
  %h = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, scalify.phase = "forward"}
      : (tensor<1x8x8x4xf32>, tensor<3x3x4x64xf32>) -> tensor<1x8x8x64xf32>
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<16x64xf32>) -> tensor<64x16xf32>
  %y = stablehlo.dot_general %h, %t, contracting_dims = [3] x [0] {scalify.phase = "forward"} : (tensor<1x8x8x64xf32>, tensor<64x16xf32>) -> tensor<1x8x8x16xf32>
  %c = stablehlo.broadcast_in_dim %b, dims = [3] : (tensor<16xf32>) -> tensor<1x8x8x16xf32>
  %z = stablehlo.add %y, %c : tensor<1x8x8x16xf32>
  return %z : tensor<1x8x8x16xf32>
}

// -----

func.func @no_rule(%x: tensor<4xf32> {scalify.scale = 0 : i32}) -> tensor<4xf32> {
  // expected-remark @+1 {{'stablehlo.custom_call' has no scale rule: it computes on true values}}
  %0 = stablehlo.custom_call @unknown(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
