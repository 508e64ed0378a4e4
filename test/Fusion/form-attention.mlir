// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-form-attention))' -split-input-file -verify-diagnostics | FileCheck %s

// What scalify.nn.attention and its gradient decompose to, grouped heads and a
// causal mask: the weights are made once, as the folds of Import leave them.
// CHECK-LABEL: func.func @composite
// CHECK-NEXT: %[[F:.*]]:2 = plan.attend %arg0, %arg1, %arg2 sizes [2, 4, 2, 16, 16, 8] windows [0, 512, 8, 32, 0, 256, 8, 16, 0, 256, 8, 16, 0, 512, 8, 32] scale 0.35355338454246521 causal :
// CHECK-SAME: -> (tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>)
// CHECK: plan.attend %arg0, %arg1, %arg2, %[[F]]#0, %arg3, %[[F]]#1 sizes [2, 4, 2, 16, 16, 8]
// CHECK-SAME: windows [0, 512, 8, 32, 0, 256, 8, 16, 0, 256, 8, 16, 0, 512, 8, 32, 0, 512, 8, 32, 0, 512, 8, 32, 0, 256, 8, 16, 0, 256, 8, 16] scale 0.35355338454246521 causal gradient
// CHECK-NOT: dot_general
// CHECK-NOT: exponential
// Pairs of transposes are none.
// CHECK-NOT: stablehlo.transpose
// CHECK: return
func.func @composite(%arg0: tensor<2x16x4x8xbf16>, %arg1: tensor<2x16x2x8xbf16>, %arg2: tensor<2x16x2x8xbf16>, %arg3: tensor<2x16x4x8xbf16>) -> (tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x2x8xbf16>, tensor<2x16x2x8xbf16>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<2x2x2x16x16xf32>
  %cst_0 = stablehlo.constant dense<0.353553385> : tensor<2x2x2x16x16xf32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reshape %arg0 : (tensor<2x16x4x8xbf16>) -> tensor<2x16x2x2x8xbf16>
  %1 = stablehlo.dot_general %arg1, %0, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4] : (tensor<2x16x2x8xbf16>, tensor<2x16x2x2x8xbf16>) -> tensor<2x2x16x16x2xf32>
  %2 = stablehlo.transpose %1, dims = [0, 1, 4, 3, 2] : (tensor<2x2x16x16x2xf32>) -> tensor<2x2x2x16x16xf32>
  %3 = stablehlo.multiply %2, %cst_0 : tensor<2x2x2x16x16xf32>
  %4 = stablehlo.iota dim = 0 : tensor<16xi32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<16xi32>) -> tensor<16x16xi32>
  %6 = stablehlo.broadcast_in_dim %4, dims = [1] : (tensor<16xi32>) -> tensor<16x16xi32>
  %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
  %8 = stablehlo.broadcast_in_dim %7, dims = [3, 4] : (tensor<16x16xi1>) -> tensor<2x2x2x16x16xi1>
  %9 = stablehlo.select %8, %3, %cst : tensor<2x2x2x16x16xi1>, tensor<2x2x2x16x16xf32>
  %10 = stablehlo.reduce(%9 init: %cst_2) across dimensions = [4] : (tensor<2x2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x2x16xf32>
   reducer(%arg4: tensor<f32>, %arg5: tensor<f32>)  {
    %42 = stablehlo.maximum %arg4, %arg5 : tensor<f32>
    stablehlo.return %42 : tensor<f32>
  }
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x2x2x16xf32>) -> tensor<2x2x2x16x16xf32>
  %12 = stablehlo.subtract %9, %11 : tensor<2x2x2x16x16xf32>
  %13 = stablehlo.exponential %12 : tensor<2x2x2x16x16xf32>
  %14 = stablehlo.reduce(%13 init: %cst_1) across dimensions = [4] : (tensor<2x2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x2x16xf32>
   reducer(%arg4: tensor<f32>, %arg5: tensor<f32>)  {
    %42 = stablehlo.add %arg4, %arg5 : tensor<f32>
    stablehlo.return %42 : tensor<f32>
  }
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<2x2x2x16xf32>) -> tensor<2x2x2x16x16xf32>
  %16 = stablehlo.divide %13, %15 : tensor<2x2x2x16x16xf32>
  %17 = stablehlo.convert %16 : (tensor<2x2x2x16x16xf32>) -> tensor<2x2x2x16x16xbf16>
  %18 = stablehlo.dot_general %arg2, %17, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4] : (tensor<2x16x2x8xbf16>, tensor<2x2x2x16x16xbf16>) -> tensor<2x2x8x2x16xf32>
  %19 = stablehlo.transpose %18, dims = [0, 4, 1, 3, 2] : (tensor<2x2x8x2x16xf32>) -> tensor<2x16x2x2x8xf32>
  %20 = stablehlo.convert %19 : (tensor<2x16x2x2x8xf32>) -> tensor<2x16x2x2x8xbf16>
  %21 = stablehlo.reshape %20 : (tensor<2x16x2x2x8xbf16>) -> tensor<2x16x4x8xbf16>
  %22 = stablehlo.reshape %arg3 : (tensor<2x16x4x8xbf16>) -> tensor<2x16x2x2x8xbf16>
  %23 = stablehlo.dot_general %22, %17, batching_dims = [0, 2] x [0, 1], contracting_dims = [3, 1] x [2, 3] : (tensor<2x16x2x2x8xbf16>, tensor<2x2x2x16x16xbf16>) -> tensor<2x2x8x16xf32>
  %24 = stablehlo.transpose %23, dims = [0, 3, 1, 2] : (tensor<2x2x8x16xf32>) -> tensor<2x16x2x8xf32>
  %25 = stablehlo.dot_general %arg2, %22, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4] : (tensor<2x16x2x8xbf16>, tensor<2x16x2x2x8xbf16>) -> tensor<2x2x16x16x2xf32>
  %26 = stablehlo.transpose %25, dims = [0, 1, 4, 3, 2] : (tensor<2x2x16x16x2xf32>) -> tensor<2x2x2x16x16xf32>
  %27 = stablehlo.multiply %16, %26 : tensor<2x2x2x16x16xf32>
  %28 = stablehlo.reduce(%27 init: %cst_1) across dimensions = [4] : (tensor<2x2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x2x16xf32>
   reducer(%arg4: tensor<f32>, %arg5: tensor<f32>)  {
    %42 = stablehlo.add %arg4, %arg5 : tensor<f32>
    stablehlo.return %42 : tensor<f32>
  }
  %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2, 3] : (tensor<2x2x2x16xf32>) -> tensor<2x2x2x16x16xf32>
  %30 = stablehlo.subtract %26, %29 : tensor<2x2x2x16x16xf32>
  %31 = stablehlo.multiply %16, %30 : tensor<2x2x2x16x16xf32>
  %32 = stablehlo.multiply %31, %cst_0 : tensor<2x2x2x16x16xf32>
  %33 = stablehlo.convert %32 : (tensor<2x2x2x16x16xf32>) -> tensor<2x2x2x16x16xbf16>
  %34 = stablehlo.dot_general %arg1, %33, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4] : (tensor<2x16x2x8xbf16>, tensor<2x2x2x16x16xbf16>) -> tensor<2x2x8x2x16xf32>
  %35 = stablehlo.transpose %34, dims = [0, 4, 1, 3, 2] : (tensor<2x2x8x2x16xf32>) -> tensor<2x16x2x2x8xf32>
  %36 = stablehlo.reshape %35 : (tensor<2x16x2x2x8xf32>) -> tensor<2x16x4x8xf32>
  %37 = stablehlo.dot_general %0, %33, batching_dims = [0, 2] x [0, 1], contracting_dims = [3, 1] x [2, 3] : (tensor<2x16x2x2x8xbf16>, tensor<2x2x2x16x16xbf16>) -> tensor<2x2x8x16xf32>
  %38 = stablehlo.transpose %37, dims = [0, 3, 1, 2] : (tensor<2x2x8x16xf32>) -> tensor<2x16x2x8xf32>
  %39 = stablehlo.convert %36 : (tensor<2x16x4x8xf32>) -> tensor<2x16x4x8xbf16>
  %40 = stablehlo.convert %38 : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x8xbf16>
  %41 = stablehlo.convert %24 : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x8xbf16>
  return %21, %39, %40, %41 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x2x8xbf16>, tensor<2x16x2x8xbf16>
}

