// RUN: scalify-opt %s --scalify-quantize=recipe=fp8 -verify-diagnostics

func.func @attention(%q: tensor<2x4x8xf32>, %k: tensor<2x4x8xf32>) -> tensor<2x4x4xf32> {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %0 = stablehlo.tanh %q : tensor<2x4x8xf32>
  %1 = stablehlo.tanh %k : tensor<2x4x8xf32>
  %a = scalify.set_scale %0, %s : tensor<2x4x8xf32>
  %b = scalify.set_scale %1, %s : tensor<2x4x8xf32>
  // expected-remark @+1 {{dot stays wide: attention_qk: two activations (recipe: attention_qk = false)}}
  %y = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x4xf32>
  return %y : tensor<2x4x4xf32>
}
