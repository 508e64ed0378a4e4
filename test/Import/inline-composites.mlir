// RUN: scalify-opt %s --scalify-inline-calls | FileCheck %s

// A composite is its decomposition.
// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[R:.*]] = stablehlo.multiply %arg0, %arg0
// CHECK-NEXT: return %[[R]]
// CHECK-NOT: @my.square.impl
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.composite "my.square" %x {decomposition = @my.square.impl} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @my.square.impl(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
