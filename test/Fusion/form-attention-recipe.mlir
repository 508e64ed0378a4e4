// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-form-attention))' | FileCheck %s --check-prefixes=CHECK,RECIPE
// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-form-attention{level=exact}))' -verify-diagnostics | FileCheck %s --check-prefixes=CHECK,EXACT

// The recipe has cast the operands, and nothing rounds the result: with `exact`
// it stays a product.
// CHECK-LABEL: func.func @cast_by_recipe
// RECIPE: %[[O:.*]]:2 = plan.attend %{{.*}} -> (tensor<2x16x2x8xbf16>, tensor<2x2x16xf32>)
// RECIPE-NOT: dot_general
// RECIPE: stablehlo.convert %{{.*}} : (tensor<2x2x8x16xbf16>) -> tensor<2x2x8x16xf32>
// EXACT-NOT: plan.attend
// CHECK: return
func.func @cast_by_recipe(%arg0: tensor<2x16x2x8xf32>, %arg1: tensor<2x16x2x8xf32>, %arg2: tensor<2x16x2x8xf32>) -> tensor<2x2x8x16xf32> {
  %one = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %q = scalify.quantize %arg0, %one {cast = "c0"} : tensor<2x16x2x8xf32> -> tensor<2x16x2x8xbf16>
  %k = scalify.quantize %arg1, %one {cast = "c1"} : tensor<2x16x2x8xf32> -> tensor<2x16x2x8xbf16>
  %v = scalify.quantize %arg2, %one {cast = "c2"} : tensor<2x16x2x8xf32> -> tensor<2x16x2x8xbf16>
  %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x16x2x8xbf16>) -> tensor<2x2x16x16xf32>
  %1 = stablehlo.reduce(%0 init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x16xf32>
  %3 = stablehlo.subtract %0, %2 : tensor<2x2x16x16xf32>
  %4 = stablehlo.exponential %3 : tensor<2x2x16x16xf32>
  %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x16xf32>
  // expected-remark @+1 {{attention stays GEMMs and kernels: a result is not rounded to the operands' format (library_attention=recipe lets the library round it)}}
  %7 = stablehlo.divide %4, %6 : tensor<2x2x16x16xf32>
  %8 = stablehlo.convert %7 : (tensor<2x2x16x16xf32>) -> tensor<2x2x16x16xbf16>
  %9 = stablehlo.dot_general %v, %8, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x2x16x16xbf16>) -> tensor<2x2x8x16xf32>
  return %9 : tensor<2x2x8x16xf32>
}

// Values that the program has in BF16, and a result that it asks for in F32: no
// level rounds it.
// CHECK-LABEL: func.func @values_of_the_program
// CHECK-NOT: plan.attend
// CHECK: return
func.func @values_of_the_program(%arg0: tensor<2x16x2x8xf32>, %arg1: tensor<2x16x2x8xf32>, %arg2: tensor<2x16x2x8xbf16>) -> tensor<2x2x8x16xf32> {
  %one = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %q = scalify.quantize %arg0, %one {cast = "c0"} : tensor<2x16x2x8xf32> -> tensor<2x16x2x8xbf16>
  %k = scalify.quantize %arg1, %one {cast = "c1"} : tensor<2x16x2x8xf32> -> tensor<2x16x2x8xbf16>
  %v = scalify.quantize %arg2, %one {cast = "c2"} : tensor<2x16x2x8xbf16> -> tensor<2x16x2x8xbf16>
  %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x16x2x8xbf16>) -> tensor<2x2x16x16xf32>
  %1 = stablehlo.reduce(%0 init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x16xf32>
  %3 = stablehlo.subtract %0, %2 : tensor<2x2x16x16xf32>
  %4 = stablehlo.exponential %3 : tensor<2x2x16x16xf32>
  %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x16xf32>
  // expected-remark @+1 {{attention stays GEMMs and kernels: a result is not rounded to the operands' format}}
  %7 = stablehlo.divide %4, %6 : tensor<2x2x16x16xf32>
  %8 = stablehlo.convert %7 : (tensor<2x2x16x16xf32>) -> tensor<2x2x16x16xbf16>
  %9 = stablehlo.dot_general %v, %8, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x16x2x8xbf16>, tensor<2x2x16x16xbf16>) -> tensor<2x2x8x16xf32>
  return %9 : tensor<2x2x8x16xf32>
}
