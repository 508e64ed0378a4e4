// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-ragged-dots,canonicalize))' -split-input-file | FileCheck %s

// 64 rows in 3 groups: tiles of 32 rows, of which 3 groups need at most 4.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[X:.*]]: tensor<64x4xf32>, %[[W:.*]]: tensor<3x4x5xf32>
// CHECK: %[[M:.*]] = "stablehlo.gather"(%[[W]], %{{.*}}) {{.*}} -> tensor<4x4x5xf32>
// CHECK: %[[R:.*]] = "stablehlo.gather"(%[[X]], %{{.*}}) {{.*}} -> tensor<4x32x4xf32>
// CHECK: %[[S:.*]] = stablehlo.select %{{.*}}, %[[R]], %{{.*}} : tensor<4x32x4xi1>
// CHECK: %[[P:.*]] = stablehlo.dot_general %[[S]], %[[M]], batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, DEFAULT] {scalify.phase = #scalify.phase<forward>} : {{.*}} -> tensor<4x32x5xf32>
// CHECK: %[[F:.*]] = stablehlo.reshape %[[P]] {{.*}} -> tensor<128x5xf32>
// CHECK: "stablehlo.gather"(%[[F]], %{{.*}}) {{.*}} -> tensor<64x5xf32>
func.func @rows(%x: tensor<64x4xf32>, %w: tensor<3x4x5xf32>, %n: tensor<3xi32>) -> tensor<64x5xf32> {
  %y = "chlo.ragged_dot"(%x, %w, %n) <{precision_config = [#chlo<precision HIGHEST>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> {scalify.phase = #scalify.phase<forward>} : (tensor<64x4xf32>, tensor<3x4x5xf32>, tensor<3xi32>) -> tensor<64x5xf32>
  return %y : tensor<64x5xf32>
}

// -----

// The gradient of the matrices: parts of tiles in F32, of which a group's are
// added.
// CHECK-LABEL: func.func @sums
// CHECK: %[[P:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x32x4xbf16>, tensor<4x32x5xbf16>) -> tensor<4x4x5xf32>
// CHECK: %[[S:.*]] = "stablehlo.scatter"(%{{.*}}, %{{.*}}, %[[P]]) {{.*}}update_window_dims = [1, 2], inserted_window_dims = [0]
// CHECK: stablehlo.add
// CHECK: stablehlo.convert %[[S]] : (tensor<3x4x5xf32>) -> tensor<3x4x5xbf16>
func.func @sums(%x: tensor<64x4xbf16>, %g: tensor<64x5xbf16>, %n: tensor<3xi32>) -> tensor<3x4x5xbf16> {
  %y = "chlo.ragged_dot"(%x, %g, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0]>}> : (tensor<64x4xbf16>, tensor<64x5xbf16>, tensor<3xi32>) -> tensor<3x4x5xbf16>
  return %y : tensor<3x4x5xbf16>
}

// -----

// Batching dimensions have group sizes of their own.
// CHECK-LABEL: func.func @batches
// CHECK: chlo.ragged_dot
func.func @batches(%x: tensor<2x64x4xf32>, %w: tensor<3x2x4x5xf32>, %n: tensor<2x3xi32>) -> tensor<2x64x5xf32> {
  %y = "chlo.ragged_dot"(%x, %w, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]>}> : (tensor<2x64x4xf32>, tensor<3x2x4x5xf32>, tensor<2x3xi32>) -> tensor<2x64x5xf32>
  return %y : tensor<2x64x5xf32>
}
