// RUN: scalify-opt %s --scalify-validate-scales -verify-diagnostics -split-input-file

func.func @unmarked(%x: tensor<4x64xf32>, %w: tensor<64x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{has no scale on operand 0: run scalify-propagate}}
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

func.func @not_a_power(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = stablehlo.constant dense<3.0> : tensor<f32>
  // expected-error @+1 {{has the scale 3.000000e+00, not a positive power of two}}
  %y = scalify.scale_hint %x, %s : tensor<4xf32>
  return %y : tensor<4xf32>
}
