// RUN: scalify-opt %s --scalify-align-donation -split-input-file | FileCheck %s

// Results are returned in another order than arguments are donated: each alias
// is the next value. What has none takes what is left.
// CHECK-LABEL: @main
// CHECK-SAME: %[[M:.*]]: tensor<4x4xf32> {scalify.name = "m", tf.aliasing_output = 1 : i32}
// CHECK-SAME: %[[P:.*]]: tensor<4x4xf32> {scalify.name = "p", tf.aliasing_output = 0 : i32}
// CHECK-SAME: %[[X:.*]]: tensor<4x4xf32> {scalify.name = "x", tf.aliasing_output = 2 : i32}
// CHECK-SAME: %[[Y:.*]]: tensor<4x4xf32> {scalify.name = "y"}
func.func public @main(
    %m: tensor<4x4xf32> {scalify.name = "m", tf.aliasing_output = 0 : i32},
    %p: tensor<4x4xf32> {scalify.name = "p", tf.aliasing_output = 2 : i32},
    %x: tensor<4x4xf32> {scalify.name = "x", tf.aliasing_output = 1 : i32},
    %y: tensor<4x4xf32> {scalify.name = "y"})
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %h = stablehlo.dot_general %x, %p, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = stablehlo.subtract %h, %y {scalify.phase = #scalify.phase<forward>} : tensor<4x4xf32>
  %s = stablehlo.sine %d {scalify.phase = #scalify.phase<backward>} : tensor<4x4xf32>
  %g = stablehlo.dot_general %x, %s, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %m1 = stablehlo.add %m, %g {scalify.phase = #scalify.phase<optimizer>} : tensor<4x4xf32>
  %p1 = stablehlo.subtract %p, %m1 {scalify.phase = #scalify.phase<optimizer>} : tensor<4x4xf32>
  return %p1, %m1, %d : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A next value that no argument aliases is taken; one of another sharding is not.
// CHECK-LABEL: @main
// CHECK-SAME: {scalify.name = "p", tf.aliasing_output = 1 : i32}
// CHECK-SAME: {mhlo.sharding = "a", scalify.name = "q", tf.aliasing_output = 2 : i32}
func.func public @main(
    %p: tensor<4x4xf32> {scalify.name = "p", tf.aliasing_output = 0 : i32},
    %q: tensor<4x4xf32> {mhlo.sharding = "a", scalify.name = "q", tf.aliasing_output = 2 : i32},
    %x: tensor<4x4xf32> {scalify.name = "x"})
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32> {mhlo.sharding = "a"}, tensor<4x4xf32> {mhlo.sharding = "b"}) {
  %w = stablehlo.add %p, %q {scalify.phase = #scalify.phase<forward>} : tensor<4x4xf32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = stablehlo.sine %h {scalify.phase = #scalify.phase<backward>} : tensor<4x4xf32>
  %g = stablehlo.dot_general %x, %s, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %p1 = stablehlo.subtract %p, %g {scalify.phase = #scalify.phase<optimizer>} : tensor<4x4xf32>
  %q1 = stablehlo.subtract %q, %g {scalify.phase = #scalify.phase<optimizer>} : tensor<4x4xf32>
  return %g, %p1, %s, %q1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