// -----

// What JAX makes of a plain softmax and its gradient; scores that the program
// rounds to 16 bits stay F32 in the library.
// CHECK-LABEL: func.func @plain
// CHECK-NEXT: %[[F:.*]]:2 = plan.attend %arg0, %arg1, %arg2 sizes [2, 2, 2, 16, 24, 8] windows [0, 256, 8, 16, 0, 384, 8, 16, 0, 384, 8, 16, 0, 256, 8, 16] scale 2.500000e-01 :
// CHECK: %[[G:.*]]:3 = plan.attend %arg0, %arg1, %arg2, %[[F]]#0, %arg3, %[[F]]#1 {{.*}} scale 2.500000e-01 gradient
// CHECK-NOT: dot_general
// CHECK: return
func.func @plain(%arg0: tensor<2x16x2x8xbf16>, %arg1: tensor<2x24x2x8xbf16>, %arg2: tensor<2x24x2x8xbf16>, %arg3: tensor<2x16x2x8xbf16>) -> (tensor<2x16x2x8xbf16>, tensor<2x16x2x8xbf16>, tensor<2x24x2x8xbf16>, tensor<2x24x2x8xbf16>) {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<2x2x16x1xf32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<2x2x16xf32>
  %cst_1 = stablehlo.constant dense<4.000000e+00> : tensor<2x2x16x24xf32>
  %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x24x2x8xbf16>) -> tensor<2x2x16x24xbf16>
  %1 = stablehlo.convert %0 : (tensor<2x2x16x24xbf16>) -> tensor<2x2x16x24xf32>
  %2 = stablehlo.divide %1, %cst_1 : tensor<2x2x16x24xf32>
  %3 = stablehlo.reduce(%2 init: %cst_3) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x16x24xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %4 = stablehlo.maximum %3, %cst_0 : tensor<2x2x16xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x24xf32>
  %6 = stablehlo.subtract %2, %5 : tensor<2x2x16x24xf32>
  %7 = stablehlo.exponential %6 : tensor<2x2x16x24xf32>
  %8 = stablehlo.reduce(%7 init: %cst_2) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x24xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x1xf32>
  %10 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x24xf32>
  %11 = stablehlo.divide %7, %10 : tensor<2x2x16x24xf32>
  %12 = stablehlo.multiply %9, %9 : tensor<2x2x16x1xf32>
  %13 = stablehlo.divide %cst, %12 : tensor<2x2x16x1xf32>
  %14 = stablehlo.convert %11 : (tensor<2x2x16x24xf32>) -> tensor<2x2x16x24xbf16>
  %15 = stablehlo.dot_general %arg2, %14, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x24x2x8xbf16>, tensor<2x2x16x24xbf16>) -> tensor<2x2x8x16xbf16>
  %16 = stablehlo.transpose %15, dims = [0, 3, 1, 2] : (tensor<2x2x8x16xbf16>) -> tensor<2x16x2x8xbf16>
  %17 = stablehlo.transpose %arg3, dims = [0, 2, 3, 1] : (tensor<2x16x2x8xbf16>) -> tensor<2x2x8x16xbf16>
  %18 = stablehlo.dot_general %17, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3] : (tensor<2x2x8x16xbf16>, tensor<2x24x2x8xbf16>) -> tensor<2x2x16x24xbf16>
  %19 = stablehlo.dot_general %17, %14, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x2x8x16xbf16>, tensor<2x2x16x24xbf16>) -> tensor<2x2x8x24xbf16>
  %20 = stablehlo.transpose %19, dims = [0, 3, 1, 2] : (tensor<2x2x8x24xbf16>) -> tensor<2x24x2x8xbf16>
  %21 = stablehlo.convert %18 : (tensor<2x2x16x24xbf16>) -> tensor<2x2x16x24xf32>
  %22 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<2x2x16x1xf32>) -> tensor<2x2x16x24xf32>
  %23 = stablehlo.multiply %21, %22 : tensor<2x2x16x24xf32>
  %24 = stablehlo.multiply %23, %7 : tensor<2x2x16x24xf32>
  %25 = stablehlo.reduce(%24 init: %cst_2) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x24xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %26 = stablehlo.reshape %25 : (tensor<2x2x16xf32>) -> tensor<2x2x16x1xf32>
  %27 = stablehlo.negate %26 : tensor<2x2x16x1xf32>
  %28 = stablehlo.divide %21, %10 : tensor<2x2x16x24xf32>
  %29 = stablehlo.reduce(%27 init: %cst_2) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x1xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x24xf32>
  %31 = stablehlo.add %28, %30 : tensor<2x2x16x24xf32>
  %32 = stablehlo.multiply %31, %7 : tensor<2x2x16x24xf32>
  %33 = stablehlo.divide %32, %cst_1 : tensor<2x2x16x24xf32>
  %34 = stablehlo.convert %33 : (tensor<2x2x16x24xf32>) -> tensor<2x2x16x24xbf16>
  %35 = stablehlo.dot_general %34, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x2x16x24xbf16>, tensor<2x16x2x8xbf16>) -> tensor<2x2x24x8xbf16>
  %36 = stablehlo.transpose %35, dims = [0, 2, 1, 3] : (tensor<2x2x24x8xbf16>) -> tensor<2x24x2x8xbf16>
  %37 = stablehlo.dot_general %34, %arg1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x2x16x24xbf16>, tensor<2x24x2x8xbf16>) -> tensor<2x2x16x8xbf16>
  %38 = stablehlo.transpose %37, dims = [0, 2, 1, 3] : (tensor<2x2x16x8xbf16>) -> tensor<2x16x2x8xbf16>
  return %16, %38, %36, %20 : tensor<2x16x2x8xbf16>, tensor<2x16x2x8xbf16>, tensor<2x24x2x8xbf16>, tensor<2x24x2x8xbf16>
}

