// RUN: scalify-opt %s --pass-pipeline='builtin.module(scalify-set-target,func.func(scalify-narrow-dots))' -split-input-file -verify-diagnostics | FileCheck %s

// x lies as the product wants it, w is stored once more; the scales are one
// factor behind the dot.
// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<16x32xf8E4M3FN>, %w: tensor<32x48xf8E4M3FN>) -> tensor<16x48xf32> {
  // CHECK: %[[W:.*]] = stablehlo.transpose %arg1, dims = [1, 0] {plan.materialise} : (tensor<32x48xf8E4M3FN>) -> tensor<48x32xf8E4M3FN>
  // CHECK: %[[X:.*]] = stablehlo.transpose %arg0, dims = [0, 1] :
  // CHECK: %[[D:.*]] = stablehlo.dot_general %[[X]], %[[W]], contracting_dims = [1] x [1]
  // CHECK-SAME: (tensor<16x32xf8E4M3FN>, tensor<48x32xf8E4M3FN>) -> tensor<16x48xf32>
  // CHECK: %[[F:.*]] = stablehlo.constant dense<2.500000e-01>
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %[[F]], dims = []
  // CHECK: stablehlo.multiply %[[D]], %[[B]]
  // CHECK-NOT: dequantize
  %s = stablehlo.constant dense<0.125> : tensor<f32>
  %t = stablehlo.constant dense<2.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<16x32xf8E4M3FN> -> tensor<16x32xf32>
  %ww = scalify.dequantize %w, %t : tensor<32x48xf8E4M3FN> -> tensor<32x48xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x48xf32>) -> tensor<16x48xf32>
  return %d : tensor<16x48xf32>
}

// -----

// Two gradients of weights that share an operand share its transposed copy.
// CHECK-LABEL: func.func @shared_copy
func.func @shared_copy(%x: tensor<32x16xf8E4M3FN>, %g: tensor<32x48xf8E5M2>, %h: tensor<32x16xf8E5M2>) -> (tensor<16x48xf32>, tensor<16x16xf32>) {
  // CHECK-COUNT-3: plan.materialise
  // CHECK-NOT: plan.materialise
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<32x16xf8E4M3FN> -> tensor<32x16xf32>
  %wg = scalify.dequantize %g, %s : tensor<32x48xf8E5M2> -> tensor<32x48xf32>
  %wh = scalify.dequantize %h, %s : tensor<32x16xf8E5M2> -> tensor<32x16xf32>
  %d = stablehlo.dot_general %wx, %wg, contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x48xf32>) -> tensor<16x48xf32>
  %e = stablehlo.dot_general %wx, %wh, contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  return %d, %e : tensor<16x48xf32>, tensor<16x16xf32>
}

// -----

// A scale that is no constant is read from memory, and so is its partner.
// CHECK-LABEL: func.func @measured
func.func @measured(%x: tensor<16x32xf8E4M3FN>, %s: tensor<f32>, %w: tensor<48x32xf8E4M3FN>) -> tensor<16x48xf32> {
  // CHECK: %[[C:.*]] = stablehlo.constant {scalify.in_memory} dense<4.000000e+00>
  // CHECK: %[[D:.*]] = stablehlo.dot_general
  // CHECK: %[[A:.*]] = stablehlo.broadcast_in_dim %arg1, dims = []
  // CHECK: %[[P:.*]] = stablehlo.multiply %[[D]], %[[A]] {plan.operand_scale}
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %[[C]], dims = []
  // CHECK: stablehlo.multiply %[[P]], %[[B]] {plan.operand_scale}
  %t = stablehlo.constant dense<4.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<16x32xf8E4M3FN> -> tensor<16x32xf32>
  %ww = scalify.dequantize %w, %t : tensor<48x32xf8E4M3FN> -> tensor<48x32xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [1] : (tensor<16x32xf32>, tensor<48x32xf32>) -> tensor<16x48xf32>
  return %d : tensor<16x48xf32>
}

// -----

