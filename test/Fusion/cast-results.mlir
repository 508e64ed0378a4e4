// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-form-epilogues{level=all}))' -verify-diagnostics -split-input-file | FileCheck %s

// What is only cast is stored as FP8, by the reciprocal of the cast's scale.
// The backward's product reads it transposed: that is a copy of bytes.
// CHECK-LABEL: func.func @two_layers
// CHECK-SAME: %[[X:.*]]: tensor<32x16xf8E4M3FN>, %[[W:.*]]: tensor<48x16xf8E4M3FN>
// CHECK: %[[SCALE:.*]] = stablehlo.constant {scalify.in_memory} dense<6.250000e-02> : tensor<f32>
// CHECK: %[[Q:.*]] = plan.matmul %[[X]], %[[W]] {{.*}} fast_accumulation into(%[[SCALE]]) {{.*}} -> tensor<32x48xf8E4M3FN>
// CHECK-NOT: scalify.quantize
// CHECK: %[[T:.*]] = stablehlo.transpose %[[Q]]
// CHECK: plan.matmul %[[Q]], %{{.*}} k 48
// CHECK: plan.matmul %[[T]], %{{.*}} k 32
func.func @two_layers(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>, %v: tensor<16x48xf8E4M3FN>, %g: tensor<16x32xf8E4M3FN>) -> (tensor<32x16xf32>, tensor<48x16xf32>) {
  %s = stablehlo.constant dense<16.0> : tensor<f32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 fast_accumulation : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %q = scalify.quantize %y, %s {cast = "c0: dot"} : tensor<32x48xf32> -> tensor<32x48xf8E4M3FN>
  %t = stablehlo.transpose %q, dims = [1, 0] {plan.materialise} : (tensor<32x48xf8E4M3FN>) -> tensor<48x32xf8E4M3FN>
  %z = plan.matmul %q, %v m 32 n 16 k 48 strides [48, 1] x [1, 48] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x48xf8E4M3FN>, tensor<16x48xf8E4M3FN>) -> tensor<32x16xf32>
  %dw = plan.matmul %t, %g m 48 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<48x32xf8E4M3FN>, tensor<16x32xf8E4M3FN>) -> tensor<48x16xf32>
  return %z, %dw : tensor<32x16xf32>, tensor<48x16xf32>
}

// -----

// What a product of the other order alone reads is stored in that order.
// CHECK-LABEL: func.func @turned
// CHECK: %[[Q:.*]] = plan.matmul %{{.*}}, %{{.*}} m 32 n 48 k 16 {{.*}} to [1, 32] {{.*}} -> tensor<48x2x16xf8E5M2>
// CHECK-NOT: stablehlo.transpose
// CHECK: plan.matmul %[[Q]]
func.func @turned(%x: tensor<2x16x16xf8E5M2>, %w: tensor<48x16xf8E4M3FN>, %g: tensor<16x32xf8E4M3FN>) -> tensor<48x16xf32> {
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<2x16x16xf8E5M2>, tensor<48x16xf8E4M3FN>) -> tensor<2x16x48xf32>
  %q = scalify.quantize %y, %s {cast = "c0: dot"} : tensor<2x16x48xf32> -> tensor<2x16x48xf8E5M2>
  %t = stablehlo.transpose %q, dims = [2, 0, 1] {plan.materialise} : (tensor<2x16x48xf8E5M2>) -> tensor<48x2x16xf8E5M2>
  %dw = plan.matmul %t, %g m 48 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<48x2x16xf8E5M2>, tensor<16x32xf8E4M3FN>) -> tensor<48x16xf32>
  return %dw : tensor<48x16xf32>
}

// -----