// -----

// CHECK-LABEL: func.func @wide
// CHECK-NOT: plan.attend
func.func @wide(%arg0: tensor<2x16x2x8xf32>, %arg1: tensor<2x24x2x8xf32>, %arg2: tensor<2x24x2x8xf32>) -> (tensor<2x16x2x8xf32>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<2x2x16xf32>
  %cst_0 = stablehlo.constant dense<4.000000e+00> : tensor<2x2x16x24xf32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x2x8xf32>, tensor<2x24x2x8xf32>) -> tensor<2x2x16x24xf32>
  %1 = stablehlo.convert %0 : (tensor<2x2x16x24xf32>) -> tensor<2x2x16x24xf32>
  %2 = stablehlo.divide %1, %cst_0 : tensor<2x2x16x24xf32>
  %3 = stablehlo.reduce(%2 init: %cst_2) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x16x24xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %4 = stablehlo.maximum %3, %cst : tensor<2x2x16xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x24xf32>
  %6 = stablehlo.subtract %2, %5 : tensor<2x2x16x24xf32>
  %7 = stablehlo.exponential %6 : tensor<2x2x16x24xf32>
  %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x24xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x24xf32>
  // expected-remark @+1 {{attention stays GEMMs and kernels: an operand is f32, and the library multiplies bf16 or f16}}
  %10 = stablehlo.divide %7, %9 : tensor<2x2x16x24xf32>
  %11 = stablehlo.convert %10 : (tensor<2x2x16x24xf32>) -> tensor<2x2x16x24xf32>
  %12 = stablehlo.dot_general %arg2, %11, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x24x2x8xf32>, tensor<2x2x16x24xf32>) -> tensor<2x2x8x16xf32>
  %13 = stablehlo.transpose %12, dims = [0, 3, 1, 2] : (tensor<2x2x8x16xf32>) -> tensor<2x16x2x8xf32>
  return %13 : tensor<2x16x2x8xf32>
}

