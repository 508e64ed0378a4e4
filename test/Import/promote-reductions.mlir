// RUN: scalify-opt %s --scalify-expand-chlo | FileCheck %s
// RUN: scalify-compile %s -o %t

// A region may compute in wider elements than those that a reduction reads.

// CHECK-LABEL: @main
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[Z:.*]]: tensor<f32>
// CHECK: %[[WX:.*]] = stablehlo.convert %[[X]] : (tensor<4x8xf32>) -> tensor<4x8xf64>
// CHECK: %[[WZ:.*]] = stablehlo.convert %[[Z]] : (tensor<f32>) -> tensor<f64>
// CHECK: stablehlo.reduce(%[[WX]] init: %[[WZ]]) across dimensions = [1] : (tensor<4x8xf64>, tensor<f64>) -> tensor<4xf64>
// CHECK: "stablehlo.reduce_window"(%{{.*}}, %{{.*}})
// CHECK: (tensor<4x8xf64>, tensor<f64>) -> tensor<4x7xf64>
// CHECK: %[[A:.*]] = stablehlo.convert %{{.*}} : (tensor<4xi8>) -> tensor<4xi32>
// CHECK: stablehlo.reduce(%[[A]] init: %{{.*}}) across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
func.func @main(%x: tensor<4x8xf32>, %z: tensor<f32>, %a: tensor<4xi8>, %n: tensor<i32>) -> (tensor<4xf64>, tensor<4x7xf64>, tensor<i32>) {
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%l: tensor<f64>, %r: tensor<f64>):
    %s = stablehlo.add %l, %r : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf64>
  %1 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 1, 2>}> ({
  ^bb0(%l: tensor<f64>, %r: tensor<f64>):
    %s = stablehlo.maximum %l, %r : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x7xf64>
  %2 = "stablehlo.reduce"(%a, %n) <{dimensions = array<i64: 0>}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %s = stablehlo.add %l, %r : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<4xi8>, tensor<i32>) -> tensor<i32>
  return %0, %1, %2 : tensor<4xf64>, tensor<4x7xf64>, tensor<i32>
}

// CHECK-LABEL: @devices
// CHECK: %[[W:.*]] = stablehlo.convert %{{.*}} : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK: "stablehlo.all_reduce"(%[[W]])
// CHECK: (tensor<4xf32>) -> tensor<4xf32>
func.func private @devices(%x: tensor<4xbf16>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xbf16>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
