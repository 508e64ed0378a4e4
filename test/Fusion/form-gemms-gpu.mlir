// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-prepare-plan{machine=gpu},scalify-narrow-dots,scalify-form-gemms{machine=gpu}),scalify-form-plan,scalify-assign-buffers)' -split-input-file | FileCheck %s

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
  %d = stablehlo.dot_general %wx, %ww, contracting_dims = [1] x [0] {scalify.phase = "forward"} : (tensor<16x32xf32>, tensor<32x48xf32>) -> tensor<16x48xf32>
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
