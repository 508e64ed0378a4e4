// RUN: scalify-compile %s --compile-to=fusion --memory -o /dev/null | FileCheck %s
// RUN: not scalify-compile %s --compile-to=import --memory -o /dev/null 2>&1 | FileCheck %s --check-prefix=EARLY

// A step of one weight: the forward keeps tanh(x w), 64 x 32 numbers of 4 bytes, for its backward. The gradient is
// as large as the weight, 32 x 32, and is made before the update reads it.
// CHECK: 1,024 parameters
// CHECK: argument: param {{ *}}4,096 {{ *}}4.00
// CHECK: activations {{ *}}8,192
// CHECK: gradients {{ *}}4,096 {{ *}}4.00
// EARLY: --memory needs a plan
func.func public @main(%w: tensor<32x32xf32> {scalify.role = #scalify.role<param>, tf.aliasing_output = 0 : i32}, %x: tensor<64x32xf32>) -> (tensor<32x32xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<64x32xf32>
  %rate = stablehlo.constant dense<0.125> : tensor<32x32xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %t = stablehlo.tanh %y {scalify.phase = #scalify.phase<forward>} : tensor<64x32xf32>
  %loss = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x32xf32>, tensor<f32>) -> tensor<f32>
  %tt = stablehlo.multiply %t, %t {scalify.phase = #scalify.phase<backward>} : tensor<64x32xf32>
  %d = stablehlo.subtract %one, %tt {scalify.phase = #scalify.phase<backward>} : tensor<64x32xf32>
  %g = stablehlo.dot_general %x, %d, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
  %u = stablehlo.multiply %g, %rate {scalify.phase = #scalify.phase<optimizer>} : tensor<32x32xf32>
  %n = stablehlo.subtract %w, %u {scalify.phase = #scalify.phase<optimizer>} : tensor<32x32xf32>
  return %n, %loss : tensor<32x32xf32>, tensor<f32>
}
