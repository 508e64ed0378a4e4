// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-form-attention))' -split-input-file -verify-diagnostics | FileCheck %s

// JAX's softmax of a batch of one, whose sums leave out the batch; the backward
// computes the exponentials and the weights again.
// CHECK-LABEL: func.func @computed_again
// CHECK: %[[F:.*]]:2 = plan.attend %arg0, %arg1, %arg2 sizes [1, 2, 2, 16, 24, 8]
// CHECK: plan.attend %arg0, %arg1, %arg2, %[[F]]#0, %arg3, %[[F]]#1 {{.*}} gradient
// CHECK-NOT: dot_general
// CHECK-NOT: exponential
// CHECK: return
func.func @computed_again(%arg0: tensor<1x16x2x8xbf16>, %arg1: tensor<1x24x2x8xbf16>, %arg2: tensor<1x24x2x8xbf16>, %arg3: tensor<1x16x2x8xbf16>) -> (tensor<1x2x8x16xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x24x8xbf16>, tensor<1x2x8x24xbf16>) {
  %one = stablehlo.constant dense<1.000000e+00> : tensor<1x2x16x1xf32>
  %four = stablehlo.constant dense<4.000000e+00> : tensor<1x2x16x24xf32>
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<1x16x2x8xbf16>, tensor<1x24x2x8xbf16>) -> tensor<1x2x16x24xbf16>
  %1 = stablehlo.convert %0 : (tensor<1x2x16x24xbf16>) -> tensor<1x2x16x24xf32>
  %2 = stablehlo.divide %1, %four : tensor<1x2x16x24xf32>
  %3 = stablehlo.reduce(%2 init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x16x24xf32>, tensor<f32>) -> tensor<1x2x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x24xf32>
  %5 = stablehlo.subtract %2, %4 : tensor<1x2x16x24xf32>
  %6 = stablehlo.exponential %5 : tensor<1x2x16x24xf32>
  %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<1x2x16x24xf32>, tensor<f32>) -> tensor<1x2x16xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x24xf32>
  %9 = stablehlo.divide %6, %8 : tensor<1x2x16x24xf32>
  %10 = stablehlo.convert %9 : (tensor<1x2x16x24xf32>) -> tensor<1x2x16x24xbf16>
  %11 = stablehlo.dot_general %arg2, %10, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<1x24x2x8xbf16>, tensor<1x2x16x24xbf16>) -> tensor<1x2x8x16xbf16>
  %12 = stablehlo.convert %0 : (tensor<1x2x16x24xbf16>) -> tensor<1x2x16x24xf32>
  %13 = stablehlo.divide %12, %four : tensor<1x2x16x24xf32>
  %14 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x24xf32>
  %15 = stablehlo.subtract %13, %14 : tensor<1x2x16x24xf32>
  %16 = stablehlo.exponential %15 : tensor<1x2x16x24xf32>
  %17 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x24xf32>
  %18 = stablehlo.divide %16, %17 : tensor<1x2x16x24xf32>
  %19 = stablehlo.convert %18 : (tensor<1x2x16x24xf32>) -> tensor<1x2x16x24xbf16>
  %20 = stablehlo.transpose %arg3, dims = [0, 2, 3, 1] : (tensor<1x16x2x8xbf16>) -> tensor<1x2x8x16xbf16>
  %21 = stablehlo.dot_general %20, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3] : (tensor<1x2x8x16xbf16>, tensor<1x24x2x8xbf16>) -> tensor<1x2x16x24xbf16>
  %22 = stablehlo.dot_general %20, %19, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x2x8x16xbf16>, tensor<1x2x16x24xbf16>) -> tensor<1x2x8x24xbf16>
  %23 = stablehlo.convert %21 : (tensor<1x2x16x24xbf16>) -> tensor<1x2x16x24xf32>
  %24 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x1xf32>
  %25 = stablehlo.multiply %24, %24 : tensor<1x2x16x1xf32>
  %26 = stablehlo.divide %one, %25 : tensor<1x2x16x1xf32>
  %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<1x2x16x1xf32>) -> tensor<1x2x16x24xf32>
  %28 = stablehlo.multiply %23, %27 : tensor<1x2x16x24xf32>
  %29 = stablehlo.multiply %28, %16 : tensor<1x2x16x24xf32>
  %30 = stablehlo.reduce(%29 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<1x2x16x24xf32>, tensor<f32>) -> tensor<1x2x16xf32>
  %31 = stablehlo.reshape %30 : (tensor<1x2x16xf32>) -> tensor<1x2x16x1xf32>
  %32 = stablehlo.negate %31 : tensor<1x2x16x1xf32>
  %33 = stablehlo.divide %23, %17 : tensor<1x2x16x24xf32>
  %34 = stablehlo.reduce(%32 init: %zero) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
  %35 = stablehlo.broadcast_in_dim %34, dims = [1, 2] : (tensor<2x16xf32>) -> tensor<1x2x16x24xf32>
  %36 = stablehlo.add %33, %35 : tensor<1x2x16x24xf32>
  %37 = stablehlo.multiply %36, %16 : tensor<1x2x16x24xf32>
  %38 = stablehlo.divide %37, %four : tensor<1x2x16x24xf32>
  %39 = stablehlo.convert %38 : (tensor<1x2x16x24xf32>) -> tensor<1x2x16x24xbf16>
  %40 = stablehlo.dot_general %39, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<1x2x16x24xbf16>, tensor<1x16x2x8xbf16>) -> tensor<1x2x24x8xbf16>
  %41 = stablehlo.dot_general %39, %arg1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<1x2x16x24xbf16>, tensor<1x24x2x8xbf16>) -> tensor<1x2x16x8xbf16>
  return %11, %41, %40, %22 : tensor<1x2x8x16xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x24x8xbf16>, tensor<1x2x8x24xbf16>
}

