// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-windows))' -verify-diagnostics

func.func @other_than_a_sum(%x: tensor<4xf32>, %g: tensor<2xf32>, %one: tensor<f32>) -> tensor<4xf32> {
  // expected-error @+1 {{'stablehlo.select_and_scatter' op scatters by other than a sum, which no kernel supports; scalify.transform leaves it to XLA}}
  %r = "stablehlo.select_and_scatter"(%x, %g, %one) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.multiply %a, %b : tensor<f32>
    stablehlo.return %p : tensor<f32>
  }) : (tensor<4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
