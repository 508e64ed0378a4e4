// RUN: scalify-opt %s -o %t --scalify-adapt-scales && scalify-opt %t --pass-pipeline='builtin.module(func.func(scalify-prepare-plan,scalify-form-gemms),scalify-form-plan)' | FileCheck %s

// A kernel reads the scale of its cast from its place in the argument, and is
// otherwise what it is with constants.
// CHECK: plan.program @step
// CHECK-DAG: %[[A:.*]] = plan.argument 1 {plan.offset = 0 : i64} : memref<f32>
// CHECK-DAG: %[[B:.*]] = plan.argument 1 {plan.offset = 4 : i64} : memref<f32>
// CHECK: plan.kernel "quantize_dequantize" reads(%{{.*}}, %[[A]] :
// CHECK: plan.exact_reciprocal
// CHECK: plan.kernel "quantize_dequantize" reads(%{{.*}}, %[[B]] :
// CHECK: plan.exact_reciprocal
// CHECK: plan.program @rescale
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %q = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %a = scalify.dequantize %q, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  %p = scalify.quantize %x, %s {cast = "c1: x"} : tensor<4x8xf32> -> tensor<4x8xf8E5M2>
  %b = scalify.dequantize %p, %s : tensor<4x8xf8E5M2> -> tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}
