// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-sorts))' | FileCheck %s

// Each element counts those before it; each place takes whose count it is.
// CHECK-LABEL: func.func @short
// CHECK: %[[X:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<4xf32>) -> tensor<4x4xf32>
// CHECK: %[[Y:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<4xf32>) -> tensor<4x4xf32>
// CHECK: stablehlo.compare LT, %[[X]], %[[Y]], TOTALORDER
// CHECK: stablehlo.compare LT, %[[Y]], %[[X]], TOTALORDER
// CHECK: stablehlo.reduce({{.*}} applies stablehlo.add across dimensions = [1] {{.*}} -> tensor<4xi32>
// CHECK: stablehlo.compare EQ
// CHECK: %[[B:.*]] = stablehlo.reduce({{.*}} applies stablehlo.or across dimensions = [1] {{.*}} -> tensor<4xi32>
// CHECK: stablehlo.bitcast_convert %[[B]] : (tensor<4xi32>) -> tensor<4xf32>
func.func @short(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// 65 elements, filled up to 128: 7 * 8 / 2 steps, of two tensors and the places.
// CHECK-LABEL: func.func @long
// CHECK-COUNT-2: stablehlo.pad
// CHECK-COUNT-84: stablehlo.concatenate {{.*}} {plan.materialise}
// CHECK-NOT: stablehlo.concatenate
// CHECK-COUNT-2: stablehlo.slice {{.*}} -> tensor<3x65x{{f32|i32}}>
func.func @long(%x: tensor<3x65xf32>, %i: tensor<3x65xi32>) -> (tensor<3x65xf32>, tensor<3x65xi32>) {
  %s:2 = "stablehlo.sort"(%x, %i) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %p = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<3x65xf32>, tensor<3x65xi32>) -> (tensor<3x65xf32>, tensor<3x65xi32>)
  return %s#0, %s#1 : tensor<3x65xf32>, tensor<3x65xi32>
}
