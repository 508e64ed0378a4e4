// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-convolutions))' -verify-diagnostics

// The padding of one side undoes that of the other.
func.func @padding_that_cancels(%x: tensor<1x4x1xf32>, %k: tensor<2x1x1xf32>) -> tensor<1x3x1xf32> {
  // expected-error @+1 {{has windows whose padded operand, or whose elements, have more bytes than 60 bits can count: pad less}}
  %0 = "stablehlo.convolution"(%x, %k) <{padding = dense<[[9223372036854775807, -9223372036854775807]]> : tensor<1x2xi64>, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, batch_group_count = 1 : i64, feature_group_count = 1 : i64}> : (tensor<1x4x1xf32>, tensor<2x1x1xf32>) -> tensor<1x3x1xf32>
  return %0 : tensor<1x3x1xf32>
}
