// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-narrow-dots))' -split-input-file -verify-diagnostics | FileCheck %s

// A CPU multiplies FP8 data as BF16, which holds them exactly, in their own
// layout. The scales are one factor behind the dot.
// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<16x24xf8E4M3FN>, %w: tensor<24x7xf8E5M2>) -> tensor<16x7xf32> {
  // CHECK-DAG: %[[X:.*]] = stablehlo.convert %arg0 : (tensor<16x24xf8E4M3FN>) -> tensor<16x24xbf16>
  // CHECK-DAG: %[[W:.*]] = stablehlo.convert %arg1 : (tensor<24x7xf8E5M2>) -> tensor<24x7xbf16>
  // CHECK: %[[D:.*]] = stablehlo.dot_general %[[X]], %[[W]], contracting_dims = [1] x [0] : (tensor<16x24xbf16>, tensor<24x7xbf16>) -> tensor<16x7xf32>
  // CHECK: %[[F:.*]] = stablehlo.constant dense<2.500000e-01>
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %[[F]], dims = []
  // CHECK: stablehlo.multiply %[[D]], %[[B]]
  // CHECK-NOT: dequantize
  %s = stablehlo.constant dense<0.125> : tensor<f32>
  %t = stablehlo.constant dense<2.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<16x24xf8E4M3FN> -> tensor<16x24xf32>
  %ww = scalify.dequantize %w, %t : tensor<24x7xf8E5M2> -> tensor<24x7xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] : (tensor<16x24xf32>, tensor<24x7xf32>) -> tensor<16x7xf32>
  return %d : tensor<16x7xf32>
}

// -----

// Dots of the same data share their BF16 form.
// CHECK-LABEL: func.func @shared
func.func @shared(%x: tensor<16x32xf8E4M3FN>, %w: tensor<32x16xbf16>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
  // CHECK: %[[X:.*]] = stablehlo.convert %arg0
  // CHECK-NOT: stablehlo.convert
  // CHECK: stablehlo.dot_general %[[X]], %arg1
  // CHECK: %[[T:.*]] = stablehlo.transpose %[[X]], dims = [1, 0] : (tensor<16x32xbf16>) -> tensor<32x16xbf16>
  // CHECK: stablehlo.dot_general %[[X]], %[[T]]
  // CHECK-NOT: dequantize
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<16x32xf8E4M3FN> -> tensor<16x32xf32>
  %ww = stablehlo.convert %w : (tensor<32x16xbf16>) -> tensor<32x16xf32>
  %t = stablehlo.transpose %wx, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  %e = stablehlo.dot_general %wx, %t, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  return %d, %e : tensor<16x16xf32>, tensor<16x16xf32>
}

// -----

// A use in another phase, 9 ops later, has a BF16 form of its own: only the FP8
// data live from the forward to the backward.
// CHECK-LABEL: func.func @saved
func.func @saved(%x: tensor<8x8xf8E4M3FN>, %g: tensor<8x8xbf16>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK: stablehlo.convert %arg0 : (tensor<8x8xf8E4M3FN>) -> tensor<8x8xbf16>
  // CHECK: stablehlo.dot_general
  // CHECK: %[[X:.*]] = stablehlo.convert %arg0 {scalify.phase = #scalify.phase<backward>} : (tensor<8x8xf8E4M3FN>) -> tensor<8x8xbf16>
  // CHECK: stablehlo.dot_general %[[X]], %arg1
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<8x8xf8E4M3FN> -> tensor<8x8xf32>
  %d = stablehlo.dot_general %wx, %wx, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.tanh %d : tensor<8x8xf32>
  %2 = stablehlo.tanh %1 : tensor<8x8xf32>
  %3 = stablehlo.tanh %2 : tensor<8x8xf32>
  %4 = stablehlo.tanh %3 : tensor<8x8xf32>
  %5 = stablehlo.tanh %4 : tensor<8x8xf32>
  %6 = stablehlo.tanh %5 : tensor<8x8xf32>
  %7 = stablehlo.tanh %6 : tensor<8x8xf32>
  %8 = stablehlo.tanh %7 : tensor<8x8xf32>
  %wg = stablehlo.convert %g : (tensor<8x8xbf16>) -> tensor<8x8xf32>
  %e = stablehlo.dot_general %wx, %wg, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %8, %e : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Data of many scales are multiplied by them in F32, and rounded: exact, as
// block scales are powers of two.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<4x256xf8E4M3FN>, %sx: tensor<4x2xf32>, %w: tensor<256x8xf8E4M3FN>) -> tensor<4x8xf32> {
  // CHECK-DAG: %[[WX:.*]] = scalify.dequantize %arg0
  // CHECK-DAG: %[[X:.*]] = stablehlo.convert %[[WX]] : (tensor<4x256xf32>) -> tensor<4x256xbf16>
  // CHECK-DAG: %[[W:.*]] = stablehlo.convert %arg2
  // CHECK: stablehlo.dot_general %[[X]], %[[W]], contracting_dims = [1] x [0] : (tensor<4x256xbf16>, tensor<256x8xbf16>)
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %wx = scalify.dequantize %x, %sx by tensor<4x2xf32> {block = array<i64: 1, 128>} : tensor<4x256xf8E4M3FN> -> tensor<4x256xf32>
  %ww = scalify.dequantize %w, %s : tensor<256x8xf8E4M3FN> -> tensor<256x8xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] : (tensor<4x256xf32>, tensor<256x8xf32>) -> tensor<4x8xf32>
  return %d : tensor<4x8xf32>
}