// -----

// CHECK-LABEL: func.func @channels
// CHECK-NOT: plan.attend
func.func @channels(%arg0: tensor<2x16x2x12xbf16>, %arg1: tensor<2x24x2x12xbf16>, %arg2: tensor<2x24x2x12xbf16>) -> (tensor<2x16x2x12xbf16>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<2x2x16xf32>
  %cst_0 = stablehlo.constant dense<4.000000e+00> : tensor<2x2x16x24xf32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x2x12xbf16>, tensor<2x24x2x12xbf16>) -> tensor<2x2x16x24xbf16>
  %1 = stablehlo.convert %0 : (tensor<2x2x16x24xbf16>) -> tensor<2x2x16x24xf32>
  %2 = stablehlo.divide %1, %cst_0 : tensor<2x2x16x24xf32>
  %3 = stablehlo.reduce(%2 init: %cst_2) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x16x24xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %4 = stablehlo.maximum %3, %cst : tensor<2x2x16xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x24xf32>
  %6 = stablehlo.subtract %2, %5 : tensor<2x2x16x24xf32>
  %7 = stablehlo.exponential %6 : tensor<2x2x16x24xf32>
  %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x24xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x24xf32>
  // expected-remark @+1 {{attention stays GEMMs and kernels: heads of 12 channels; the library has those of multiples of 8 up to 128}}
  %10 = stablehlo.divide %7, %9 : tensor<2x2x16x24xf32>
  %11 = stablehlo.convert %10 : (tensor<2x2x16x24xf32>) -> tensor<2x2x16x24xbf16>
  %12 = stablehlo.dot_general %arg2, %11, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x24x2x12xbf16>, tensor<2x2x16x24xbf16>) -> tensor<2x2x12x16xbf16>
  %13 = stablehlo.transpose %12, dims = [0, 3, 1, 2] : (tensor<2x2x12x16xbf16>) -> tensor<2x16x2x12xbf16>
  return %13 : tensor<2x16x2x12xbf16>
}