// The library has no such FP8 product of arguments; BF16 holds them exactly.
// CHECK-LABEL: func.func @odd_sum
func.func @odd_sum(%x: tensor<16x24xf8E4M3FN>, %w: tensor<24x48xf8E4M3FN>) -> tensor<16x48xf32> {
  // CHECK: stablehlo.convert %arg0 : (tensor<16x24xf8E4M3FN>) -> tensor<16x24xbf16>
  // CHECK: stablehlo.dot_general {{.*}} : (tensor<16x24xbf16>, tensor<24x48xbf16>) -> tensor<16x48xf32>
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<16x24xf8E4M3FN> -> tensor<16x24xf32>
  %ww = scalify.dequantize %w, %s : tensor<24x48xf8E4M3FN> -> tensor<24x48xf32>
  // expected-remark @+1 {{runs as BF16, which holds its FP8 operands exactly: K = 24 is no multiple of 16, and an operand is an argument}}
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] : (tensor<16x24xf32>, tensor<24x48xf32>) -> tensor<16x48xf32>
  return %d : tensor<16x48xf32>
}

// -----

// CHECK-LABEL: func.func @two_gradients
func.func @two_gradients(%x: tensor<16x32xf8E5M2>, %w: tensor<48x32xf8E5M2>) -> tensor<16x48xf32> {
  // CHECK: (tensor<16x32xbf16>, tensor<48x32xbf16>) -> tensor<16x48xf32>
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<16x32xf8E5M2> -> tensor<16x32xf32>
  %ww = scalify.dequantize %w, %s : tensor<48x32xf8E5M2> -> tensor<48x32xf32>
  // expected-remark @+1 {{no product of two E5M2 operands}}
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [1] : (tensor<16x32xf32>, tensor<48x32xf32>) -> tensor<16x48xf32>
  return %d : tensor<16x48xf32>
}

// -----

// BF16 needs no layout; one that is wide makes both wide.
// CHECK-LABEL: func.func @sixteen_bits
func.func @sixteen_bits(%x: tensor<3x5xbf16>, %w: tensor<5x7xbf16>, %v: tensor<5x7xf32>) -> (tensor<3x7xf32>, tensor<3x7xf32>) {
  // CHECK: stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<3x5xbf16>, tensor<5x7xbf16>) -> tensor<3x7xf32>
  // CHECK: stablehlo.dot_general %{{.*}}, %arg2, contracting_dims = [1] x [0] : (tensor<3x5xf32>, tensor<5x7xf32>) -> tensor<3x7xf32>
  %wx = stablehlo.convert %x : (tensor<3x5xbf16>) -> tensor<3x5xf32>
  %ww = stablehlo.convert %w : (tensor<5x7xbf16>) -> tensor<5x7xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] : (tensor<3x5xf32>, tensor<5x7xf32>) -> tensor<3x7xf32>
  %e = stablehlo.dot_general %wx, %v, contracting_dims = [1] x [0] : (tensor<3x5xf32>, tensor<5x7xf32>) -> tensor<3x7xf32>
  return %d, %e : tensor<3x7xf32>, tensor<3x7xf32>
}

// -----

// In a program of BF16 the result is rounded once, from the F32 sums.
// CHECK-LABEL: func.func @bf16_program
func.func @bf16_program(%x: tensor<16x32xf8E4M3FN>, %w: tensor<48x32xf8E4M3FN>) -> tensor<16x48xbf16> {
  // CHECK: %[[D:.*]] = stablehlo.dot_general {{.*}} : (tensor<16x32xf8E4M3FN>, tensor<48x32xf8E4M3FN>) -> tensor<16x48xf32>
  // CHECK: stablehlo.multiply %[[D]]
  // CHECK: stablehlo.convert {{.*}} : (tensor<16x48xf32>) -> tensor<16x48xbf16>
  %s = stablehlo.constant dense<0.125> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<16x32xf8E4M3FN> -> tensor<16x32xbf16>
  %ww = scalify.dequantize %w, %s : tensor<48x32xf8E4M3FN> -> tensor<48x32xbf16>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [1] : (tensor<16x32xbf16>, tensor<48x32xbf16>) -> tensor<16x48xbf16>
  return %d : tensor<16x48xbf16>
}

// -----

