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
// CHECK: chlo.erf {{.*}} tensor<4xf64>
// CHECK: chlo.top_k
func.func @kept(%x: tensor<4xf64>) -> (tensor<4xf64>, tensor<2xf64>, tensor<2xi32>) {
  %0 = chlo.erf %x : tensor<4xf64> -> tensor<4xf64>
  %1, %2 = chlo.top_k(%x, k = 2) : tensor<4xf64> -> (tensor<2xf64>, tensor<2xi32>)
  return %0, %1, %2 : tensor<4xf64>, tensor<2xf64>, tensor<2xi32>
}
