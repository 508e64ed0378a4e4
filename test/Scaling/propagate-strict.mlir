// RUN: scalify-opt %s --scalify-propagate=strict -verify-diagnostics

func.func @no_rule(%x: tensor<4xf32> {scalify.scale = 0 : i32}) -> tensor<4xf32> {
  // expected-error @+1 {{has no scale rule; its result would count as 2^0 (drop strict, or add a rule in lib/Scaling/Rules)}}
  %0 = stablehlo.custom_call @unknown(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