// A sum of 24 has 8 zeros behind it in what the cast stores, and another
// reader of the data reads that tensor; the rows of the result are 5, since
// any number is the library's.
// CHECK-LABEL: func.func @filled
// CHECK: %[[Q:.*]] = scalify.quantize %arg0
// CHECK: %[[R:.*]] = stablehlo.reshape %[[Q]]
// CHECK: %[[P:.*]] = stablehlo.pad %[[R]], %{{.*}}, low = [0, 0], high = [0, 8], interior = [0, 0] {plan.materialise} : {{.*}} -> tensor<5x32xf8E4M3FN>
// CHECK: %[[S:.*]] = stablehlo.slice %[[P]] [0:5, 0:24]
// CHECK: %[[D:.*]] = stablehlo.reshape %[[S]]
// CHECK: %[[V:.*]] = scalify.quantize %arg1
// CHECK: %[[VT:.*]] = stablehlo.transpose %[[V]], dims = [1, 0]
// CHECK: %[[VR:.*]] = stablehlo.reshape %[[VT]]
// CHECK: %[[W:.*]] = stablehlo.pad %[[VR]], {{.*}} high = [0, 8], {{.*}} {plan.materialise} : {{.*}} -> tensor<12x32xf8E4M3FN>
// CHECK: scalify.dequantize %[[D]]
// CHECK: stablehlo.dot_general %[[P]], %[[W]], contracting_dims = [1] x [1] : (tensor<5x32xf8E4M3FN>, tensor<12x32xf8E4M3FN>) -> tensor<5x12xf32>
func.func @filled(%x: tensor<5x24xf32>, %w: tensor<24x12xf32>) -> (tensor<5x12xf32>, tensor<5x24xf32>) {
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %q = scalify.quantize %x, %s {cast = "c0"} : tensor<5x24xf32> -> tensor<5x24xf8E4M3FN>
  %v = scalify.quantize %w, %s {cast = "c1"} : tensor<24x12xf32> -> tensor<24x12xf8E4M3FN>
  %wx = scalify.dequantize %q, %s : tensor<5x24xf8E4M3FN> -> tensor<5x24xf32>
  %ww = scalify.dequantize %v, %s : tensor<24x12xf8E4M3FN> -> tensor<24x12xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] : (tensor<5x24xf32>, tensor<24x12xf32>) -> tensor<5x12xf32>
  %e = stablehlo.exponential %wx : tensor<5x24xf32>
  return %d, %e : tensor<5x12xf32>, tensor<5x24xf32>
}

// -----

// Rows of a result of 16 bytes no padding of an operand makes.
// CHECK-LABEL: func.func @odd_rows
// CHECK: (tensor<16x32xbf16>, tensor<32x7xbf16>) -> tensor<16x7xf32>
func.func @odd_rows(%x: tensor<16x32xf8E4M3FN>, %w: tensor<32x7xf8E4M3FN>) -> tensor<16x7xf32> {
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %wx = scalify.dequantize %x, %s : tensor<16x32xf8E4M3FN> -> tensor<16x32xf32>
  %ww = scalify.dequantize %w, %s : tensor<32x7xf8E4M3FN> -> tensor<32x7xf32>
  // expected-remark @+1 {{N = 7 is no multiple of 4}}
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x7xf32>) -> tensor<16x7xf32>
  return %d : tensor<16x7xf32>
}

// -----

// Filled up over one dimension and over two, data are two tensors; the first
// is what others read.
// CHECK-LABEL: func.func @two_sums
// CHECK: %[[A:.*]] = stablehlo.pad %{{.*}} -> tensor<4x6x32xf8E4M3FN>
// CHECK: stablehlo.slice %[[A]]
// CHECK: %[[B:.*]] = stablehlo.pad %{{.*}} -> tensor<4x128xf8E4M3FN>
// CHECK: stablehlo.dot_general %[[A]], %{{.*}}, contracting_dims = [2] x [1]
// CHECK: stablehlo.dot_general %[[B]], %{{.*}}, contracting_dims = [1] x [1]
func.func @two_sums(%x: tensor<4x6x20xf32>, %w: tensor<20x8xf32>, %v: tensor<6x20x8xf32>) -> (tensor<4x6x8xf32>, tensor<4x8xf32>) {
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %q = scalify.quantize %x, %s {cast = "c0"} : tensor<4x6x20xf32> -> tensor<4x6x20xf8E4M3FN>
  %qw = scalify.quantize %w, %s {cast = "c1"} : tensor<20x8xf32> -> tensor<20x8xf8E4M3FN>
  %qv = scalify.quantize %v, %s {cast = "c2"} : tensor<6x20x8xf32> -> tensor<6x20x8xf8E4M3FN>
  %wx = scalify.dequantize %q, %s : tensor<4x6x20xf8E4M3FN> -> tensor<4x6x20xf32>
  %ww = scalify.dequantize %qw, %s : tensor<20x8xf8E4M3FN> -> tensor<20x8xf32>
  %wv = scalify.dequantize %qv, %s : tensor<6x20x8xf8E4M3FN> -> tensor<6x20x8xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [2] x [0] : (tensor<4x6x20xf32>, tensor<20x8xf32>) -> tensor<4x6x8xf32>
  %e = stablehlo.dot_general %wx, %wv, contracting_dims = [1, 2] x [0, 1] : (tensor<4x6x20xf32>, tensor<6x20x8xf32>) -> tensor<4x8xf32>
  return %d, %e : tensor<4x6x8xf32>, tensor<4x8xf32>
}

