// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-form-gemms))' -split-input-file | FileCheck %s

// A transposed operand is read in place, a constant factor becomes alpha.
// CHECK-LABEL: func.func @transposed
func.func @transposed(%x: tensor<2x4xf32>, %w: tensor<8x4xf32>) -> tensor<2x8xf32> {
  // CHECK: %[[D:.*]] = plan.matmul %arg0, %arg1 m 2 n 8 k 4 strides [4, 1] x [1, 4] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 2.500000e-01
  // CHECK: return %[[D]]
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %d = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %c = stablehlo.constant dense<0.25> : tensor<2x8xf32>
  %s = stablehlo.multiply %d, %c : tensor<2x8xf32>
  return %s : tensor<2x8xf32>
}

// -----

// F32 holds the first product of factors, and neither infinities nor the second.
// CHECK-LABEL: func.func @large
func.func @large(%x: tensor<2x4xf32>, %w: tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  // CHECK: plan.matmul {{.*}} alpha 1.26765{{[0-9]*}}E+30
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %c = stablehlo.constant dense<0x71800000> : tensor<2x8xf32>
  %0 = stablehlo.multiply %d, %c : tensor<2x8xf32>
  // CHECK: stablehlo.multiply
  %1 = stablehlo.multiply %0, %c : tensor<2x8xf32>
  %y = stablehlo.negate %x : tensor<2x4xf32>
  %e = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  // CHECK: plan.matmul {{.*}} alpha 1.000000e+00
  %inf = stablehlo.constant dense<0x7F800000> : tensor<2x8xf32>
  // CHECK: stablehlo.multiply
  %2 = stablehlo.multiply %e, %inf : tensor<2x8xf32>
  return %1, %2 : tensor<2x8xf32>, tensor<2x8xf32>
}

// -----

// Attention: heads are a batch dimension with the stride of a head, and the
// transpose behind the dot is where the result is written.
// CHECK-LABEL: func.func @heads
func.func @heads(%p: tensor<2x3x64x64xf32>, %v: tensor<2x64x3x16xf32>) -> tensor<2x64x3x16xf32> {
  // CHECK: %[[D:.*]] = plan.matmul %arg1, %arg0 m 16 n 64 k 64 strides [1, 48] x [1, 64] to [1, 48] offsets [0, 0, 0] batch [2, 3] [3072, 12288, 3072, 16, 4096, 16]
  // CHECK: return %[[D]] : tensor<2x64x3x16xf32>
  %d = stablehlo.dot_general %v, %p, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x64x3x16xf32>, tensor<2x3x64x64xf32>) -> tensor<2x3x16x64xf32>
  %t = stablehlo.transpose %d, dims = [0, 3, 1, 2] : (tensor<2x3x16x64xf32>) -> tensor<2x64x3x16xf32>
  return %t : tensor<2x64x3x16xf32>
}

// -----

// A slice of the operand is an offset.
// CHECK-LABEL: func.func @slice
func.func @slice(%x: tensor<4x24xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
  // CHECK: plan.matmul %arg0, %arg1 m 4 n 2 k 8 strides [24, 1] x [2, 1] to [2, 1] offsets [8, 0, 0]
  %s = stablehlo.slice %x [0:4, 8:16] : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %d = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %d : tensor<4x2xf32>
}

// -----

// Sums over two dimensions that are not neighbours in memory need a copy.
// CHECK-LABEL: func.func @copied
func.func @copied(%x: tensor<4x3x5xf32>, %w: tensor<6x5x4xf32>) -> tensor<3x6xf32> {
  // CHECK: stablehlo.transpose {{.*}}plan.materialise
  // CHECK: plan.matmul
  %d = stablehlo.dot_general %x, %w, contracting_dims = [0, 2] x [2, 1] : (tensor<4x3x5xf32>, tensor<6x5x4xf32>) -> tensor<3x6xf32>
  return %d : tensor<3x6xf32>
}
