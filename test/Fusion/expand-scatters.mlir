// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-scatters))' -split-input-file | FileCheck %s

// What the gradient of a cross entropy by labels is: one element a row.
// CHECK-LABEL: func.func @labels
// CHECK-SAME: (%[[LABEL:.*]]: tensor<4x3x1x1xi32>, %[[G:.*]]: tensor<4x3x1xf32>)
// CHECK-NOT: scatter
// CHECK-DAG: %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x3x8xf32>
// CHECK: %[[L:.*]] = stablehlo.reshape %[[LABEL]] {scalify.phase = #scalify.phase<backward>} : (tensor<4x3x1x1xi32>) -> tensor<4x3xi32>
// CHECK: %[[W:.*]] = stablehlo.broadcast_in_dim %[[L]], dims = [0, 1] {scalify.phase = #scalify.phase<backward>}
// CHECK: %[[P:.*]] = stablehlo.iota dim = 2 {scalify.phase = #scalify.phase<backward>} : tensor<4x3x8xi32>
// CHECK: %[[IS:.*]] = stablehlo.compare EQ, %[[P]], %[[W]] {scalify.phase = #scalify.phase<backward>}
// CHECK: %[[R:.*]] = stablehlo.reshape %[[G]] {{.*}} -> tensor<4x3xf32>
// CHECK: %[[U:.*]] = stablehlo.broadcast_in_dim %[[R]], dims = [0, 1]
// CHECK: %[[S:.*]] = stablehlo.add %[[ZEROS]], %[[U]] {scalify.phase = #scalify.phase<backward>}
// CHECK: stablehlo.select %[[IS]], %[[S]], %[[ZEROS]] {scalify.phase = #scalify.phase<backward>}
func.func @labels(%label: tensor<4x3x1x1xi32>, %g: tensor<4x3x1xf32>) -> tensor<4x3x8xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<4x3x8xf32>
  %r = "stablehlo.scatter"(%zeros, %label, %g) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, indices_are_sorted = false, unique_indices = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {scalify.phase = #scalify.phase<backward>} : (tensor<4x3x8xf32>, tensor<4x3x1x1xi32>, tensor<4x3x1xf32>) -> tensor<4x3x8xf32>
  return %r : tensor<4x3x8xf32>
}

// -----

// Two elements a row may meet.
// CHECK-LABEL: func.func @two
// CHECK: stablehlo.scatter
func.func @two(%at: tensor<4x2x1xi32>, %g: tensor<4x2xf32>) -> tensor<4x8xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<4x8xf32>
  %r = "stablehlo.scatter"(%zeros, %at, %g) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, indices_are_sorted = false, unique_indices = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<4x2x1xi32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// -----

// Data are in memory, and of a row of them one element changes.
// CHECK-LABEL: func.func @data
// CHECK: stablehlo.scatter
func.func @data(%x: tensor<4x8xf32>, %at: tensor<4x1x1xi32>, %g: tensor<4x1xf32>) -> tensor<4x8xf32> {
  %r = "stablehlo.scatter"(%x, %at, %g) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, indices_are_sorted = false, unique_indices = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<4x1x1xi32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// -----

// 200 places are more than an i8 counts.
// CHECK-LABEL: func.func @small_indices
// CHECK: stablehlo.scatter
func.func @small_indices(%at: tensor<4x1x1xi8>, %g: tensor<4x1xf32>) -> tensor<4x200xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<4x200xf32>
  %r = "stablehlo.scatter"(%zeros, %at, %g) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, indices_are_sorted = false, unique_indices = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x200xf32>, tensor<4x1x1xi8>, tensor<4x1xf32>) -> tensor<4x200xf32>
  return %r : tensor<4x200xf32>
}
