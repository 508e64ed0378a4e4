// RUN: scalify-opt %s --scalify-annotate-roles -split-input-file | FileCheck %s

// Gradients alone, and a batch of the weights' type: it is no operand of the
// update, for no result is its gradient.
// CHECK: func.func public @main(%{{.*}}: tensor<4x4xf32> {scalify.role = #scalify.role<param>}
// CHECK-SAME: tensor<4x4xf32> {scalify.role = #scalify.role<batch>}
func.func public @main(%w: tensor<4x4xf32>, %x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = stablehlo.sine %y {scalify.phase = #scalify.phase<backward>} : tensor<4x4xf32>
  %dw = stablehlo.dot_general %x, %d, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %dw : tensor<4x4xf32>
}

// -----

// Where the input is what is trained, as an adversary's, it is the parameter.
// CHECK: func.func public @main(%{{.*}}: tensor<4x4xf32> {scalify.role = #scalify.role<batch>}
// CHECK-SAME: tensor<4x4xf32> {scalify.role = #scalify.role<param>}
func.func public @main(%w: tensor<4x4xf32>, %x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = stablehlo.sine %y {scalify.phase = #scalify.phase<backward>} : tensor<4x4xf32>
  %dx = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %dx : tensor<4x4xf32>
}