// -----

// CHECK-LABEL: func.func @mask
// CHECK-NOT: plan.attend
func.func @mask(%arg0: tensor<2x16x2x8xbf16>, %arg1: tensor<2x16x2x8xbf16>, %arg2: tensor<2x16x2x8xbf16>) -> (tensor<2x16x2x8xbf16>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<2x2x16xf32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<2x2x16x16xf32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x16x2x8xbf16>) -> tensor<2x2x16x16xbf16>
  %1 = stablehlo.convert %0 : (tensor<2x2x16x16xbf16>) -> tensor<2x2x16x16xf32>
  %2 = stablehlo.iota dim = 0 : tensor<16xi32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<16xi32>) -> tensor<16x16xi32>
  %4 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<16xi32>) -> tensor<16x16xi32>
  %5 = stablehlo.compare NE, %3, %4, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
  %6 = stablehlo.broadcast_in_dim %5, dims = [2, 3] : (tensor<16x16xi1>) -> tensor<2x2x16x16xi1>
  %7 = stablehlo.select %6, %1, %cst_0 : tensor<2x2x16x16xi1>, tensor<2x2x16x16xf32>
  %8 = stablehlo.reduce(%7 init: %cst_2) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %9 = stablehlo.maximum %8, %cst : tensor<2x2x16xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x16xf32>
  %11 = stablehlo.subtract %7, %10 : tensor<2x2x16x16xf32>
  %12 = stablehlo.exponential %11 : tensor<2x2x16x16xf32>
  %13 = stablehlo.reduce(%12 init: %cst_1) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x16xf32>
  // expected-remark @+1 {{attention stays GEMMs and kernels: its mask is not causal}}
  %15 = stablehlo.divide %12, %14 : tensor<2x2x16x16xf32>
  %16 = stablehlo.convert %15 : (tensor<2x2x16x16xf32>) -> tensor<2x2x16x16xbf16>
  %17 = stablehlo.dot_general %arg2, %16, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x2x16x16xbf16>) -> tensor<2x2x8x16xbf16>
  %18 = stablehlo.transpose %17, dims = [0, 3, 1, 2] : (tensor<2x2x8x16xbf16>) -> tensor<2x16x2x8xbf16>
  return %18 : tensor<2x16x2x8xbf16>
}

// -----

// CHECK-LABEL: func.func @weights_are_returned
// CHECK-NOT: plan.attend
func.func @weights_are_returned(%arg0: tensor<2x16x2x8xbf16>, %arg1: tensor<2x16x2x8xbf16>, %arg2: tensor<2x16x2x8xbf16>) -> (tensor<2x16x2x8xbf16>, tensor<2x2x16x16xf32>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<2x2x16xf32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x16x2x8xbf16>) -> tensor<2x2x16x16xbf16>
  %1 = stablehlo.convert %0 : (tensor<2x2x16x16xbf16>) -> tensor<2x2x16x16xf32>
  %2 = stablehlo.reduce(%1 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %3 = stablehlo.maximum %2, %cst : tensor<2x2x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x16xf32>
  %5 = stablehlo.subtract %1, %4 : tensor<2x2x16x16xf32>
  %6 = stablehlo.exponential %5 : tensor<2x2x16x16xf32>
  %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x16xf32>
  // expected-remark @+1 {{attention stays GEMMs and kernels: its weights are read by 'func.return'}}
  %9 = stablehlo.divide %6, %8 : tensor<2x2x16x16xf32>
  %10 = stablehlo.convert %9 : (tensor<2x2x16x16xf32>) -> tensor<2x2x16x16xbf16>
  %11 = stablehlo.dot_general %arg2, %10, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x2x16x16xbf16>) -> tensor<2x2x8x16xbf16>
  %12 = stablehlo.transpose %11, dims = [0, 3, 1, 2] : (tensor<2x2x8x16xbf16>) -> tensor<2x16x2x8xbf16>
  return %12, %9 : tensor<2x16x2x8xbf16>, tensor<2x2x16x16xf32>
}

