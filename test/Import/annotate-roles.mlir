// RUN: scalify-opt %s --scalify-annotate-roles -split-input-file | FileCheck %s

// By the flow of gradients, whatever names say; a role that is given stays. A
// scalar that the forward reads and gradients update is a parameter; one that a
// choice by gradients updates, as a loss scale, is none. Means of rows have the
// shape of a parameter without a dimension.
// CHECK-LABEL: @main
// CHECK-SAME: scalify.name = "nu", scalify.role = #scalify.role<param>
// CHECK-SAME: scalify.name = "mu['w']", scalify.role = #scalify.role<param>
// CHECK-SAME: scalify.name = "params['scale']", scalify.role = #scalify.role<state>
// CHECK-SAME: scalify.name = "params['rows']", scalify.role = #scalify.role<moment>
// CHECK-SAME: scalify.name = "params['blocks']", scalify.role = #scalify.role<state>
// CHECK-SAME: scalify.name = "params['count']", scalify.role = #scalify.role<state>
// CHECK-SAME: scalify.role = #scalify.role<input>
func.func public @main(
    %t: tensor<f32> {tf.aliasing_output = 0 : i32, scalify.name = "nu"},
    %w: tensor<4x8xf32> {tf.aliasing_output = 1 : i32, scalify.name = "mu['w']"},
    %scale: tensor<f32> {tf.aliasing_output = 2 : i32, scalify.name = "params['scale']"},
    %rows: tensor<4xf32> {tf.aliasing_output = 3 : i32, scalify.name = "params['rows']"},
    %blocks: tensor<2xf32> {tf.aliasing_output = 4 : i32, scalify.name = "params['blocks']"},
    %count: tensor<i32> {tf.aliasing_output = 5 : i32, scalify.name = "params['count']"},
    %x: tensor<4x8xf32> {scalify.role = #scalify.role<input>})
    -> (tensor<f32>, tensor<4x8xf32>, tensor<f32>, tensor<4xf32>, tensor<2xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %all = stablehlo.broadcast_in_dim %t, dims = [] {scalify.phase = #scalify.phase<forward>} : (tensor<f32>) -> tensor<4x8xf32>
  %y = stablehlo.multiply %w, %all {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
  %g = stablehlo.multiply %y, %x {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
  %gt = stablehlo.reduce(%g init: %zero) applies stablehlo.add across dimensions = [0, 1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
  %t1 = stablehlo.subtract %t, %gt {scalify.phase = #scalify.phase<optimizer>} : tensor<f32>
  %w1 = stablehlo.subtract %w, %g {scalify.phase = #scalify.phase<optimizer>} : tensor<4x8xf32>
  %fine = stablehlo.compare LT, %gt, %scale {scalify.phase = #scalify.phase<optimizer>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %half = stablehlo.multiply %scale, %scale {scalify.phase = #scalify.phase<optimizer>} : tensor<f32>
  %scale1 = stablehlo.select %fine, %half, %scale {scalify.phase = #scalify.phase<optimizer>} : tensor<i1>, tensor<f32>
  %squares = stablehlo.multiply %g, %g {scalify.phase = #scalify.phase<optimizer>} : tensor<4x8xf32>
  %means = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [1] {scalify.phase = #scalify.phase<optimizer>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %rows1 = stablehlo.add %rows, %means {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
  %pairs = stablehlo.reshape %means {scalify.phase = #scalify.phase<optimizer>} : (tensor<4xf32>) -> tensor<2x2xf32>
  %blocks1 = stablehlo.reduce(%pairs init: %zero) applies stablehlo.add across dimensions = [1] {scalify.phase = #scalify.phase<optimizer>} : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
  return %t1, %w1, %scale1, %rows1, %blocks1, %count : tensor<f32>, tensor<4x8xf32>, tensor<f32>, tensor<4xf32>, tensor<2xf32>, tensor<i32>
}

// -----

// By use: a narrow param with its wide master, a moment, a scale, and inputs.
// CHECK-LABEL: @main
// CHECK-SAME: tensor<4xbf16> {scalify.role = #scalify.role<param>
// CHECK-SAME: tensor<4xf32> {scalify.role = #scalify.role<master>
// CHECK-SAME: tensor<4xf32> {scalify.role = #scalify.role<moment>
// CHECK-SAME: tensor<3xf32> {scalify.role = #scalify.role<state>
// CHECK-SAME: tensor<f32> {scalify.role = #scalify.role<state>
// CHECK-SAME: tensor<2xui32> {scalify.role = #scalify.role<input>}
// CHECK-SAME: tensor<8xi32> {scalify.role = #scalify.role<batch>}
// CHECK-SAME: tensor<4xf32> {scalify.role = #scalify.role<batch>}
// CHECK-SAME: tensor<f32> {scalify.role = #scalify.role<scalar>}
func.func public @main(
    %w: tensor<4xbf16> {tf.aliasing_output = 0 : i32},
    %master: tensor<4xf32> {tf.aliasing_output = 1 : i32},
    %m: tensor<4xf32> {tf.aliasing_output = 2 : i32},
    %other: tensor<3xf32> {tf.aliasing_output = 3 : i32},
    %scale: tensor<f32> {tf.aliasing_output = 4 : i32},
    %key: tensor<2xui32>, %tokens: tensor<8xi32>, %x: tensor<4xf32>,
    %rate: tensor<f32>)
    -> (tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<f32>) {
  %0 = stablehlo.negate %w {scalify.phase = #scalify.phase<forward>} : tensor<4xbf16>
  %1 = stablehlo.add %m, %master {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
  %2 = stablehlo.convert %1 {scalify.phase = #scalify.phase<optimizer>} : (tensor<4xf32>) -> tensor<4xbf16>
  return %2, %1, %m, %other, %scale : tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<f32>
}

// -----

// Experts: a product with a batch dimension of an argument, beside a computed
// left-hand side. Where both sides are computed neither is a weight.
// CHECK-LABEL: @main
// CHECK-SAME: tensor<2x4x8xf32> {scalify.role = #scalify.role<batch>}
// CHECK-SAME: tensor<2x8x3xf32> {scalify.role = #scalify.role<param>}
func.func public @main(%x: tensor<2x4x8xf32>, %w: tensor<2x8x3xf32>) -> tensor<2x4x4xf32> {
  %t = stablehlo.tanh %x {scalify.phase = #scalify.phase<forward>} : tensor<2x4x8xf32>
  %y = stablehlo.dot_general %t, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] {scalify.phase = #scalify.phase<forward>} : (tensor<2x4x8xf32>, tensor<2x8x3xf32>) -> tensor<2x4x3xf32>
  %z = stablehlo.dot_general %y, %y, batching_dims = [0] x [0], contracting_dims = [2] x [2] {scalify.phase = #scalify.phase<forward>} : (tensor<2x4x3xf32>, tensor<2x4x3xf32>) -> tensor<2x4x4xf32>
  return %z : tensor<2x4x4xf32>
}

// -----

// A forward alone has no state, though its result has its input's type.
// CHECK-LABEL: @main
// CHECK-SAME: tensor<8x4xf32> {scalify.role = #scalify.role<batch>}
// CHECK-SAME: tensor<4x4xf32> {scalify.role = #scalify.role<param>}
func.func public @main(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

// Nothing donated: what a product has on its right is a weight.
// CHECK-LABEL: @main
// CHECK-SAME: tensor<8x4xf32> {scalify.role = #scalify.role<batch>}
// CHECK-SAME: tensor<5x4xf32> {scalify.role = #scalify.role<param>}
func.func public @main(%x: tensor<8x4xf32>, %w: tensor<5x4xf32>) -> tensor<8x5xf32> {
  %0 = stablehlo.transpose %w, dims = [1, 0] {scalify.phase = #scalify.phase<forward>} : (tensor<5x4xf32>) -> tensor<4x5xf32>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32>
  return %1 : tensor<8x5xf32>
}
