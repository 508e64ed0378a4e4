// RUN: scalify-compile %s --recipe='#scalify.recipe<"bf16", head = true>' --compile-to=fusion --pack-state --memory -o /dev/null 2>&1 | FileCheck %s --check-prefixes=CHECK,WIDE
// RUN: scalify-compile %s --recipe='#scalify.recipe<"fp8-lm-o1", head = true>' --compile-to=fusion --pack-state --memory -o /dev/null 2>&1 | FileCheck %s --check-prefixes=CHECK,O1
// RUN: scalify-compile %s --recipe='#scalify.recipe<"fp8-lm-o2", head = true>' --compile-to=fusion --pack-state --memory -o /dev/null 2>&1 | FileCheck %s --check-prefixes=CHECK,O2
// RUN: scalify-compile %s --recipe='#scalify.recipe<"fp8-lm-o3", head = true>' --compile-to=fusion --pack-state --memory -o /dev/null 2>&1 | FileCheck %s --check-prefixes=CHECK,O2

// Adam on one weight of 128 x 64. By definition: 4 bytes each for the master and
// two moments; o1 has a master of 2 bytes; o2 and o3 have 1 and 2 for the
// moments as well: 5 in place of 12. Scales, factors and the count of steps are
// some bytes beside them. The byte of the gradient is in test_memory.py.
// CHECK: 8,192 parameters
// WIDE: argument: moment {{ *}}65,536 {{ *}}8.00
// WIDE: argument: param {{ *}}32,768 {{ *}}4.00
// WIDE: gradients {{ *}}32,768 {{ *}}4.00
// O1: argument: moment {{ *}}65,536 {{ *}}8.00
// O1: argument: param {{ *}}16,384 {{ *}}2.00
// O2: argument: moment {{ *}}24,576 {{ *}}3.00
// O2: argument: param {{ *}}16,384 {{ *}}2.00
module {
  func.func public @main(
      %w: tensor<128x64xf32> {scalify.role = #scalify.role<param>, tf.aliasing_output = 0 : i32},
      %m: tensor<128x64xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 1 : i32},
      %v: tensor<128x64xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 2 : i32},
      %x: tensor<32x128xf32> {scalify.role = #scalify.role<batch>})
      -> (tensor<128x64xf32>, tensor<128x64xf32>, tensor<128x64xf32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<32x64xf32>
    %b1 = stablehlo.constant dense<0.875> : tensor<128x64xf32>
    %c1 = stablehlo.constant dense<0.125> : tensor<128x64xf32>
    %b2 = stablehlo.constant dense<0.9375> : tensor<128x64xf32>
    %c2 = stablehlo.constant dense<0.0625> : tensor<128x64xf32>
    %eps = stablehlo.constant dense<1.0e-8> : tensor<128x64xf32>
    %rate = stablehlo.constant dense<0.015625> : tensor<128x64xf32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<32x128xf32>, tensor<128x64xf32>) -> tensor<32x64xf32>
    %t = stablehlo.tanh %y {scalify.phase = #scalify.phase<forward>} : tensor<32x64xf32>
    %loss = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [0, 1] {scalify.phase = #scalify.phase<forward>} : (tensor<32x64xf32>, tensor<f32>) -> tensor<f32>
    %tt = stablehlo.multiply %t, %t {scalify.phase = #scalify.phase<backward>} : tensor<32x64xf32>
    %d = stablehlo.subtract %one, %tt {scalify.phase = #scalify.phase<backward>} : tensor<32x64xf32>
    %g = stablehlo.dot_general %x, %d, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<32x128xf32>, tensor<32x64xf32>) -> tensor<128x64xf32>
    %m0 = stablehlo.multiply %m, %b1 {scalify.phase = #scalify.phase<optimizer>} : tensor<128x64xf32>
    %g1 = stablehlo.multiply %g, %c1 {scalify.phase = #scalify.phase<optimizer>} : tensor<128x64xf32>
    %m1 = stablehlo.add %m0, %g1 {scalify.phase = #scalify.phase<optimizer>} : tensor<128x64xf32>
    %gg = stablehlo.multiply %g, %g {scalify.phase = #scalify.phase<optimizer>} : tensor<128x64xf32>
    %v0 = stablehlo.multiply %v, %b2 {scalify.phase = #scalify.phase<optimizer>} : tensor<128x64xf32>
    %g2 = stablehlo.multiply %gg, %c2 {scalify.phase = #scalify.phase<optimizer>} : tensor<128x64xf32>
    %v1 = stablehlo.add %v0, %g2 {scalify.phase = #scalify.phase<optimizer>} : tensor<128x64xf32>
    %r = stablehlo.sqrt %v1 {scalify.phase = #scalify.phase<optimizer>} : tensor<128x64xf32>
    %e = stablehlo.add %r, %eps {scalify.phase = #scalify.phase<optimizer>} : tensor<128x64xf32>
    %q = stablehlo.divide %m1, %e {scalify.phase = #scalify.phase<optimizer>} : tensor<128x64xf32>
    %u = stablehlo.multiply %q, %rate {scalify.phase = #scalify.phase<optimizer>} : tensor<128x64xf32>
    %n = stablehlo.subtract %w, %u {scalify.phase = #scalify.phase<optimizer>} : tensor<128x64xf32>
    return %n, %m1, %v1, %loss : tensor<128x64xf32>, tensor<128x64xf32>, tensor<128x64xf32>, tensor<f32>
  }
}