// -----

// CHECK-LABEL: func.func @result_is_wide
// CHECK-NOT: plan.attend
func.func @result_is_wide(%arg0: tensor<2x16x2x8xbf16>, %arg1: tensor<2x16x2x8xbf16>, %arg2: tensor<2x16x2x8xbf16>) -> (tensor<2x16x2x8xf32>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<2x2x16xf32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x16x2x8xbf16>) -> tensor<2x2x16x16xbf16>
  %1 = stablehlo.convert %0 : (tensor<2x2x16x16xbf16>) -> tensor<2x2x16x16xf32>
  %2 = stablehlo.reduce(%1 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %3 = stablehlo.maximum %2, %cst : tensor<2x2x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x16xf32>
  %5 = stablehlo.subtract %1, %4 : tensor<2x2x16x16xf32>
  %6 = stablehlo.exponential %5 : tensor<2x2x16x16xf32>
  %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x16xf32>
  // expected-remark @+1 {{attention stays GEMMs and kernels: a result is not rounded to the operands' format}}
  %9 = stablehlo.divide %6, %8 : tensor<2x2x16x16xf32>
  %10 = stablehlo.convert %9 : (tensor<2x2x16x16xf32>) -> tensor<2x2x16x16xbf16>
  %11 = stablehlo.dot_general %arg2, %10, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x2x16x16xbf16>) -> tensor<2x2x8x16xf32>
  %12 = stablehlo.transpose %11, dims = [0, 3, 1, 2] : (tensor<2x2x8x16xf32>) -> tensor<2x16x2x8xf32>
  return %12 : tensor<2x16x2x8xf32>
}

// -----

// CHECK-LABEL: func.func @misaligned
// CHECK-NOT: plan.attend
func.func @misaligned(%arg0: tensor<2x16x2x12xbf16>, %arg1: tensor<2x16x2x12xbf16>, %arg2: tensor<2x16x2x8xbf16>) -> (tensor<2x16x2x8xbf16>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<2x2x16xf32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.slice %arg0 [0:2, 0:16, 0:2, 4:12] : (tensor<2x16x2x12xbf16>) -> tensor<2x16x2x8xbf16>
  %1 = stablehlo.slice %arg1 [0:2, 0:16, 0:2, 4:12] : (tensor<2x16x2x12xbf16>) -> tensor<2x16x2x8xbf16>
  %2 = stablehlo.dot_general %0, %1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x16x2x8xbf16>) -> tensor<2x2x16x16xbf16>
  %3 = stablehlo.convert %2 : (tensor<2x2x16x16xbf16>) -> tensor<2x2x16x16xf32>
  %4 = stablehlo.reduce(%3 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %5 = stablehlo.maximum %4, %cst : tensor<2x2x16xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x16xf32>
  %7 = stablehlo.subtract %3, %6 : tensor<2x2x16x16xf32>
  %8 = stablehlo.exponential %7 : tensor<2x2x16x16xf32>
  %9 = stablehlo.reduce(%8 init: %cst_0) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x16xf32>
  // expected-remark @+1 {{attention stays GEMMs and kernels: an operand's strides are no multiples of 16 bytes}}
  %11 = stablehlo.divide %8, %10 : tensor<2x2x16x16xf32>
  %12 = stablehlo.convert %11 : (tensor<2x2x16x16xf32>) -> tensor<2x2x16x16xbf16>
  %13 = stablehlo.dot_general %arg2, %12, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x2x16x16xbf16>) -> tensor<2x2x8x16xbf16>
  %14 = stablehlo.transpose %13, dims = [0, 3, 1, 2] : (tensor<2x2x8x16xbf16>) -> tensor<2x16x2x8xbf16>
  return %14 : tensor<2x16x2x8xbf16>
}

// -----