// -----

// F16 is no format of its products: these stay wide.
// CHECK-LABEL: func.func @f16
func.func @f16(%x: tensor<4x8xf16>, %w: tensor<8x4xf8E4M3FN>) -> tensor<4x4xf32> {
  // CHECK: stablehlo.dot_general {{.*}} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %wx = stablehlo.convert %x : (tensor<4x8xf16>) -> tensor<4x8xf32>
  %ww = scalify.dequantize %w, %s : tensor<8x4xf8E4M3FN> -> tensor<8x4xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %d : tensor<4x4xf32>
}

// -----

// The scales of a guess that went wrong: sums of the data may be zero or
// infinite where those of the values are not.
// CHECK-LABEL: func.func @far
func.func @far(%x: tensor<4x8xbf16>, %w: tensor<8x4xbf16>) -> tensor<4x4xf32> {
  // CHECK: stablehlo.dot_general {{.*}} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %s = stablehlo.constant dense<0x7A800000> : tensor<f32>
  %t = stablehlo.constant dense<8.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<4x8xbf16> -> tensor<4x8xf32>
  %ww = scalify.dequantize %w, %t : tensor<8x4xbf16> -> tensor<8x4xf32>
  // expected-remark @+1 {{stays wide, since the factor of its scales is beyond 2^64}}
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %d : tensor<4x4xf32>
}

// -----

// Scales in memory multiply behind the transpose, so that the GEMM writes in
// the layout that the readers want.
// CHECK-LABEL: func.func @turned
func.func @turned(%x: tensor<16x8xf8E4M3FN>, %g: tensor<16x4xf8E5M2>, %s: tensor<f32>, %t: tensor<f32>) -> tensor<8x4xf32> {
  // CHECK: %[[D:.*]] = stablehlo.dot_general {{.*}} : (tensor<16x4xbf16>, tensor<16x8xbf16>) -> tensor<4x8xf32>
  // CHECK: %[[T:.*]] = stablehlo.transpose %[[D]], dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // CHECK: %[[S:.*]] = stablehlo.broadcast_in_dim %arg3, dims = []
  // CHECK: %[[P:.*]] = stablehlo.multiply %[[T]], %[[S]] : tensor<8x4xf32>
  // CHECK: %[[R:.*]] = stablehlo.broadcast_in_dim %arg2, dims = []
  // CHECK: %[[Q:.*]] = stablehlo.multiply %[[P]], %[[R]] : tensor<8x4xf32>
  // CHECK: stablehlo.add %[[Q]], %[[Q]]
  %wx = scalify.dequantize %x, %s : tensor<16x8xf8E4M3FN> -> tensor<16x8xf32>
  %wg = scalify.dequantize %g, %t : tensor<16x4xf8E5M2> -> tensor<16x4xf32>
  %d = stablehlo.dot_general %wg, %wx, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %u = stablehlo.transpose %d, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %v = stablehlo.add %u, %u : tensor<8x4xf32>
  return %v : tensor<8x4xf32>
}

// -----

// The windows of a convolution are taken of the narrow data, padded with zeros
// of their format.
// CHECK-LABEL: func.func @windows
func.func @windows(%x: tensor<2x5x3xf8E4M3FN>, %k: tensor<3x3x4xbf16>) -> tensor<2x5x4xf32> {
  // CHECK: %[[X:.*]] = stablehlo.convert %arg0 : (tensor<2x5x3xf8E4M3FN>) -> tensor<2x5x3xbf16>
  // CHECK: %[[Z:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
  // CHECK: %[[P:.*]] = stablehlo.pad %[[X]], %[[Z]]
  // CHECK: %[[W:.*]] = plan.windows %[[P]] {{.*}} -> tensor<2x5x3x3xbf16>
  // CHECK: stablehlo.dot_general %[[W]], %arg1{{.*}} -> tensor<2x5x4xf32>
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<2x5x3xf8E4M3FN> -> tensor<2x5x3xf32>
  %wk = stablehlo.convert %k : (tensor<3x3x4xbf16>) -> tensor<3x3x4xf32>
  %p = stablehlo.pad %wx, %z, low = [0, 1, 0], high = [0, 1, 0], interior = [0, 0, 0] : (tensor<2x5x3xf32>, tensor<f32>) -> tensor<2x7x3xf32>
  %w = plan.windows %p dims [1] sizes [3] strides [1] dilations [1] : tensor<2x7x3xf32> -> tensor<2x5x3x3xf32>
  %d = stablehlo.dot_general %w, %wk, contracting_dims = [2, 3] x [0, 1] : (tensor<2x5x3x3xf32>, tensor<3x3x4xf32>) -> tensor<2x5x4xf32>
  return %d : tensor<2x5x4xf32>
}
