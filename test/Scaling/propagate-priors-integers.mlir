// RUN: scalify-opt %s --scalify-propagate="remarks=0" | FileCheck %s

// An integer argument has no declared scale. Products of numbers that are made
// of one are marked as if a prior gave its size: those of pixels, and those by
// an integer loss scale. Indices and masks are no such numbers.

// CHECK-LABEL: func.func @main
// CHECK: scalify.scale_hint %{{[0-9]+}}, {{.*}}scalify.by_prior
// CHECK: stablehlo.dot_general {{.*}}scalify.by_prior
// CHECK: stablehlo.multiply {{.*}}scalify.by_prior
// CHECK: stablehlo.gather
// CHECK-NOT: by_prior
// CHECK: return
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
func.func @main(%pixels: tensor<4x64xui8>, %w: tensor<64x8xf32> {scalify.scale = -3 : i32}, %s: tensor<i32>, %tokens: tensor<4x1xi32>, %table: tensor<32x64xf32> {scalify.scale = 0 : i32}, %v: tensor<4x8xf32> {scalify.scale = 0 : i32}) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %x = stablehlo.convert %pixels : (tensor<4x64xui8>) -> tensor<4x64xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %f = stablehlo.convert %s : (tensor<i32>) -> tensor<f32>
  %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
  %scaled = stablehlo.multiply %v, %b : tensor<4x8xf32>
  %e = "stablehlo.gather"(%table, %tokens) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 64>}> : (tensor<32x64xf32>, tensor<4x1xi32>) -> tensor<4x64xf32>
  %z = stablehlo.dot_general %e, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  return %y, %scaled, %z : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
}
