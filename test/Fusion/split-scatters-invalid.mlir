// RUN: not scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-split-scatters))' 2>&1 | FileCheck %s

// The results depend on each other, and a branch has no meaning for elements.
func.func @main(%a: tensor<8xf32>, %b: tensor<8xi32>, %i: tensor<3x1xi32>, %u: tensor<3xf32>, %v: tensor<3xi32>) -> (tensor<8xf32>, tensor<8xi32>) {
  // CHECK: error: 'stablehlo.scatter' op combines elements by 'stablehlo.if'
  %0:2 = "stablehlo.scatter"(%a, %b, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<i32>, %p: tensor<f32>, %q: tensor<i32>):
    %more = stablehlo.compare GT, %p, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %t = "stablehlo.if"(%more) ({
      stablehlo.return %q : tensor<i32>
    }, {
      stablehlo.return %y : tensor<i32>
    }) : (tensor<i1>) -> tensor<i32>
    stablehlo.return %x, %t : tensor<f32>, tensor<i32>
  }) : (tensor<8xf32>, tensor<8xi32>, tensor<3x1xi32>, tensor<3xf32>, tensor<3xi32>) -> (tensor<8xf32>, tensor<8xi32>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xi32>
}
