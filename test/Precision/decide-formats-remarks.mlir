// RUN: scalify-opt %s --scalify-decide-formats=recipe=fp8 -verify-diagnostics

// No softmax follows: the rows of the result may vanish.
func.func @product(%q: tensor<2x4x8xf32>, %k: tensor<2x4x8xf32>) -> tensor<2x4x4xf32> {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %0 = stablehlo.tanh %q : tensor<2x4x8xf32>
  %1 = stablehlo.tanh %k : tensor<2x4x8xf32>
  %a = scalify.scale_hint %0, %s : tensor<2x4x8xf32>
  %b = scalify.scale_hint %1, %s : tensor<2x4x8xf32>
  // expected-remark @+1 {{dot stays wide: product: two activations (recipe: product = false)}}
  %y = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x4xf32>
  return %y : tensor<2x4x4xf32>
}

// No prediction: F32 could not hold a square of such values.
func.func @far(%x: tensor<4x64xf32>, %w: tensor<64x8xf32>, %v: tensor<8x3xf32>) -> tensor<4x3xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %large = stablehlo.constant dense<0x5F800000> : tensor<f32>
  %a = scalify.scale_hint %x, %one : tensor<4x64xf32>
  %b = scalify.scale_hint %w, %large : tensor<64x8xf32>
  // expected-remark @+1 {{dot stays wide: scale: an operand's is 2^64, whose square F32 cannot hold (declare the scales of arguments, as scalify.measure gives them}}
  %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %c = scalify.scale_hint %y, %one : tensor<4x8xf32>
  %d = scalify.scale_hint %v, %one : tensor<8x3xf32>
  %z = stablehlo.dot_general %c, %d, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  return %z : tensor<4x3xf32>
}
