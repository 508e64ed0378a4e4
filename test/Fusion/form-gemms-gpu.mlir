// RUN: scalify-opt %s --pass-pipeline='builtin.module(scalify-set-target,func.func(scalify-prepare-plan,scalify-narrow-dots,scalify-form-gemms),scalify-form-plan,scalify-assign-buffers)' -split-input-file | FileCheck %s

// The scale of x is measured, so that both are read from memory; in the
// forward the sum is the fast one. The transposed weight is a kernel's.
// CHECK-LABEL: plan.program @step
// CHECK: %[[S:.*]] = plan.argument 1 : memref<f32>
// CHECK: %[[T:.*]] = plan.constant dense<4.000000e+00> : tensor<f32>
// CHECK: plan.kernel "transpose"
// CHECK: plan.gemm "dot" %{{.*}}, %{{.*}}, %{{.*}} m 16 n 48 k 32 strides [32, 1] x [1, 32] to [48, 1]
// CHECK-SAME: scales(%[[S]], %[[T]] : memref<f32>, memref<f32>) fast_accumulation
// CHECK-SAME: memref<16x32xf8E4M3FN>, memref<48x32xf8E4M3FN>, memref<16x48xf32>
func.func @main(%x: tensor<16x32xf8E4M3FN>, %s: tensor<f32>, %w: tensor<32x48xf8E4M3FN>) -> tensor<16x48xf32> {
  %t = stablehlo.constant dense<4.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<16x32xf8E4M3FN> -> tensor<16x32xf32>
  %ww = scalify.dequantize %w, %t : tensor<32x48xf8E4M3FN> -> tensor<32x48xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x32xf32>, tensor<32x48xf32>) -> tensor<16x48xf32>
  return %d : tensor<16x48xf32>
}

// -----

// A product of BF16 operands rounds its sums itself, and stays what it is.
// CHECK-LABEL: plan.program @step
// CHECK: plan.gemm {{.*}} alpha 5.000000e-01 : memref<4x8xbf16>, memref<8x16xbf16>, memref<4x16xbf16>
// CHECK: plan.gemm {{.*}} : memref<4x8xbf16>, memref<8x16xbf16>, memref<4x16xf32>
// CHECK-NOT: plan.kernel
func.func @main(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>) -> (tensor<4x16xbf16>, tensor<4x16xf32>) {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<4x8xbf16> -> tensor<4x8xf32>
  %ww = stablehlo.convert %w : (tensor<8x16xbf16>) -> tensor<8x16xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %r = stablehlo.convert %d : (tensor<4x16xf32>) -> tensor<4x16xbf16>
  %e = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xf32>
  return %r, %e : tensor<4x16xbf16>, tensor<4x16xf32>
}

// -----

// Scales of blocks: the GEMM has those that lie as it reads them, and sums in
// full in the forward too.
// CHECK-LABEL: plan.program @step
// CHECK-DAG: %[[S:.*]] = plan.temp {{.*}}memref<2x64xf32>
// CHECK-DAG: %[[T:.*]] = plan.temp {{.*}}memref<2x4xf32>
// CHECK: plan.gemm "dot" %{{.*}}, %{{.*}}, %{{.*}} m 64 n 160 k 256 strides [256, 1] x [1, 256] to [160, 1]
// CHECK-SAME: scales(%[[S]], %[[T]] : memref<2x64xf32>, memref<2x4xf32>) by vectors x blocks
// CHECK-NOT: fast_accumulation
// CHECK-SAME: memref<2x32x256xf8E4M3FN>, memref<160x256xf8E4M3FN>, memref<2x32x160xbf16>
func.func @main(%x: tensor<2x32x256xf8E4M3FN>, %s: tensor<2x32x2xf32>, %w: tensor<256x160xf8E4M3FN>, %t: tensor<2x2xf32>) -> tensor<2x32x160xbf16> {
  %wx = scalify.dequantize %x, %s by tensor<2x32x2xf32> {block = array<i64: 1, 1, 128>} : tensor<2x32x256xf8E4M3FN> -> tensor<2x32x256xf32>
  %ww = scalify.dequantize %w, %t by tensor<2x2xf32> {block = array<i64: 128, 128>} : tensor<256x160xf8E4M3FN> -> tensor<256x160xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [2] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<2x32x256xf32>, tensor<256x160xf32>) -> tensor<2x32x160xf32>
  %r = stablehlo.convert %d : (tensor<2x32x160xf32>) -> tensor<2x32x160xbf16>
  return %r : tensor<2x32x160xbf16>
}

// -----

