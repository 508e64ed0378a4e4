// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-windows))' -verify-diagnostics

func.func @moves_elements(%x: tensor<4xf32>, %g: tensor<2xf32>, %one: tensor<f32>) -> tensor<4xf32> {
  // expected-error @+1 {{'stablehlo.select_and_scatter' op combines elements by 'stablehlo.transpose', which has no meaning for all elements at once}}
  %r = "stablehlo.select_and_scatter"(%x, %g, %one) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.multiply %a, %b : tensor<f32>
    %q = stablehlo.transpose %p, dims = [] : (tensor<f32>) -> tensor<f32>
    stablehlo.return %q : tensor<f32>
  }) : (tensor<4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
