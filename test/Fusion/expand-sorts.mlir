// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-sorts))' -split-input-file -verify-diagnostics | FileCheck %s

// Places are counts of what goes before, and the values are read from there.
// CHECK-LABEL: func.func @sort(
// CHECK-SAME:    %[[X:.*]]: tensor<2x4xf32>)
// CHECK-DAG:   %[[MINE:.*]] = stablehlo.broadcast_in_dim %[[X]], dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x4xf32>
// CHECK-DAG:   %[[OTHER:.*]] = stablehlo.broadcast_in_dim %[[X]], dims = [0, 2] : (tensor<2x4xf32>) -> tensor<2x4x4xf32>
// CHECK:       stablehlo.compare GT, %[[OTHER]], %[[MINE]]
// CHECK:       stablehlo.compare GT, %[[MINE]], %[[OTHER]]
// CHECK-COUNT-2: applies stablehlo.add across dimensions = [2]
// CHECK:       "stablehlo.gather"(%[[X]]
// CHECK-NOT:   stablehlo.sort
func.func @sort(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = "stablehlo.sort"(%x) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %s : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func.func @long(
func.func @long(%x: tensor<65536xf32>) -> tensor<65536xf32> {
  // expected-remark @+1 {{sorts 65536 elements by comparing each two: 4294967296 comparisons}}
  %s = "stablehlo.sort"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<65536xf32>) -> tensor<65536xf32>
  return %s : tensor<65536xf32>
}
