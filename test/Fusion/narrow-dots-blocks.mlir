// RUN: scalify-opt %s --pass-pipeline='builtin.module(scalify-set-target,func.func(scalify-narrow-dots))' -split-input-file -verify-diagnostics | FileCheck %s

// The forward of a linear layer: x by 1 x 128, w by 128 x 128. Data lie along
// the sum; scales of x by columns of 128 elements, those of w in rows that are
// filled up to 4.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%[[X:.*]]: tensor<2x32x256xf8E4M3FN>, %[[S:.*]]: tensor<2x32x2xf32>, %[[W:.*]]: tensor<256x160xf8E4M3FN>, %[[T:.*]]: tensor<2x2xf32>)
// CHECK-DAG: %[[WT:.*]] = stablehlo.transpose %[[W]], dims = [1, 0] {plan.materialise}
// CHECK-DAG: %[[S2:.*]] = stablehlo.transpose %{{.*}}, dims = [1, 0] {plan.materialise} : (tensor<64x2xf32>) -> tensor<2x64xf32>
// CHECK-DAG: %[[SV:.*]] = stablehlo.transpose %[[S2]], dims = [1, 0] : (tensor<2x64xf32>) -> tensor<64x2xf32>
// CHECK-DAG: %[[T2:.*]] = stablehlo.transpose %[[T]], dims = [1, 0]
// CHECK-DAG: %[[TP:.*]] = stablehlo.pad %[[T2]], %{{.*}}, low = [0, 0], high = [0, 2], interior = [0, 0] {plan.materialise} {{.*}}-> tensor<2x4xf32>
// CHECK-DAG: %[[TV:.*]] = stablehlo.slice %[[TP]] [0:2, 0:2]
// CHECK: scalify.dequantize %{{.*}}, %[[SV]] by tensor<64x2xf32> {block = array<i64: 1, 128>, plan.scaling = "vectors"} : tensor<64x256xf8E4M3FN> -> tensor<64x256xf32>
// CHECK: scalify.dequantize %{{.*}}, %[[TV]] by tensor<2x2xf32> {block = array<i64: 128, 128>, plan.scaling = "blocks"} : tensor<160x256xf8E4M3FN> -> tensor<160x256xf32>
// CHECK: stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [2] x [1] {{.*}}-> tensor<2x32x160xf32>
func.func @forward(%x: tensor<2x32x256xf8E4M3FN>, %s: tensor<2x32x2xf32>, %w: tensor<256x160xf8E4M3FN>, %t: tensor<2x2xf32>) -> tensor<2x32x160xf32> {
  %wx = scalify.dequantize %x, %s by tensor<2x32x2xf32> {block = array<i64: 1, 1, 128>} : tensor<2x32x256xf8E4M3FN> -> tensor<2x32x256xf32>
  %ww = scalify.dequantize %w, %t by tensor<2x2xf32> {block = array<i64: 128, 128>} : tensor<256x160xf8E4M3FN> -> tensor<256x160xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [2] x [0] : (tensor<2x32x256xf32>, tensor<256x160xf32>) -> tensor<2x32x160xf32>
  return %d : tensor<2x32x160xf32>
}

// -----

