// RUN: scalify-opt %s --scalify-propagate="remarks=0" | FileCheck %s

// The result of an op without a rule counts as 2^0. Products of it, and of a
// quotient of two such results, are marked as if a prior gave its size; those of
// other values are not.

// CHECK-LABEL: func.func @main
// CHECK: scalify.scale_hint %{{[0-9]+}}, {{.*}}scalify.by_prior
// CHECK: stablehlo.dot_general {{.*}}scalify.by_prior
// CHECK: stablehlo.divide {{.*}}scalify.by_prior
// CHECK: scalify.scale_hint %{{[0-9]+}}, {{.*}}scalify.by_prior
// CHECK: stablehlo.dot_general {{.*}}scalify.by_prior
// CHECK-NOT: by_prior
// CHECK: return
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
func.func @main(%b: tensor<4x64xf32> {scalify.scale = 0 : i32}, %w: tensor<64x8xf32> {scalify.scale = -3 : i32}) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %x = stablehlo.custom_call @solve(%b) : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %u = stablehlo.custom_call @solve(%b) : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %q = stablehlo.divide %x, %u : tensor<4x64xf32>
  %p = stablehlo.dot_general %q, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %z = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  return %y, %p, %z : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
}
