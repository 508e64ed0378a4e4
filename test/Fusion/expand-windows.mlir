// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-windows))' | FileCheck %s

// CHECK-LABEL: func.func @pool
// CHECK: %[[W:.*]] = plan.windows %arg0 dims [1] sizes [2] strides [2] dilations [1] {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32> -> tensor<4x4x2xf32>
// CHECK: stablehlo.reduce(%[[W]] init: %arg1) across dimensions = [2] {scalify.phase = #scalify.phase<forward>}
// CHECK: stablehlo.maximum
func.func @pool(%x: tensor<4x8xf32>, %init: tensor<f32>) -> tensor<4x4xf32> {
  %m = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %p : tensor<f32>
  }) {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %m : tensor<4x4xf32>
}

// 33 elements, in 6 steps: each joins those 1, 2, .., 32 before.
// CHECK-LABEL: func.func @prefixes
// CHECK-NOT: plan.windows
// CHECK: %[[S0:.*]] = stablehlo.add %{{.*}}, %arg0 : tensor<33xf32>
// CHECK: %[[P1:.*]] = stablehlo.pad %[[S0]], %[[C:.*]], low = [1], high = [-1], interior = [0]
// CHECK: %[[S1:.*]] = stablehlo.add %[[P1]], %[[S0]] : tensor<33xf32>
// CHECK: %[[P2:.*]] = stablehlo.pad %[[S1]], %[[C]], low = [2], high = [-2]
// CHECK-COUNT-4: stablehlo.pad
// CHECK-NOT: stablehlo.pad
func.func @prefixes(%x: tensor<33xf32>) -> tensor<33xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 33>, padding = dense<[[32, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %p : tensor<f32>
  }) : (tensor<33xf32>, tensor<f32>) -> tensor<33xf32>
  return %m : tensor<33xf32>
}

// What a prefix starts from counts once a result, so steps may not join it.
// CHECK-LABEL: func.func @starts_from_more
// CHECK: plan.windows
func.func @starts_from_more(%x: tensor<33xf32>, %init: tensor<f32>) -> tensor<33xf32> {
  %m = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 33>, padding = dense<[[32, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %p : tensor<f32>
  }) : (tensor<33xf32>, tensor<f32>) -> tensor<33xf32>
  return %m : tensor<33xf32>
}

// Windows say which place they choose; elements sum over windows around them.
// CHECK-LABEL: func.func @gradient
// CHECK: %[[V:.*]] = plan.windows %arg0 dims [0] sizes [3] strides [2] dilations [1] : tensor<9xf32> -> tensor<4x3xf32>
// CHECK: %[[I:.*]] = plan.windows %{{.*}} dims [0] sizes [3] strides [2] dilations [1] : tensor<9xi32> -> tensor<4x3xi32>
// CHECK: %[[R:.*]]:2 = stablehlo.reduce(%[[V]] init: %{{.*}}), (%[[I]] init: %{{.*}}) across dimensions = [1]
// CHECK: %[[G:.*]] = stablehlo.pad %arg1, %{{.*}}, low = [2], high = [2], interior = [1] : (tensor<4xf32>, tensor<f32>) -> tensor<11xf32>
// CHECK: plan.windows %[[G]] dims [0] sizes [3] strides [1] dilations [1] : tensor<11xf32> -> tensor<9x3xf32>
// CHECK: stablehlo.pad %[[R]]#1
// CHECK: stablehlo.compare EQ
// CHECK: stablehlo.select
// CHECK: stablehlo.reduce({{.*}} applies stablehlo.add across dimensions = [1]
func.func @gradient(%x: tensor<9xf32>, %g: tensor<4xf32>, %zero: tensor<f32>) -> tensor<9xf32> {
  %r = "stablehlo.select_and_scatter"(%x, %g, %zero) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %p : tensor<f32>
  }) : (tensor<9xf32>, tensor<4xf32>, tensor<f32>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// A body other than a sum combines the values of the windows that chose the element.
// CHECK-LABEL: @scatter_products
// CHECK: %[[MINE:.*]] = stablehlo.compare EQ
// CHECK: %[[R:.*]]:2 = stablehlo.reduce(%{{.*}} init: %arg2), (%[[MINE]] init: %{{.*}})
// CHECK: %[[BOTH:.*]] = stablehlo.multiply
// CHECK: %[[ONE:.*]] = stablehlo.select
// CHECK: %[[AND:.*]] = stablehlo.and
// CHECK: stablehlo.select %[[AND]], %[[BOTH]], %[[ONE]]
// CHECK: return %[[R]]#0
func.func @scatter_products(%x: tensor<4xf32>, %g: tensor<2xf32>, %one: tensor<f32>) -> tensor<4xf32> {
  %r = "stablehlo.select_and_scatter"(%x, %g, %one) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.multiply %a, %b : tensor<f32>
    stablehlo.return %p : tensor<f32>
  }) : (tensor<4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