// -----

// The recipe keeps the exponentials in BF16, of which the backward computes the
// weights again.
// CHECK-LABEL: func.func @kept_narrow
// CHECK: plan.attend {{.*}} scale 2.500000e-01 :
// CHECK: plan.attend {{.*}} gradient
// CHECK-NOT: dot_general
// CHECK-NOT: scalify.quantize
// CHECK: return
func.func @kept_narrow(%arg0: tensor<1x16x2x8xbf16>, %arg1: tensor<1x24x2x8xbf16>, %arg2: tensor<1x24x2x8xbf16>, %arg3: tensor<1x16x2x8xbf16>) -> (tensor<1x2x8x16xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x24x8xbf16>, tensor<1x2x8x24xbf16>) {
  %one = stablehlo.constant dense<1.000000e+00> : tensor<1x2x16x1xf32>
  %four = stablehlo.constant dense<4.000000e+00> : tensor<1x2x16x24xf32>
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %scale = stablehlo.constant dense<1.250000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<1x16x2x8xbf16>, tensor<1x24x2x8xbf16>) -> tensor<1x2x16x24xbf16>
  %1 = stablehlo.convert %0 : (tensor<1x2x16x24xbf16>) -> tensor<1x2x16x24xf32>
  %2 = stablehlo.divide %1, %four : tensor<1x2x16x24xf32>
  %3 = stablehlo.reduce(%2 init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x16x24xf32>, tensor<f32>) -> tensor<1x2x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x24xf32>
  %5 = stablehlo.subtract %2, %4 : tensor<1x2x16x24xf32>
  %6 = stablehlo.exponential %5 : tensor<1x2x16x24xf32>
  %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<1x2x16x24xf32>, tensor<f32>) -> tensor<1x2x16xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x24xf32>
  %9 = stablehlo.divide %6, %8 : tensor<1x2x16x24xf32>
  %10 = stablehlo.convert %9 : (tensor<1x2x16x24xf32>) -> tensor<1x2x16x24xbf16>
  %11 = stablehlo.dot_general %arg2, %10, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<1x24x2x8xbf16>, tensor<1x2x16x24xbf16>) -> tensor<1x2x8x16xbf16>
  %15 = scalify.quantize %6, %scale {cast = "c0"} : tensor<1x2x16x24xf32> -> tensor<1x2x16x24xbf16>
  %16 = scalify.dequantize %15, %scale : tensor<1x2x16x24xbf16> -> tensor<1x2x16x24xf32>
  %17 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x24xf32>
  %18 = stablehlo.divide %16, %17 : tensor<1x2x16x24xf32>
  %19 = stablehlo.convert %18 : (tensor<1x2x16x24xf32>) -> tensor<1x2x16x24xbf16>
  %20 = stablehlo.transpose %arg3, dims = [0, 2, 3, 1] : (tensor<1x16x2x8xbf16>) -> tensor<1x2x8x16xbf16>
  %21 = stablehlo.dot_general %20, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3] : (tensor<1x2x8x16xbf16>, tensor<1x24x2x8xbf16>) -> tensor<1x2x16x24xbf16>
  %22 = stablehlo.dot_general %20, %19, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x2x8x16xbf16>, tensor<1x2x16x24xbf16>) -> tensor<1x2x8x24xbf16>
  %23 = stablehlo.convert %21 : (tensor<1x2x16x24xbf16>) -> tensor<1x2x16x24xf32>
  %24 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x1xf32>
  %25 = stablehlo.multiply %24, %24 : tensor<1x2x16x1xf32>
  %26 = stablehlo.divide %one, %25 : tensor<1x2x16x1xf32>
  %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<1x2x16x1xf32>) -> tensor<1x2x16x24xf32>
  %28 = stablehlo.multiply %23, %27 : tensor<1x2x16x24xf32>
  %29 = stablehlo.multiply %28, %16 : tensor<1x2x16x24xf32>
  %30 = stablehlo.reduce(%29 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<1x2x16x24xf32>, tensor<f32>) -> tensor<1x2x16xf32>
  %31 = stablehlo.reshape %30 : (tensor<1x2x16xf32>) -> tensor<1x2x16x1xf32>
  %32 = stablehlo.negate %31 : tensor<1x2x16x1xf32>
  %33 = stablehlo.divide %23, %17 : tensor<1x2x16x24xf32>
  %34 = stablehlo.reduce(%32 init: %zero) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
  %35 = stablehlo.broadcast_in_dim %34, dims = [1, 2] : (tensor<2x16xf32>) -> tensor<1x2x16x24xf32>
  %36 = stablehlo.add %33, %35 : tensor<1x2x16x24xf32>
  %37 = stablehlo.multiply %36, %16 : tensor<1x2x16x24xf32>
  %38 = stablehlo.divide %37, %four : tensor<1x2x16x24xf32>
  %39 = stablehlo.convert %38 : (tensor<1x2x16x24xf32>) -> tensor<1x2x16x24xbf16>
  %40 = stablehlo.dot_general %39, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<1x2x16x24xbf16>, tensor<1x16x2x8xbf16>) -> tensor<1x2x24x8xbf16>
  %41 = stablehlo.dot_general %39, %arg1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<1x2x16x24xbf16>, tensor<1x24x2x8xbf16>) -> tensor<1x2x16x8xbf16>
  return %11, %41, %40, %22 : tensor<1x2x8x16xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x24x8xbf16>, tensor<1x2x8x24xbf16>
}

