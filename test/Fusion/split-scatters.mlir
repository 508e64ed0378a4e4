// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-split-scatters))' -split-input-file | FileCheck %s

// Each result reads its own input and update.
// CHECK-LABEL: func.func @separate
// CHECK-SAME: (%[[A:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xi32>, %[[I:.*]]: tensor<3x1xi32>, %[[U:.*]]: tensor<3xf32>, %[[V:.*]]: tensor<3xi32>)
// CHECK: %[[X:.*]] = "stablehlo.scatter"(%[[A]], %[[I]], %[[U]])
// CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<f32>, %[[Q:.*]]: tensor<f32>)
// CHECK-NEXT: stablehlo.add %[[P]], %[[Q]]
// CHECK-NEXT: stablehlo.return
// CHECK: %[[Y:.*]] = "stablehlo.scatter"(%[[B]], %[[I]], %[[V]])
// CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<i32>, %[[Q:.*]]: tensor<i32>)
// CHECK-NEXT: stablehlo.maximum %[[P]], %[[Q]]
// CHECK: return %[[X]], %[[Y]]
func.func @separate(%a: tensor<8xf32>, %b: tensor<8xi32>, %i: tensor<3x1xi32>, %u: tensor<3xf32>, %v: tensor<3xi32>) -> (tensor<8xf32>, tensor<8xi32>) {
  %0:2 = "stablehlo.scatter"(%a, %b, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<i32>, %p: tensor<f32>, %q: tensor<i32>):
    %s = stablehlo.add %x, %p : tensor<f32>
    %t = stablehlo.maximum %y, %q : tensor<i32>
    stablehlo.return %s, %t : tensor<f32>, tensor<i32>
  }) : (tensor<8xf32>, tensor<8xi32>, tensor<3x1xi32>, tensor<3xf32>, tensor<3xi32>) -> (tensor<8xf32>, tensor<8xi32>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xi32>
}

// -----

// The position depends on the values: a loop over the three updates.
// CHECK-LABEL: func.func @largest
// CHECK-NOT: stablehlo.scatter
// CHECK: %[[LOOP:.*]]:3 = stablehlo.while
// CHECK: stablehlo.constant dense<3> : tensor<i64>
// CHECK: } do {
// CHECK: %[[FROM:.*]] = stablehlo.and
// CHECK: %[[INSIDE:.*]] = stablehlo.and %[[FROM]]
// CHECK: stablehlo.compare GT
// CHECK: stablehlo.select %[[INSIDE]]
// CHECK: stablehlo.dynamic_update_slice
// CHECK: stablehlo.dynamic_update_slice
// CHECK: return %[[LOOP]]#1, %[[LOOP]]#2
func.func @largest(%a: tensor<8xf32>, %b: tensor<8xi32>, %i: tensor<3x1xi32>, %u: tensor<3xf32>, %v: tensor<3xi32>) -> (tensor<8xf32>, tensor<8xi32>) {
  %0:2 = "stablehlo.scatter"(%a, %b, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<i32>, %p: tensor<f32>, %q: tensor<i32>):
    %more = stablehlo.compare GT, %p, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %s = stablehlo.select %more, %p, %x : tensor<i1>, tensor<f32>
    %t = stablehlo.select %more, %q, %y : tensor<i1>, tensor<i32>
    stablehlo.return %s, %t : tensor<f32>, tensor<i32>
  }) : (tensor<8xf32>, tensor<8xi32>, tensor<3x1xi32>, tensor<3xf32>, tensor<3xi32>) -> (tensor<8xf32>, tensor<8xi32>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xi32>
}

// -----

// Nothing is updated.
// CHECK-LABEL: func.func @empty
// CHECK-SAME: (%[[A:.*]]: tensor<0xf32>, %[[B:.*]]: tensor<0xi32>,
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @empty(%a: tensor<0xf32>, %b: tensor<0xi32>, %i: tensor<3x1xi32>, %u: tensor<3xf32>, %v: tensor<3xi32>) -> (tensor<0xf32>, tensor<0xi32>) {
  %0:2 = "stablehlo.scatter"(%a, %b, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<i32>, %p: tensor<f32>, %q: tensor<i32>):
    %more = stablehlo.compare GT, %p, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %s = stablehlo.select %more, %p, %x : tensor<i1>, tensor<f32>
    %t = stablehlo.select %more, %q, %y : tensor<i1>, tensor<i32>
    stablehlo.return %s, %t : tensor<f32>, tensor<i32>
  }) : (tensor<0xf32>, tensor<0xi32>, tensor<3x1xi32>, tensor<3xf32>, tensor<3xi32>) -> (tensor<0xf32>, tensor<0xi32>)
  return %0#0, %0#1 : tensor<0xf32>, tensor<0xi32>
}
