// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-windows,scalify-expand-convolutions))' -split-input-file -verify-diagnostics | FileCheck %s

// A view of places and elements, reduced over the elements.
// CHECK-LABEL: func.func @pool(
// CHECK:       tensor<3x2xf32>
// CHECK:       stablehlo.reduce({{.*}}) across dimensions = [1] : (tensor<3x2xf32>, tensor<f32>) -> tensor<3xf32>
// CHECK:       stablehlo.maximum
// CHECK-NOT:   reduce_window
func.func @pool(%x: tensor<4xf32>, %init: tensor<f32>) -> tensor<3xf32> {
  %m = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %p : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<3xf32>
  return %m : tensor<3xf32>
}

// -----

// Seven steps for 100 elements, each stored: read again it would double.
// CHECK-LABEL: func.func @cumulative(
// CHECK-COUNT-7: stablehlo.add {{.*}} {plan.materialise}
// CHECK-NOT:   stablehlo.add
func.func @cumulative(%x: tensor<100xf32>, %init: tensor<f32>) -> tensor<100xf32> {
  %m = "stablehlo.reduce_window"(%x, %init) <{padding = dense<[[99, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 100>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %p : tensor<f32>
  }) : (tensor<100xf32>, tensor<f32>) -> tensor<100xf32>
  return %m : tensor<100xf32>
}

// -----

func.func @scattered_by_a_product(%x: tensor<4xf32>, %s: tensor<2xf32>, %init: tensor<f32>) -> tensor<4xf32> {
  // expected-error @+1 {{it scatters by something else than a sum}}
  %m = "stablehlo.select_and_scatter"(%x, %s, %init) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.multiply %a, %b : tensor<f32>
    stablehlo.return %p : tensor<f32>
  }) : (tensor<4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  return %m : tensor<4xf32>
}

// -----

// The dot sums over the window and the features; it has the op's phase.
// CHECK-LABEL: func.func @convolution(
// CHECK:       stablehlo.dot_general {{.*}}, batching_dims = [0] x [0], contracting_dims = [4, 3] x [1, 2] {scalify.phase = "forward"} : (tensor<1x2x8x4x3xf32>, tensor<1x3x4x5xf32>) -> tensor<1x2x8x5xf32>
// CHECK-NOT:   stablehlo.convolution
func.func @convolution(%x: tensor<2x8x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<2x8x5xf32> {
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64, scalify.phase = "forward"}
      : (tensor<2x8x4xf32>, tensor<3x4x5xf32>) -> tensor<2x8x5xf32>
  return %y : tensor<2x8x5xf32>
}
