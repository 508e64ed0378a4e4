// RUN: scalify-opt %s --scalify-propagate -verify-diagnostics -split-input-file

// expected-remark @+1 {{argument 0 of 'undeclared' has no declared scale: it counts as 2^0}}
func.func @undeclared(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @no_rule(%x: tensor<4xf32> {scalify.scale = 0 : i32}) -> tensor<4xf32> {
  // expected-remark @+1 {{'stablehlo.custom_call' has no scale rule: it computes on true values}}
  %0 = stablehlo.custom_call @unknown(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
