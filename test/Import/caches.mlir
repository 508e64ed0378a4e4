// A cache is state, forward-only, and no sign of training: slices of it are
// overwritten, also inside of a loop, donated or not.
//
// RUN: scalify-opt %s --split-input-file --scalify-annotate-phases --scalify-annotate-roles --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func public @main
// CHECK-SAME:    %[[CACHE:[a-z0-9]+]]: tensor<4x2xf32> {scalify.role = #scalify.role<state>, tf.aliasing_output = 0 : i32}
// CHECK-SAME:    %[[NEW:[a-z0-9]+]]: tensor<2xf32> {scalify.role = #scalify.role<batch>}
// CHECK:         stablehlo.dynamic_update_slice {{.*}} {scalify.phase = #scalify.phase<forward>}
func.func public @main(%cache: tensor<4x2xf32> {tf.aliasing_output = 0 : i32}, %new: tensor<2xf32>, %at: tensor<i32>) -> (tensor<4x2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %row = stablehlo.reshape %new : (tensor<2xf32>) -> tensor<1x2xf32>
  %next = stablehlo.dynamic_update_slice %cache, %row, %at, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
  %out = stablehlo.dot_general %next, %next, contracting_dims = [0] x [0] : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  %sum = stablehlo.dot_general %out, %new, contracting_dims = [0] x [0] : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %next, %sum : tensor<4x2xf32>, tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func public @main
// CHECK-SAME:    tensor<4x2xf32> {scalify.role = #scalify.role<state>}
func.func public @main(%cache: tensor<4x2xf32>, %other: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<4> : tensor<i32>
  %row = stablehlo.slice %other [0:1, 0:2] : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %i, %filled = stablehlo.while(%n = %zero, %part = %cache) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %n, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.add %n, %one : tensor<i32>
    %written = stablehlo.dynamic_update_slice %part, %row, %n, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    stablehlo.return %m, %written : tensor<i32>, tensor<4x2xf32>
  }
  %twice = stablehlo.add %other, %other : tensor<4x2xf32>
  return %filled, %twice : tensor<4x2xf32>, tensor<4x2xf32>
}

// -----

// What is added to is trained.
// expected-warning@+1 {{no scalar float result that could be the loss}}
func.func public @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %g: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.subtract %w, %g : tensor<4xf32>
  return %0 : tensor<4xf32>
}