// Weights of a router are no attention, and nothing is said.
// CHECK-LABEL: func.func @router
// CHECK-COUNT-2: dot_general
func.func @router(%arg0: tensor<16x8xbf16>, %arg1: tensor<8x4xbf16>) -> (tensor<16x8xbf16>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<16xf32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<16x8xbf16>, tensor<8x4xbf16>) -> tensor<16x4xbf16>
  %1 = stablehlo.convert %0 : (tensor<16x4xbf16>) -> tensor<16x4xf32>
  %2 = stablehlo.reduce(%1 init: %cst_1) applies stablehlo.maximum across dimensions = [1] : (tensor<16x4xf32>, tensor<f32>) -> tensor<16xf32>
  %3 = stablehlo.maximum %2, %cst : tensor<16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<16xf32>) -> tensor<16x4xf32>
  %5 = stablehlo.subtract %1, %4 : tensor<16x4xf32>
  %6 = stablehlo.exponential %5 : tensor<16x4xf32>
  %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<16x4xf32>, tensor<f32>) -> tensor<16xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<16xf32>) -> tensor<16x4xf32>
  %9 = stablehlo.divide %6, %8 : tensor<16x4xf32>
  %10 = stablehlo.convert %9 : (tensor<16x4xf32>) -> tensor<16x4xbf16>
  %11 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<8x4xbf16>) -> tensor<4x8xbf16>
  %12 = stablehlo.dot_general %10, %11, contracting_dims = [1] x [0] : (tensor<16x4xbf16>, tensor<4x8xbf16>) -> tensor<16x8xbf16>
  return %12 : tensor<16x8xbf16>
}

// -----