// The gradient of a weight sums over tokens, in blocks of their own: the data
// are transposed, and their scales lie as the library wants them.
// CHECK-LABEL: func.func @weight_grad
// CHECK-COUNT-2: stablehlo.transpose {{.*}} {plan.materialise} : (tensor<256x{{[0-9]+}}xf8E4M3FN>)
// CHECK-NOT: plan.materialise
// CHECK: scalify.dequantize {{.*}} by tensor<32x2xf32> {block = array<i64: 1, 128>, plan.scaling = "vectors"}
// CHECK: scalify.dequantize {{.*}} by tensor<48x2xf32> {block = array<i64: 1, 128>, plan.scaling = "vectors"}
func.func @weight_grad(%x: tensor<256x32xf8E4M3FN>, %s: tensor<2x32xf32>, %g: tensor<256x48xf8E4M3FN>, %t: tensor<2x48xf32>) -> tensor<32x48xf32> {
  %wx = scalify.dequantize %x, %s by tensor<2x32xf32> {block = array<i64: 128, 1>} : tensor<256x32xf8E4M3FN> -> tensor<256x32xf32>
  %wg = scalify.dequantize %g, %t by tensor<2x48xf32> {block = array<i64: 128, 1>} : tensor<256x48xf8E4M3FN> -> tensor<256x48xf32>
  %d = stablehlo.dot_general %wx, %wg, contracting_dims = [0] x [0] : (tensor<256x32xf32>, tensor<256x48xf32>) -> tensor<32x48xf32>
  return %d : tensor<32x48xf32>
}

// -----

// One scale a row; of a weight with one scale each row has that one.
// CHECK-LABEL: func.func @rows
// CHECK: stablehlo.broadcast_in_dim %{{.*}}, dims = [0, 2] {{.*}}-> tensor<1x48x1xf32>
// CHECK: scalify.dequantize {{.*}} by tensor<16x1xf32> {block = array<i64: 1, 0>, plan.scaling = "rows"} : tensor<16x32xf8E4M3FN>
// CHECK: scalify.dequantize {{.*}} by tensor<48x1xf32> {block = array<i64: 1, 0>, plan.scaling = "rows"} : tensor<48x32xf8E5M2>
func.func @rows(%x: tensor<16x32xf8E4M3FN>, %s: tensor<16x1xf32>, %w: tensor<48x32xf8E5M2>, %t: tensor<f32>) -> tensor<16x48xf32> {
  %wx = scalify.dequantize %x, %s by tensor<16x1xf32> {block = array<i64: 1, 0>} : tensor<16x32xf8E4M3FN> -> tensor<16x32xf32>
  %ww = scalify.dequantize %w, %t : tensor<48x32xf8E5M2> -> tensor<48x32xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [1] : (tensor<16x32xf32>, tensor<48x32xf32>) -> tensor<16x48xf32>
  return %d : tensor<16x48xf32>
}

// -----

// Two of 128 x 128 the library does not multiply: one is written row by row.
// CHECK-LABEL: func.func @two_squares
// CHECK-DAG: by tensor<256x2xf32> {block = array<i64: 1, 128>, plan.scaling = "vectors"}
// CHECK-DAG: by tensor<4x2xf32> {block = array<i64: 128, 128>, plan.scaling = "blocks"}
func.func @two_squares(%x: tensor<256x256xf8E4M3FN>, %s: tensor<2x2xf32>, %w: tensor<512x256xf8E4M3FN>, %t: tensor<4x2xf32>) -> tensor<256x512xf32> {
  %wx = scalify.dequantize %x, %s by tensor<2x2xf32> {block = array<i64: 128, 128>} : tensor<256x256xf8E4M3FN> -> tensor<256x256xf32>
  %ww = scalify.dequantize %w, %t by tensor<4x2xf32> {block = array<i64: 128, 128>} : tensor<512x256xf8E4M3FN> -> tensor<512x256xf32>
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [1] : (tensor<256x256xf32>, tensor<512x256xf32>) -> tensor<256x512xf32>
  return %d : tensor<256x512xf32>
}

// -----

