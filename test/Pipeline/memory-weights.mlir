// RUN: scalify-compile %s --target=sm_90a --recipe='#scalify.recipe<"bf16", head = true>' --compile-to=fusion --memory -o /dev/null 2>&1 | FileCheck %s

// Casts of weights are not counted as activations. The backward reads w2 as the forward cast it, 32 x 16 of 2 bytes, and never w1. Of
// activations it reads x, tanh(x w1) and y y as the forward cast them, 64 x (32 + 32 + 16) of 2 bytes.
// CHECK: activations {{ *}}10,240
// CHECK: casts of weights {{ *}}1,024
func.func public @main(%w1: tensor<32x32xf32> {scalify.role = #scalify.role<param>}, %w2: tensor<32x16xf32> {scalify.role = #scalify.role<param>}, %x: tensor<64x32xf32>) -> (tensor<32x32xf32>, tensor<32x16xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<64x32xf32>
  %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %t = stablehlo.tanh %h {scalify.phase = #scalify.phase<forward>} : tensor<64x32xf32>
  %y = stablehlo.dot_general %t, %w2, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  %dy = stablehlo.multiply %y, %y {scalify.phase = #scalify.phase<forward>} : tensor<64x16xf32>
  %g2 = stablehlo.dot_general %t, %dy, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<64x32xf32>, tensor<64x16xf32>) -> tensor<32x16xf32>
  %dt = stablehlo.dot_general %dy, %w2, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<64x16xf32>, tensor<32x16xf32>) -> tensor<64x32xf32>
  %tt = stablehlo.multiply %t, %t {scalify.phase = #scalify.phase<backward>} : tensor<64x32xf32>
  %d = stablehlo.subtract %one, %tt {scalify.phase = #scalify.phase<backward>} : tensor<64x32xf32>
  %dh = stablehlo.multiply %dt, %d {scalify.phase = #scalify.phase<backward>} : tensor<64x32xf32>
  %g1 = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
  return %g1, %g2 : tensor<32x32xf32>, tensor<32x16xf32>
}
