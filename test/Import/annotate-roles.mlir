// RUN: scalify-opt %s --scalify-annotate-roles -split-input-file | FileCheck %s

// By name, and a role that is given stays.
// CHECK-LABEL: @main
// CHECK-SAME: scalify.name = "opt_state[1][0].mu['w']", scalify.role = #scalify.role<moment>
// CHECK-SAME: scalify.name = "opt_state[0].count", scalify.role = #scalify.role<state>
// CHECK-SAME: scalify.name = "state.master['w']", scalify.role = #scalify.role<master>
// CHECK-SAME: scalify.name = "params['scale']", scalify.role = #scalify.role<param>
// CHECK-SAME: scalify.role = #scalify.role<input>
func.func public @main(
    %0: tensor<4xf32> {tf.aliasing_output = 0 : i32, scalify.name = "opt_state[1][0].mu['w']"},
    %1: tensor<i32> {tf.aliasing_output = 1 : i32, scalify.name = "opt_state[0].count"},
    %2: tensor<4xf32> {tf.aliasing_output = 2 : i32, scalify.name = "state.master['w']"},
    %3: tensor<f32> {tf.aliasing_output = 3 : i32, scalify.name = "params['scale']"},
    %4: tensor<4xf32> {scalify.role = #scalify.role<input>})
    -> (tensor<4xf32>, tensor<i32>, tensor<4xf32>, tensor<f32>) {
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<i32>, tensor<4xf32>, tensor<f32>
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

// Nothing donated: what a product has on its right is a weight.
// CHECK-LABEL: @main
// CHECK-SAME: tensor<8x4xf32> {scalify.role = #scalify.role<batch>}
// CHECK-SAME: tensor<5x4xf32> {scalify.role = #scalify.role<param>}
func.func public @main(%x: tensor<8x4xf32>, %w: tensor<5x4xf32>) -> tensor<8x5xf32> {
  %0 = stablehlo.transpose %w, dims = [1, 0] {scalify.phase = #scalify.phase<forward>} : (tensor<5x4xf32>) -> tensor<4x5xf32>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32>
  return %1 : tensor<8x5xf32>
}