// What each of two sequences of 64 has blocks of is no 128 of the sum.
// CHECK-LABEL: func.func @short_sequences
// CHECK: %[[X:.*]] = stablehlo.convert %{{.*}} : (tensor<2x64x32xf32>) -> tensor<2x64x32xbf16>
// CHECK: stablehlo.dot_general %[[X]], {{.*}} : (tensor<2x64x32xbf16>, tensor<2x64x48xbf16>) -> tensor<32x48xf32>
func.func @short_sequences(%x: tensor<2x64x32xf8E4M3FN>, %s: tensor<2x1x32xf32>, %g: tensor<2x64x48xf8E4M3FN>, %t: tensor<2x1x48xf32>) -> tensor<32x48xf32> {
  %wx = scalify.dequantize %x, %s by tensor<2x1x32xf32> {block = array<i64: 1, 128, 1>} : tensor<2x64x32xf8E4M3FN> -> tensor<2x64x32xf32>
  %wg = scalify.dequantize %g, %t by tensor<2x1x48xf32> {block = array<i64: 1, 128, 1>} : tensor<2x64x48xf8E4M3FN> -> tensor<2x64x48xf32>
  // expected-remark @+1 {{runs as BF16, which holds its FP8 operands exactly: the library has no product with scales of these blocks}}
  %d = stablehlo.dot_general %wx, %wg, contracting_dims = [0, 1] x [0, 1] : (tensor<2x64x32xf32>, tensor<2x64x48xf32>) -> tensor<32x48xf32>
  return %d : tensor<32x48xf32>
}

// -----

// Blocks of 32, as in MX, are Blackwell's.
// CHECK-LABEL: func.func @mx
// CHECK: (tensor<16x64xbf16>, tensor<32x64xbf16>) -> tensor<16x32xf32>
func.func @mx(%x: tensor<16x64xf8E4M3FN>, %s: tensor<16x2xf32>, %w: tensor<32x64xf8E4M3FN>, %t: tensor<32x2xf32>) -> tensor<16x32xf32> {
  %wx = scalify.dequantize %x, %s by tensor<16x2xf32> {block = array<i64: 1, 32>} : tensor<16x64xf8E4M3FN> -> tensor<16x64xf32>
  %ww = scalify.dequantize %w, %t by tensor<32x2xf32> {block = array<i64: 1, 32>} : tensor<32x64xf8E4M3FN> -> tensor<32x64xf32>
  // expected-remark @+1 {{no product with scales of these blocks}}
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [1] : (tensor<16x64xf32>, tensor<32x64xf32>) -> tensor<16x32xf32>
  return %d : tensor<16x32xf32>
}

// -----

// CHECK-LABEL: func.func @batch
// CHECK: (tensor<3x16x32xbf16>, tensor<3x32x32xbf16>) -> tensor<3x16x32xf32>
func.func @batch(%x: tensor<3x16x32xf8E4M3FN>, %s: tensor<3x16x1xf32>, %w: tensor<3x32x32xf8E4M3FN>, %t: tensor<3x32x1xf32>) -> tensor<3x16x32xf32> {
  %wx = scalify.dequantize %x, %s by tensor<3x16x1xf32> {block = array<i64: 1, 1, 0>} : tensor<3x16x32xf8E4M3FN> -> tensor<3x16x32xf32>
  %ww = scalify.dequantize %w, %t by tensor<3x32x1xf32> {block = array<i64: 1, 1, 0>} : tensor<3x32x32xf8E4M3FN> -> tensor<3x32x32xf32>
  // expected-remark @+1 {{the library's products with many scales have no batch}}
  %d = stablehlo.dot_general %wx, %ww, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<3x16x32xf32>, tensor<3x32x32xf32>) -> tensor<3x16x32xf32>
  return %d : tensor<3x16x32xf32>
}

// -----

// CHECK-LABEL: func.func @beside_f16
// CHECK: (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
func.func @beside_f16(%x: tensor<16x32xf8E4M3FN>, %s: tensor<16x1xf32>, %w: tensor<32x32xf16>) -> tensor<16x32xf32> {
  %wx = scalify.dequantize %x, %s by tensor<16x1xf32> {block = array<i64: 1, 0>} : tensor<16x32xf8E4M3FN> -> tensor<16x32xf32>
  %ww = stablehlo.convert %w : (tensor<32x32xf16>) -> tensor<32x32xf32>
  // expected-remark @+1 {{stays wide, since F16 may not hold data times scale: its operands are not both FP8}}
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [1] : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  return %d : tensor<16x32xf32>
}