// -----

// The step also returns what the backward computed again: the forward is a
// call, and the backward is as it was, on sums of the exponentials.
// CHECK-LABEL: func.func @returned
// CHECK: plan.attend {{.*}} scale 2.500000e-01 :
// CHECK-NOT: plan.attend
// CHECK: stablehlo.exponential
// CHECK: %[[E:.*]] = stablehlo.exponential
// CHECK: return {{.*}}%[[E]] :
func.func @returned(%arg0: tensor<1x16x2x8xbf16>, %arg1: tensor<1x24x2x8xbf16>, %arg2: tensor<1x24x2x8xbf16>, %arg3: tensor<1x16x2x8xbf16>) -> (tensor<1x2x8x16xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x24x8xbf16>, tensor<1x2x8x24xbf16>, tensor<1x2x16x24xf32>) {
  %one = stablehlo.constant dense<1.000000e+00> : tensor<1x2x16x1xf32>
  %four = stablehlo.constant dense<4.000000e+00> : tensor<1x2x16x24xf32>
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<1x16x2x8xbf16>, tensor<1x24x2x8xbf16>) -> tensor<1x2x16x24xbf16>
  %1 = stablehlo.convert %0 : (tensor<1x2x16x24xbf16>) -> tensor<1x2x16x24xf32>
  %2 = stablehlo.divide %1, %four : tensor<1x2x16x24xf32>
  %3 = stablehlo.reduce(%2 init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x16x24xf32>, tensor<f32>) -> tensor<1x2x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x24xf32>
  %5 = stablehlo.subtract %2, %4 : tensor<1x2x16x24xf32>
  %6 = stablehlo.exponential %5 : tensor<1x2x16x24xf32>
  %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<1x2x16x24xf32>, tensor<f32>) -> tensor<1x2x16xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x24xf32>
  // expected-remark @+1 {{the repeated softmax of an attention stays GEMMs and kernels: its exponentials are read by 'func.return'}}
  %9 = stablehlo.divide %6, %8 : tensor<1x2x16x24xf32>
  %10 = stablehlo.convert %9 : (tensor<1x2x16x24xf32>) -> tensor<1x2x16x24xbf16>
  %11 = stablehlo.dot_general %arg2, %10, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<1x24x2x8xbf16>, tensor<1x2x16x24xbf16>) -> tensor<1x2x8x16xbf16>
  %12 = stablehlo.convert %0 : (tensor<1x2x16x24xbf16>) -> tensor<1x2x16x24xf32>
  %13 = stablehlo.divide %12, %four : tensor<1x2x16x24xf32>
  %14 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x24xf32>
  %15 = stablehlo.subtract %13, %14 : tensor<1x2x16x24xf32>
  %16 = stablehlo.exponential %15 : tensor<1x2x16x24xf32>
  %17 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x24xf32>
  %18 = stablehlo.divide %16, %17 : tensor<1x2x16x24xf32>
  %19 = stablehlo.convert %18 : (tensor<1x2x16x24xf32>) -> tensor<1x2x16x24xbf16>
  %20 = stablehlo.transpose %arg3, dims = [0, 2, 3, 1] : (tensor<1x16x2x8xbf16>) -> tensor<1x2x8x16xbf16>
  %21 = stablehlo.dot_general %20, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3] : (tensor<1x2x8x16xbf16>, tensor<1x24x2x8xbf16>) -> tensor<1x2x16x24xbf16>
  %22 = stablehlo.dot_general %20, %19, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x2x8x16xbf16>, tensor<1x2x16x24xbf16>) -> tensor<1x2x8x24xbf16>
  %23 = stablehlo.convert %21 : (tensor<1x2x16x24xbf16>) -> tensor<1x2x16x24xf32>
  %24 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x2x16xf32>) -> tensor<1x2x16x1xf32>
  %25 = stablehlo.multiply %24, %24 : tensor<1x2x16x1xf32>
  %26 = stablehlo.divide %one, %25 : tensor<1x2x16x1xf32>
  %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<1x2x16x1xf32>) -> tensor<1x2x16x24xf32>
  %28 = stablehlo.multiply %23, %27 : tensor<1x2x16x24xf32>
  %29 = stablehlo.multiply %28, %16 : tensor<1x2x16x24xf32>
  %30 = stablehlo.reduce(%29 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<1x2x16x24xf32>, tensor<f32>) -> tensor<1x2x16xf32>
  %31 = stablehlo.reshape %30 : (tensor<1x2x16xf32>) -> tensor<1x2x16x1xf32>
  %32 = stablehlo.negate %31 : tensor<1x2x16x1xf32>
  %33 = stablehlo.divide %23, %17 : tensor<1x2x16x24xf32>
  %34 = stablehlo.reduce(%32 init: %zero) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
  %35 = stablehlo.broadcast_in_dim %34, dims = [1, 2] : (tensor<2x16xf32>) -> tensor<1x2x16x24xf32>
  %36 = stablehlo.add %33, %35 : tensor<1x2x16x24xf32>
  %37 = stablehlo.multiply %36, %16 : tensor<1x2x16x24xf32>
  %38 = stablehlo.divide %37, %four : tensor<1x2x16x24xf32>
  %39 = stablehlo.convert %38 : (tensor<1x2x16x24xf32>) -> tensor<1x2x16x24xbf16>
  %40 = stablehlo.dot_general %39, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<1x2x16x24xbf16>, tensor<1x16x2x8xbf16>) -> tensor<1x2x24x8xbf16>
  %41 = stablehlo.dot_general %39, %arg1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<1x2x16x24xbf16>, tensor<1x24x2x8xbf16>) -> tensor<1x2x16x8xbf16>
  return %11, %41, %40, %22, %16 : tensor<1x2x8x16xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x24x8xbf16>, tensor<1x2x8x24xbf16>, tensor<1x2x16x24xf32>
}
