// RUN: scalify-opt %s --scalify-return-gradients -split-input-file | FileCheck %s

// The optimizer reads two gradients, of which the caller gets neither. A number
// and constants are no gradients; what only the update needs is gone.
// CHECK-LABEL: @main
// CHECK-SAME: %[[P:.*]]: tensor<4x2xf32> {scalify.name = "p"}
// CHECK-SAME: %[[B:.*]]: tensor<2xf32> {scalify.name = "b"}
// CHECK-SAME: %[[X:.*]]: tensor<8x4xf32>
// CHECK-SAME: -> (tensor<2xf32> {scalify.of_each_rank}, tensor<4x2xf32> {scalify.of_each_rank})
// CHECK: %[[S:.*]] = stablehlo.sine
// CHECK: %[[GB:.*]] = stablehlo.reduce(%[[S]]
// CHECK: %[[GP:.*]] = stablehlo.dot_general %[[X]], %[[S]]
// CHECK-NEXT: return %[[GB]], %[[GP]] : tensor<2xf32>, tensor<4x2xf32>
func.func public @main(
    %p: tensor<4x2xf32> {scalify.name = "p", tf.aliasing_output = 0 : i32},
    %b: tensor<2xf32> {scalify.name = "b", tf.aliasing_output = 1 : i32},
    %x: tensor<8x4xf32>)
    -> (tensor<4x2xf32> {jax.result_info = "p"}, tensor<2xf32>, tensor<f32>) {
  %zero = stablehlo.constant {scalify.phase = #scalify.phase<forward>} dense<0.0> : tensor<f32>
  %rate = stablehlo.constant {scalify.phase = #scalify.phase<backward>} dense<0.1> : tensor<2xf32>
  %h = stablehlo.dot_general %x, %p, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %loss = stablehlo.reduce(%h init: %zero) applies stablehlo.add across dimensions = [0, 1] {scalify.phase = #scalify.phase<forward>} : (tensor<8x2xf32>, tensor<f32>) -> tensor<f32>
  %s = stablehlo.sine %h {scalify.phase = #scalify.phase<backward>} : tensor<8x2xf32>
  %gb = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0] {scalify.phase = #scalify.phase<backward>} : (tensor<8x2xf32>, tensor<f32>) -> tensor<2xf32>
  %gp = stablehlo.dot_general %x, %s, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %p1 = stablehlo.subtract %p, %gp {scalify.phase = #scalify.phase<optimizer>} : tensor<4x2xf32>
  %step = stablehlo.multiply %gb, %rate {scalify.phase = #scalify.phase<optimizer>} : tensor<2xf32>
  %b1 = stablehlo.subtract %b, %step {scalify.phase = #scalify.phase<optimizer>} : tensor<2xf32>
  return %p1, %b1, %loss : tensor<4x2xf32>, tensor<2xf32>, tensor<f32>
}

// -----

// A program without a backward returns nothing.
// CHECK-LABEL: @main
// CHECK-SAME: (%{{.*}}: tensor<4xf32>) {
// CHECK-NEXT: return
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.sine %x {scalify.phase = #scalify.phase<forward>} : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A loop over micro-batches is in the backward: its sum of gradients is one,
// its stack of activations and its counter are none.
// CHECK-LABEL: @main
// CHECK-SAME: -> (tensor<4x2xf32> {scalify.of_each_rank})
// CHECK: %[[LOOP:.*]]:3 = stablehlo.while
// CHECK: return %[[LOOP]]#1 : tensor<4x2xf32>
func.func public @main(%p: tensor<4x2xf32>, %x: tensor<8x4xf32>) -> (tensor<4x2xf32>, tensor<3x2xf32>) {
  %i0 = stablehlo.constant {scalify.phase = #scalify.phase<backward>} dense<0> : tensor<i32>
  %g0 = stablehlo.constant {scalify.phase = #scalify.phase<backward>} dense<0.0> : tensor<4x2xf32>
  %s0 = stablehlo.constant {scalify.phase = #scalify.phase<backward>} dense<0.0> : tensor<3x2xf32>
  %n = stablehlo.constant {scalify.phase = #scalify.phase<backward>} dense<3> : tensor<i32>
  %r:3 = stablehlo.while(%i = %i0, %g = %g0, %s = %s0) : tensor<i32>, tensor<4x2xf32>, tensor<3x2xf32> attributes {scalify.phase = #scalify.phase<backward>}
  cond {
    %go = stablehlo.compare LT, %i, %n, SIGNED {scalify.phase = #scalify.phase<backward>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %one = stablehlo.constant {scalify.phase = #scalify.phase<backward>} dense<1> : tensor<i32>
    %zero = stablehlo.constant {scalify.phase = #scalify.phase<backward>} dense<0> : tensor<i32>
    %next = stablehlo.add %i, %one {scalify.phase = #scalify.phase<backward>} : tensor<i32>
    %h = stablehlo.dot_general %x, %p, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
    %d = stablehlo.sine %h {scalify.phase = #scalify.phase<backward>} : tensor<8x2xf32>
    %gw = stablehlo.dot_general %x, %d, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %sum = stablehlo.add %g, %gw {scalify.phase = #scalify.phase<backward>} : tensor<4x2xf32>
    %row = stablehlo.slice %h [0:1, 0:2] {scalify.phase = #scalify.phase<forward>} : (tensor<8x2xf32>) -> tensor<1x2xf32>
    %stack = stablehlo.dynamic_update_slice %s, %row, %i, %zero {scalify.phase = #scalify.phase<backward>} : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<3x2xf32>
    stablehlo.return %next, %sum, %stack : tensor<i32>, tensor<4x2xf32>, tensor<3x2xf32>
  }
  %p1 = stablehlo.subtract %p, %r#1 {scalify.phase = #scalify.phase<optimizer>} : tensor<4x2xf32>
  return %p1, %r#2 : tensor<4x2xf32>, tensor<3x2xf32>
}
