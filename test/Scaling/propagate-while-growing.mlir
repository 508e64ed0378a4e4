// RUN: scalify-opt %s --scalify-propagate=strict=1 -split-input-file -verify-diagnostics

// A carry that doubles as often as the data says has no constant scale.
func.func @doubles(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}, %limit: tensor<f32>) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // expected-error @below {{carry 0 of 'stablehlo.while' ('tensor<8x8xf32>') grows in each iteration, and nothing tells their number: no constant scale fits it}}
  %r = stablehlo.while(%c = %x) : tensor<8x8xf32>
   cond {
    %m = stablehlo.reduce(%c init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
    %0 = stablehlo.compare LT, %m, %limit, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %two = stablehlo.constant dense<2.0> : tensor<8x8xf32>
    %d = stablehlo.multiply %c, %two : tensor<8x8xf32>
    stablehlo.return %d : tensor<8x8xf32>
  }
  return %r : tensor<8x8xf32>
}

// -----

// In a known number of iterations it has one, if a poor one.
func.func @counted(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<24> : tensor<i32>
  // expected-remark @below {{carry 1 of 'stablehlo.while' ('tensor<8x8xf32>') moves through 24.0 binades}}
  %r:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %two = stablehlo.constant dense<2.0> : tensor<8x8xf32>
    %d = stablehlo.multiply %c, %two : tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %d : tensor<i32>, tensor<8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}
