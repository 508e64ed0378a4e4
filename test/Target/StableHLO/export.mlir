// RUN: scalify-opt %s --scalify-to-stablehlo | FileCheck %s

// Finite values are clamped before the convert down, infinities become NaN; one
// multiply by a broadcast scalar after the convert up.
// CHECK-LABEL: func.func @cast
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>) -> tensor<8xf32>
func.func @cast(%x: tensor<8xf32> {scalify.scale = -1 : i32}) -> tensor<8xf32> {
  // CHECK: %[[DOWN:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<f32>
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %[[DOWN]], dims = []
  // CHECK: %[[D:.*]] = stablehlo.multiply %[[X]], %[[B]]
  // CHECK-DAG: %[[MAX:.*]] = stablehlo.constant dense<4.480000e+02> : tensor<f32>
  // CHECK-DAG: %[[MIN:.*]] = stablehlo.constant dense<-4.480000e+02> : tensor<f32>
  // CHECK: %[[C:.*]] = stablehlo.clamp %[[MIN]], %[[D]], %[[MAX]]
  // CHECK: %[[F:.*]] = stablehlo.is_finite %[[D]]
  // CHECK: %[[NAN:.*]] = stablehlo.constant dense<0x7FC00000> : tensor<8xf32>
  // CHECK: %[[K:.*]] = stablehlo.select %[[F]], %[[C]], %[[NAN]]
  // CHECK: %[[Q:.*]] = stablehlo.convert %[[K]] : (tensor<8xf32>) -> tensor<8xf8E4M3FN>
  // CHECK: %[[W:.*]] = stablehlo.convert %[[Q]] : (tensor<8xf8E4M3FN>) -> tensor<8xf32>
  // CHECK: %[[UP:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  // CHECK: %[[E:.*]] = stablehlo.broadcast_in_dim %[[UP]], dims = []
  // CHECK: %[[Y:.*]] = stablehlo.multiply %[[W]], %[[E]]
  // CHECK-NOT: scalify.
  // CHECK: return %[[Y]]
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %q = scalify.quantize %x, %s : tensor<8xf32> -> tensor<8xf8E4M3FN>
  %y = scalify.dequantize %q, %s : tensor<8xf8E4M3FN> -> tensor<8xf32>
  return %y : tensor<8xf32>
}