// Delayed scales: the largest magnitude comes with the product, and the scale,
// which is no part of it, is made before.
// CHECK-LABEL: func.func @delayed
// CHECK-SAME: %[[HISTORY:[^ ]*]]: tensor<2xf32>
// CHECK: %[[SLICE:.*]] = stablehlo.slice %[[HISTORY]]
// CHECK: %[[SCALE:.*]] = stablehlo.reshape %[[SLICE]]
// CHECK: %[[BY:.*]] = stablehlo.divide %{{.*}}, %[[SCALE]] : tensor<f32>
// CHECK: %[[Q:.*]], %[[AMAX:.*]] = plan.matmul {{.*}} into(%[[BY]]) {{.*}} -> (tensor<32x48xf8E4M3FN>, tensor<f32>)
// CHECK-NOT: stablehlo.abs
// CHECK: return %{{.*}}, %[[AMAX]]
func.func @delayed(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>, %v: tensor<16x48xf8E4M3FN>, %history: tensor<2xf32>) -> (tensor<32x16xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %a = stablehlo.abs %y : tensor<32x48xf32>
  %rows = stablehlo.reshape %a : (tensor<32x48xf32>) -> tensor<2x768xf32>
  %part = stablehlo.reduce(%rows init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<2x768xf32>, tensor<f32>) -> tensor<2xf32>
  %amax = stablehlo.reduce(%part init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
  %one = stablehlo.slice %history [1:2] : (tensor<2xf32>) -> tensor<1xf32>
  %s = stablehlo.reshape %one : (tensor<1xf32>) -> tensor<f32>
  %q = scalify.quantize %y, %s {cast = "c0: dot"} : tensor<32x48xf32> -> tensor<32x48xf8E4M3FN>
  %z = plan.matmul %q, %v m 32 n 16 k 48 strides [48, 1] x [1, 48] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x48xf8E4M3FN>, tensor<16x48xf8E4M3FN>) -> tensor<32x16xf32>
  return %z, %amax : tensor<32x16xf32>, tensor<f32>
}

// -----

// A scale made of the product itself is known too late.
// CHECK-LABEL: func.func @current
// CHECK: plan.matmul {{.*}} -> tensor<32x48xf32>
// CHECK: scalify.quantize
func.func @current(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>) -> tensor<32x48xf8E4M3FN> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %a = stablehlo.abs %y : tensor<32x48xf32>
  %amax = stablehlo.reduce(%a init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<f32>
  %q = scalify.quantize %y, %amax {cast = "c0: dot"} : tensor<32x48xf32> -> tensor<32x48xf8E4M3FN>
  return %q : tensor<32x48xf8E4M3FN>
}

// -----

// With a bias, a clamp at 0, and a rounding that the program has before.
// CHECK-LABEL: func.func @behind_bias
// CHECK-SAME: %[[BIAS:[^ ]*]]: tensor<48xbf16>
// CHECK: plan.matmul {{.*}} epilogue bias_relu bias(%[[BIAS]]) into(%{{.*}}) {{.*}} -> tensor<32x48xf8E4M3FN>
// CHECK-NOT: stablehlo.add
func.func @behind_bias(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>, %bias: tensor<48xbf16>) -> tensor<32x48xf8E4M3FN> {
  %s = stablehlo.constant dense<4.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<32x48xbf16>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xbf16>
  %rows = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<48xbf16>) -> tensor<32x48xbf16>
  %sum = stablehlo.add %y, %rows : tensor<32x48xbf16>
  %h = stablehlo.maximum %sum, %zero : tensor<32x48xbf16>
  %q = scalify.quantize %h, %s {cast = "c0: maximum"} : tensor<32x48xbf16> -> tensor<32x48xf8E4M3FN>
  return %q : tensor<32x48xf8E4M3FN>
}

// -----

// Something else reads the product.
// CHECK-LABEL: func.func @read_wide
// CHECK: scalify.quantize
func.func @read_wide(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>) -> (tensor<32x48xf8E4M3FN>, tensor<32x48xf32>) {
  %s = stablehlo.constant dense<4.0> : tensor<f32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %q = scalify.quantize %y, %s {cast = "c0: dot"} : tensor<32x48xf32> -> tensor<32x48xf8E4M3FN>
  return %q, %y : tensor<32x48xf8E4M3FN>, tensor<32x48xf32>
}

// -----

// CHECK-LABEL: func.func @formats
// CHECK: scalify.quantize
func.func @formats(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>) -> tensor<32x48xf8E5M2> {
  %s = stablehlo.constant dense<4.0> : tensor<f32>
  // expected-remark @below {{the product's epilogue is done by a kernel, not by the library: the library has no E5M2 result of two E4M3 operands}}
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %q = scalify.quantize %y, %s {cast = "c0: dot"} : tensor<32x48xf32> -> tensor<32x48xf8E5M2>
  return %q : tensor<32x48xf8E5M2>
}

