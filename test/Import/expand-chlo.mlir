// RUN: scalify-opt %s --scalify-expand-chlo | FileCheck %s

// The accuracy of the expansions is the subject of test/python/test_import.py.

// CHECK-LABEL: @square
// CHECK-NEXT: %[[R:.*]] = stablehlo.multiply %arg0, %arg0 : tensor<4xbf16>
// CHECK-NEXT: return %[[R]]
func.func @square(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = chlo.square %x : tensor<4xbf16> -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// CHECK-LABEL: @tan
// CHECK-NEXT: stablehlo.tan %arg0 : tensor<4xf32>
func.func @tan(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = chlo.tan %x : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// 16-bit types are computed in f32.
// CHECK-LABEL: @erf_bf16
// CHECK-NEXT: stablehlo.convert %arg0 : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK-NOT: tensor<4xbf16>
// CHECK: %[[R:.*]] = stablehlo.convert %{{.*}} : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK-NEXT: return %[[R]]
func.func @erf_bf16(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = chlo.erf %x : tensor<4xbf16> -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// CHECK-LABEL: @is_inf
// CHECK: %[[ABS:.*]] = stablehlo.abs %arg0
// CHECK: %[[INF:.*]] = stablehlo.constant dense<0x7F800000>
// CHECK: stablehlo.compare EQ, %[[ABS]], %[[INF]], FLOAT
// CHECK: %[[NEG:.*]] = stablehlo.constant dense<0xFF800000>
// CHECK: stablehlo.compare EQ, %arg0, %[[NEG]], FLOAT
func.func @is_inf(%x: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xi1>) {
  %0 = chlo.is_inf %x : tensor<4xf32> -> tensor<4xi1>
  %1 = chlo.is_neg_inf %x : tensor<4xf32> -> tensor<4xi1>
  return %0, %1 : tensor<4xi1>, tensor<4xi1>
}

// What has no expansion stays, for --scalify-validate-import to name.
// CHECK-LABEL: @kept
// CHECK: chlo.mulhi {{.*}} tensor<4xi64>
func.func @kept(%x: tensor<4xi64>) -> tensor<4xi64> {
  %0 = chlo.mulhi %x, %x : tensor<4xi64>, tensor<4xi64> -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// The first of a stable descending sort; its order is that of XLA, tested against it in
// test/python/test_import.py.
// CHECK-LABEL: @top_k
// CHECK: %[[AT:.*]] = stablehlo.iota dim = 1 : tensor<3x4xi32>
// CHECK: %[[SORT:.*]]:2 = "stablehlo.sort"(%arg0, %[[AT]]) <{dimension = 1 : i64, is_stable = true}>
// CHECK: stablehlo.compare GT, %{{.*}}, %{{.*}}, TOTALORDER
// CHECK: stablehlo.slice %[[SORT]]#0 [0:3, 0:2] : (tensor<3x4xf32>) -> tensor<3x2xf32>
// CHECK: stablehlo.slice %[[SORT]]#1 [0:3, 0:2] : (tensor<3x4xi32>) -> tensor<3x2xi32>
func.func @top_k(%x: tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %0, %1 = chlo.top_k(%x, k = 2) : tensor<3x4xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0, %1 : tensor<3x2xf32>, tensor<3x2xi32>
}

// The operand of lower rank, or with dimensions of one element, is repeated.
// CHECK-LABEL: @broadcast
// CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<4xf32>) -> tensor<3x4xf32>
// CHECK: stablehlo.add %arg0, %[[B]] : tensor<3x4xf32>
// CHECK: %[[C:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
// CHECK: stablehlo.power %arg0, %[[C]] : tensor<3x4xf32>
// CHECK: stablehlo.constant dense<2.000000e+00> : tensor<3x4xf32>
// CHECK: %[[P:.*]] = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<4xi1>) -> tensor<3x4xi1>
// CHECK: %[[D:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<4xf32>) -> tensor<3x4xf32>
// CHECK: stablehlo.select %[[P]], %arg0, %[[D]] : tensor<3x4xi1>, tensor<3x4xf32>
func.func @broadcast(%x: tensor<3x4xf32>, %y: tensor<4xf32>, %z: tensor<3xf32>, %p: tensor<4xi1>)
    -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) {
  %0 = chlo.broadcast_add %x, %y : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %1 = chlo.broadcast_power %x, %z {broadcast_dimensions = array<i64: 0>} : (tensor<3x4xf32>, tensor<3xf32>) -> tensor<3x4xf32>
  %2 = "chlo.constant_like"(%x) <{value = 2.0 : f32}> : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %3 = chlo.broadcast_select %p, %x, %y : (tensor<4xi1>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %0, %1, %2, %3 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
}
