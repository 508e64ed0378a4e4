// RUN: scalify-opt %s --pass-pipeline='builtin.module(scalify-carry-scales,scalify-expand-measured-scales,func.func(scalify-prepare-plan,scalify-form-gemms),scalify-form-plan)' --split-input-file | FileCheck %s

// Scales that steps carry are powers of two, and so are factors of what a step
// measures: casts multiply by the reciprocal, as with constants.
// CHECK: plan.program @step
// CHECK: scalify.quantize %{{.*}}, %{{.*}} {plan.exact_reciprocal} : {{.*}}f8E4M3FN
// CHECK: scalify.quantize %{{.*}}, %{{.*}} {plan.exact_reciprocal} : {{.*}}f8E5M2
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %q = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %a = scalify.dequantize %q, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  %m = scalify.measured_scale l2 %x, %s : tensor<4x8xf32>
  %p = scalify.quantize %x, %m {cast = "c1: x"} : tensor<4x8xf32> -> tensor<4x8xf8E5M2>
  %b = scalify.dequantize %p, %m : tensor<4x8xf8E5M2> -> tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}
}

// -----

// The kernel that casts also takes the statistics, by rows of the value: nobody
// reads it again for them.
// CHECK: plan.program @step
// CHECK: plan.kernel {{.*}} reads({{.*}} : memref<384x144xf32>, memref<1xf32>)
// CHECK: stablehlo.reduce({{.*}} applies stablehlo.maximum across dimensions = [1] : (tensor<384x144xf32>
// CHECK: stablehlo.reduce({{.*}} applies stablehlo.add across dimensions = [1] : (tensor<384x144xi32>
// CHECK: scalify.quantize %{{.*}} {plan.exact_reciprocal} : tensor<384x144xf32>
// CHECK-NOT: reads({{.*}}memref<384x144xf32>
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
func.func @main(%x: tensor<384x144xf32>) -> tensor<384x144xf32> {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %q = scalify.quantize %x, %s {cast = "c0: x"} : tensor<384x144xf32> -> tensor<384x144xf8E4M3FN>
  %a = scalify.dequantize %q, %s : tensor<384x144xf8E4M3FN> -> tensor<384x144xf32>
  return %a : tensor<384x144xf32>
}
}
