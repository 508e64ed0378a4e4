// RUN: scalify-opt %s --scalify-chunk-sums | FileCheck %s

// A norm is a sum of chunks of 32: 3072 elements are 64 at least of them, by a
// power of two. 70 elements are summed one by one, in a row.

// CHECK-LABEL: func.func @main
// CHECK: %[[FLAT:.*]] = stablehlo.reshape %arg0 {scalify.phase = #scalify.phase<optimizer>} : (tensor<64x48xf32>) -> tensor<3072xf32>
// CHECK: %[[CHUNKS:.*]] = stablehlo.reshape %[[FLAT]] {{.*}} -> tensor<96x32xf32>
// CHECK: %[[SUMS:.*]] = stablehlo.reduce(%[[CHUNKS]] init: %{{.*}}) applies stablehlo.add across dimensions = [1] {{.*}} -> tensor<96xf32>
// CHECK: %[[N:.*]] = stablehlo.reduce(%[[SUMS]] init: %{{.*}}) applies stablehlo.add across dimensions = [0] {scalify.chunk_sums
// CHECK: %[[ROW:.*]] = stablehlo.reshape %arg1 {{.*}} -> tensor<70xf32>
// CHECK: %[[M:.*]] = stablehlo.reduce(%[[ROW]] init: %{{.*}}) applies stablehlo.add across dimensions = [0]
// The last chunk is filled up.
// CHECK: stablehlo.pad %arg2, {{.*}} high = [1]
// CHECK-NEXT: stablehlo.reshape {{.*}} -> tensor<66x2xf32>
// What the forward sums, and maxima, stay.
// CHECK: stablehlo.reduce(%arg3 {{.*}} dimensions = [0, 1]
// CHECK: stablehlo.reduce(%arg1 {{.*}} stablehlo.maximum
func.func @main(%g: tensor<64x48xf32>, %b: tensor<7x10xf32>, %p: tensor<131xf32>, %loss: tensor<4x8xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reduce(%g init: %zero) applies stablehlo.add across dimensions = [0, 1] {scalify.phase = #scalify.phase<optimizer>} : (tensor<64x48xf32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [0, 1] {scalify.phase = #scalify.phase<optimizer>} : (tensor<7x10xf32>, tensor<f32>) -> tensor<f32>
  %2 = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0] {scalify.phase = #scalify.phase<optimizer>} : (tensor<131xf32>, tensor<f32>) -> tensor<f32>
  %3 = stablehlo.reduce(%loss init: %zero) applies stablehlo.add across dimensions = [0, 1] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
  %4 = stablehlo.reduce(%b init: %zero) applies stablehlo.maximum across dimensions = [0, 1] {scalify.phase = #scalify.phase<optimizer>} : (tensor<7x10xf32>, tensor<f32>) -> tensor<f32>
  return %0, %1, %2, %3, %4 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}