// Scales of rows are read where they lie. A result by heads is a batch, which
// the library does not have here: a kernel transposes it.
// CHECK-LABEL: plan.program @step
// CHECK-DAG: %[[S:.*]] = plan.argument 1 : memref<64x1xf32>
// CHECK-DAG: %[[T:.*]] = plan.argument 3 : memref<32x1xf32>
// CHECK: plan.gemm {{.*}} batch [] [] {{.*}} scales(%[[S]], %[[T]] : memref<64x1xf32>, memref<32x1xf32>) by rows x rows fast_accumulation
// CHECK: plan.kernel "transpose"
func.func @main(%x: tensor<64x32xf8E4M3FN>, %s: tensor<64x1xf32>, %w: tensor<32x32xf8E4M3FN>, %t: tensor<32x1xf32>) -> tensor<2x2x32x16xf32> {
  %wx = scalify.dequantize %x, %s by tensor<64x1xf32> {block = array<i64: 1, 0>} : tensor<64x32xf8E4M3FN> -> tensor<64x32xf32>
  %ww = scalify.dequantize %w, %t by tensor<32x1xf32> {block = array<i64: 1, 0>} : tensor<32x32xf8E4M3FN> -> tensor<32x32xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<forward>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %v = stablehlo.reshape %d : (tensor<64x32xf32>) -> tensor<2x32x2x16xf32>
  %h = stablehlo.transpose %v, dims = [0, 2, 1, 3] : (tensor<2x32x2x16xf32>) -> tensor<2x2x32x16xf32>
  return %h : tensor<2x2x32x16xf32>
}

// -----

// A cast stores the rows of its product filled up, in one kernel. The transposed result of 5 rows would have rows
// of 20 bytes: it is written as it is. A rounding to rows of 24 bytes is a kernel's.
// CHECK-LABEL: plan.program @step
// CHECK: plan.kernel "quantize_pad" reads(%{{.*}} : memref<5x24xf32>, memref<f32>) writes(%[[P:.*]] : memref<5x32xf8E4M3FN>)
// CHECK: plan.gemm "dot" %[[P]], %{{.*}}, %[[C:.*]] m 5 n 12 k 32 strides [32, 1] x [1, 32] to [12, 1] {{.*}} memref<5x12xf32>
// CHECK: plan.kernel "convert_transpose" reads(%[[C]]
func.func @main(%x: tensor<5x24xf32>, %w: tensor<24x12xf32>) -> tensor<12x5xbf16> {
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %q = scalify.quantize %x, %s {cast = "c0"} : tensor<5x24xf32> -> tensor<5x24xf8E4M3FN>
  %v = scalify.quantize %w, %s {cast = "c1"} : tensor<24x12xf32> -> tensor<24x12xf8E4M3FN>
  %wx = scalify.dequantize %q, %s : tensor<5x24xf8E4M3FN> -> tensor<5x24xf32>
  %ww = scalify.dequantize %v, %s : tensor<24x12xf8E4M3FN> -> tensor<24x12xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] : (tensor<5x24xf32>, tensor<24x12xf32>) -> tensor<5x12xf32>
  %r = stablehlo.convert %d : (tensor<5x12xf32>) -> tensor<5x12xbf16>
  %t = stablehlo.transpose %r, dims = [1, 0] : (tensor<5x12xbf16>) -> tensor<12x5xbf16>
  return %t : tensor<12x5xbf16>
}

// -----

// F32 as the program asks for it: TF32 where one precision is HIGH and none is
// HIGHEST, or by an algorithm; F32 by default.
// CHECK-LABEL: plan.program @step
// CHECK: plan.gemm "dot" {{.*}} alpha 1.000000e+00 : memref<4x8xf32>
// CHECK: plan.gemm "dot" {{.*}} alpha 1.000000e+00 tf32 : memref<4x8xf32>
// CHECK: plan.gemm "dot" {{.*}} alpha 1.000000e+00 : memref<4x8xf32>
// CHECK: plan.gemm "dot" {{.*}} alpha 1.000000e+00 tf32 : memref<4x8xf32>
// CHECK: plan.gemm "dot" {{.*}} alpha 1.000000e+00 : memref<4x8xf32>
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) {
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %b = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [DEFAULT, HIGH] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %c = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [HIGHEST, HIGH] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %e = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false> : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return %a, %b, %c, %d, %e : tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>
}

// -----

// What the recipe says of a dot's sum goes before what its phase has.
// CHECK-LABEL: plan.program @step
// CHECK: plan.gemm {{.*}} alpha 5.000000e-01 {plan.phase = "forward"} : memref<16x32xf8E4M3FN>
// CHECK: plan.gemm {{.*}} alpha 2.500000e-01 fast_accumulation {plan.phase = "backward"} : memref<16x32xf8E4M3FN>
func.func @main(%x: tensor<16x32xf8E4M3FN>, %w: tensor<48x32xf8E4M3FN>) -> (tensor<16x48xf32>, tensor<16x48xf32>) {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %t = stablehlo.constant dense<1.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<16x32xf8E4M3FN> -> tensor<16x32xf32>
  %ww = scalify.dequantize %w, %t : tensor<48x32xf8E4M3FN> -> tensor<48x32xf32>
  %wv = scalify.dequantize %w, %s : tensor<48x32xf8E4M3FN> -> tensor<48x32xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<forward>, scalify.accumulation = #scalify.accumulation<precise>} : (tensor<16x32xf32>, tensor<48x32xf32>) -> tensor<16x48xf32>
  %e = stablehlo.dot_general %wx, %wv, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>, scalify.accumulation = #scalify.accumulation<fast>} : (tensor<16x32xf32>, tensor<48x32xf32>) -> tensor<16x48xf32>
  return %d, %e : tensor<16x48xf32>, tensor<16x48xf32>
}