// Keys that heads share, and values that they do not: the library would read other values.
// CHECK-LABEL: func.func @values_by_head
// CHECK-NOT: plan.attend
// CHECK: return
func.func @values_by_head(%arg0: tensor<2x4x16x8xbf16>, %arg1: tensor<2x16x8xbf16>, %arg2: tensor<2x4x16x8xbf16>) -> (tensor<2x4x16x8xbf16>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [3] x [2] : (tensor<2x4x16x8xbf16>, tensor<2x16x8xbf16>) -> tensor<2x4x16x16xf32>
  %1 = stablehlo.reduce(%0 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x16xf32>
  %3 = stablehlo.subtract %0, %2 : tensor<2x4x16x16xf32>
  %4 = stablehlo.exponential %3 : tensor<2x4x16x16xf32>
  %5 = stablehlo.reduce(%4 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x16xf32>
  // expected-remark @+1 {{attention stays GEMMs and kernels: queries, keys and values differ in batches or heads}}
  %7 = stablehlo.divide %4, %6 : tensor<2x4x16x16xf32>
  %8 = stablehlo.convert %7 : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xbf16>
  %9 = stablehlo.dot_general %8, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x4x16x16xbf16>, tensor<2x4x16x8xbf16>) -> tensor<2x4x16x8xf32>
  %10 = stablehlo.convert %9 : (tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xbf16>
  return %10 : tensor<2x4x16x8xbf16>
}

// -----

// Heads are summed with the keys.
// CHECK-LABEL: func.func @sums_heads
// CHECK-NOT: plan.attend
// CHECK: return
func.func @sums_heads(%arg0: tensor<2x16x4x8xbf16>, %arg1: tensor<2x16x4x8xbf16>, %arg2: tensor<2x16x4x8xbf16>) -> (tensor<2x16x8xbf16>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>) -> tensor<2x4x16x16xf32>
  %1 = stablehlo.reduce(%0 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x16xf32>
  %3 = stablehlo.subtract %0, %2 : tensor<2x4x16x16xf32>
  %4 = stablehlo.exponential %3 : tensor<2x4x16x16xf32>
  %5 = stablehlo.reduce(%4 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x16xf32>
  // expected-remark @+1 {{attention stays GEMMs and kernels: a result sums over batches or heads}}
  %7 = stablehlo.divide %4, %6 : tensor<2x4x16x16xf32>
  %8 = stablehlo.convert %7 : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xbf16>
  %9 = stablehlo.dot_general %8, %arg2, batching_dims = [0] x [0], contracting_dims = [1, 3] x [2, 1] : (tensor<2x4x16x16xbf16>, tensor<2x16x4x8xbf16>) -> tensor<2x16x8xf32>
  %10 = stablehlo.convert %9 : (tensor<2x16x8xf32>) -> tensor<2x16x8xbf16>
  return %10 : tensor<2x16x8xbf16>
}

// -----

// Values that all examples share.
// CHECK-LABEL: func.func @values_of_all
// CHECK-NOT: plan.attend
// CHECK: return
func.func @values_of_all(%arg0: tensor<2x16x4x8xbf16>, %arg1: tensor<2x16x4x8xbf16>, %arg2: tensor<16x4x8xbf16>) -> (tensor<2x4x16x8xbf16>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>) -> tensor<2x4x16x16xf32>
  %1 = stablehlo.reduce(%0 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x16xf32>
  %3 = stablehlo.subtract %0, %2 : tensor<2x4x16x16xf32>
  %4 = stablehlo.exponential %3 : tensor<2x4x16x16xf32>
  %5 = stablehlo.reduce(%4 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x16xf32>
  // expected-remark @+1 {{attention stays GEMMs and kernels: queries, keys and values differ in batches or heads}}
  %7 = stablehlo.divide %4, %6 : tensor<2x4x16x16xf32>
  %8 = stablehlo.convert %7 : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xbf16>
  %9 = stablehlo.dot_general %arg2, %8, batching_dims = [1] x [1], contracting_dims = [0] x [3] : (tensor<16x4x8xbf16>, tensor<2x4x16x16xbf16>) -> tensor<4x8x2x16xf32>
  %10 = stablehlo.transpose %9, dims = [2, 0, 3, 1] : (tensor<4x8x2x16xf32>) -> tensor<2x4x16x8xf32>
  %11 = stablehlo.convert %10 : (tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xbf16>
  return %11 : tensor<2x4x16x8xbf16>
}

// -----

// Fewer queries than keys.
// CHECK-LABEL: func.func @causal_of_fewer
// CHECK-NOT: plan.attend
// CHECK: return
func.func @causal_of_fewer(%arg0: tensor<2x8x4x8xbf16>, %arg1: tensor<2x16x4x8xbf16>, %arg2: tensor<2x16x4x8xbf16>) -> (tensor<2x4x8x8xbf16>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<2x4x8x16xf32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x4x8xbf16>, tensor<2x16x4x8xbf16>) -> tensor<2x4x8x16xf32>
  %1 = stablehlo.iota dim = 0 : tensor<8xi32>
  %2 = stablehlo.iota dim = 0 : tensor<16xi32>
  %3 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xi32>) -> tensor<8x16xi32>
  %4 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<16xi32>) -> tensor<8x16xi32>
  %5 = stablehlo.compare GE, %3, %4, SIGNED : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi1>
  %6 = stablehlo.broadcast_in_dim %5, dims = [2, 3] : (tensor<8x16xi1>) -> tensor<2x4x8x16xi1>
  %7 = stablehlo.select %6, %0, %cst : tensor<2x4x8x16xi1>, tensor<2x4x8x16xf32>
  %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x8x16xf32>, tensor<f32>) -> tensor<2x4x8xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32>
  %10 = stablehlo.subtract %7, %9 : tensor<2x4x8x16xf32>
  %11 = stablehlo.exponential %10 : tensor<2x4x8x16xf32>
  %12 = stablehlo.reduce(%11 init: %cst_0) applies stablehlo.add across dimensions = [3] : (tensor<2x4x8x16xf32>, tensor<f32>) -> tensor<2x4x8xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32>
  // expected-remark @+1 {{attention stays GEMMs and kernels: it is causal, and its queries and keys differ in number}}
  %14 = stablehlo.divide %11, %13 : tensor<2x4x8x16xf32>
  %15 = stablehlo.convert %14 : (tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xbf16>
  %16 = stablehlo.dot_general %15, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x4x8x16xbf16>, tensor<2x16x4x8xbf16>) -> tensor<2x4x8x8xf32>
  %17 = stablehlo.convert %16 : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xbf16>
  return %17 : tensor<2x4x8x8xbf16>
}

// -----

// What is stored turned, as the scales of blocks are, stays so.
// CHECK-LABEL: func.func @stored
// CHECK: %[[T:.*]] = stablehlo.transpose %arg0, dims = [1, 0] {plan.materialise}
// CHECK: stablehlo.transpose %[[T]], dims = [1, 0]
// CHECK-LABEL: func.func @pair
// CHECK-NEXT: return %arg0
func.func @stored(%arg0: tensor<144x6xf32>) -> tensor<144x6xf32> {
  %0 = stablehlo.transpose %arg0, dims = [1, 0] {plan.materialise} : (tensor<144x6xf32>) -> tensor<6x144xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<6x144xf32>) -> tensor<144x6xf32>
  return %1 : tensor<144x6xf32>
}
func.func @pair(%arg0: tensor<4x8x2xf32>) -> tensor<4x8x2xf32> {
  %0 = stablehlo.transpose %arg0, dims = [2, 0, 1] : (tensor<4x8x2xf32>) -> tensor<2x4x8xf32>
  %1 = stablehlo.transpose %0, dims = [1, 2, 0] : (tensor<2x4x8xf32>) -> tensor<4x8x2xf32>
  return %1 : tensor<4x8x2xf32>
}
