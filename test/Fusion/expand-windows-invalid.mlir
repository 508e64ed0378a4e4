// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-windows))' -split-input-file -verify-diagnostics

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

// -----

// The padding of one side undoes that of the other.
func.func @padding_that_cancels(%x: tensor<4xf32>, %z: tensor<f32>) -> tensor<4xf32> {
  // expected-error @+1 {{has windows whose padded operand, or whose elements, have more bytes than 60 bits can count}}
  %0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 1>, padding = dense<[[9223372036854775807, -9223372036854775807]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @window_of_2_61_elements(%x: tensor<4xf32>, %g: tensor<4xf32>, %z: tensor<f32>) -> tensor<4xf32> {
  // expected-error @+1 {{have more bytes than 60 bits can count}}
  %r = "stablehlo.select_and_scatter"(%x, %g, %z) <{window_dimensions = array<i64: 2305843009213693952>, padding = dense<[[2305843009213693951, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %p : tensor<f32>
  }) : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