// A single row lies as it is wanted, and is filled up all the same, as the
// other operand is.
// CHECK-LABEL: func.func @filled_row
// CHECK-COUNT-2: stablehlo.pad
// CHECK: stablehlo.dot_general {{.*}} : (tensor<1x32xf8E4M3FN>, tensor<48x32xf8E4M3FN>) -> tensor<1x48xf32>
func.func @filled_row(%x: tensor<1x24xf32>, %w: tensor<48x24xf32>) -> tensor<1x48xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %xq = scalify.quantize %x, %one : tensor<1x24xf32> -> tensor<1x24xf8E4M3FN>
  %wq = scalify.quantize %w, %one : tensor<48x24xf32> -> tensor<48x24xf8E4M3FN>
  %xd = scalify.dequantize %xq, %one : tensor<1x24xf8E4M3FN> -> tensor<1x24xf32>
  %wd = scalify.dequantize %wq, %one : tensor<48x24xf8E4M3FN> -> tensor<48x24xf32>
  %y = stablehlo.dot_general %xd, %wd, contracting_dims = [1] x [1] : (tensor<1x24xf32>, tensor<48x24xf32>) -> tensor<1x48xf32>
  return %y : tensor<1x48xf32>
}

// -----

// Gradients of a layer of one output: rows of one element are padded for the
// product that sums over them, and stay a column for the one that sums over it.
// CHECK-LABEL: func.func @one_output
func.func @one_output(%d: tensor<256x1xf32>, %h: tensor<256x128xf32>, %w: tensor<128x1xf32>, %s: tensor<f32>) -> (tensor<1x128xf32>, tensor<256x128xf32>) {
  // CHECK: %[[D:.*]] = scalify.quantize %arg0, {{.*}}-> tensor<256x1xf8E5M2>
  %dq = scalify.quantize %d, %s {cast = "c0"} : tensor<256x1xf32> -> tensor<256x1xf8E5M2>
  %hq = scalify.quantize %h, %s {cast = "c1"} : tensor<256x128xf32> -> tensor<256x128xf8E4M3FN>
  %wq = scalify.quantize %w, %s {cast = "c2"} : tensor<128x1xf32> -> tensor<128x1xf8E4M3FN>
  %0 = scalify.dequantize %dq, %s : tensor<256x1xf8E5M2> -> tensor<256x1xf32>
  %1 = scalify.dequantize %hq, %s : tensor<256x128xf8E4M3FN> -> tensor<256x128xf32>
  %2 = scalify.dequantize %wq, %s : tensor<128x1xf8E4M3FN> -> tensor<128x1xf32>
  // CHECK: %[[T:.*]] = stablehlo.transpose %[[D]], dims = [1, 0] : (tensor<256x1xf8E5M2>) -> tensor<1x256xf8E5M2>
  // CHECK: stablehlo.dot_general %[[T]], {{.*}} -> tensor<1x128xf32>
  %3 = stablehlo.dot_general %0, %1, contracting_dims = [0] x [0] : (tensor<256x1xf32>, tensor<256x128xf32>) -> tensor<1x128xf32>
  // CHECK: stablehlo.dot_general {{.*}} : (tensor<256x16xf8E5M2>, tensor<128x16xf8E4M3FN>) -> tensor<256x128xf32>
  %4 = stablehlo.dot_general %0, %2, contracting_dims = [1] x [1] : (tensor<256x1xf32>, tensor<128x1xf32>) -> tensor<256x128xf32>
  return %3, %4 : tensor<1x128xf32>, tensor<256x128xf32>
}