// -----

// CHECK-LABEL: func.func @narrow_rows
// CHECK: scalify.quantize
func.func @narrow_rows(%x: tensor<32x16xf8E4M3FN>, %w: tensor<8x16xf8E4M3FN>) -> tensor<32x8xf8E4M3FN> {
  %s = stablehlo.constant dense<4.0> : tensor<f32>
  // expected-remark @below {{rows of the result would be no multiple of 16 bytes}}
  %y = plan.matmul %x, %w m 32 n 8 k 16 strides [16, 1] x [1, 16] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<32x8xf32>
  %q = scalify.quantize %y, %s {cast = "c0: dot"} : tensor<32x8xf32> -> tensor<32x8xf8E4M3FN>
  return %q : tensor<32x8xf8E4M3FN>
}

// -----

// CHECK-LABEL: func.func @moved
// CHECK: scalify.quantize
func.func @moved(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>) -> tensor<32x48xf8E4M3FN> {
  %s = stablehlo.constant dense<4.0> : tensor<f32>
  // expected-remark @below {{its scale follows the counts of the cast}}
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %q = scalify.quantize %y, %s {cast = "c0: dot", plan.scale_entry = 0 : i64} : tensor<32x48xf32> -> tensor<32x48xf8E4M3FN>
  return %q : tensor<32x48xf8E4M3FN>
}

// -----

// A product in 16 bits, made wide for its magnitudes and for its cast, or
// wide magnitudes of it.
// CHECK-LABEL: func.func @wide_copies
// CHECK: %{{.*}}, %[[AMAX:.*]] = plan.matmul {{.*}} into(%{{.*}}) {{.*}} -> (tensor<32x48xf8E4M3FN>, tensor<f32>)
// CHECK-NOT: stablehlo.abs
func.func @wide_copies(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>) -> (tensor<32x48xf8E4M3FN>, tensor<f32>) {
  %s = stablehlo.constant dense<4.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xbf16>
  %wide = stablehlo.convert %y : (tensor<32x48xbf16>) -> tensor<32x48xf32>
  %a = stablehlo.abs %wide : tensor<32x48xf32>
  %amax = stablehlo.reduce(%a init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<f32>
  %q = scalify.quantize %wide, %s {cast = "c0: dot"} : tensor<32x48xf32> -> tensor<32x48xf8E4M3FN>
  return %q, %amax : tensor<32x48xf8E4M3FN>, tensor<f32>
}
// CHECK-LABEL: func.func @wide_magnitudes
// CHECK: %{{.*}}, %[[AMAX:.*]] = plan.matmul {{.*}} -> (tensor<32x48xf8E4M3FN>, tensor<f32>)
// CHECK: return %{{.*}}, %[[AMAX]]
func.func @wide_magnitudes(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>) -> (tensor<32x48xf8E4M3FN>, tensor<f32>) {
  %s = stablehlo.constant dense<4.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xbf16>
  %a = stablehlo.abs %y : tensor<32x48xbf16>
  %wide = stablehlo.convert %a : (tensor<32x48xbf16>) -> tensor<32x48xf32>
  %amax = stablehlo.reduce(%wide init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<f32>
  %q = scalify.quantize %y, %s {cast = "c0: dot"} : tensor<32x48xbf16> -> tensor<32x48xf8E4M3FN>
  return %q, %amax : tensor<32x48xf8E4M3FN>, tensor<f32>
}

// -----

// The library measures in F32.
// CHECK-LABEL: func.func @narrow_magnitude
// CHECK: stablehlo.abs
// CHECK: scalify.quantize
func.func @narrow_magnitude(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>) -> (tensor<32x48xf8E4M3FN>, tensor<bf16>) {
  %s = stablehlo.constant dense<4.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<bf16>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xbf16>
  %a = stablehlo.abs %y : tensor<32x48xbf16>
  %amax = stablehlo.reduce(%a init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<32x48xbf16>, tensor<bf16>) -> tensor<bf16>
  %q = scalify.quantize %y, %s {cast = "c0: dot"} : tensor<32x48xbf16> -> tensor<32x48xf8E4M3FN>
  return %q, %amax : tensor<32x48xf8E4M3FN>, tensor<bf16>
}
