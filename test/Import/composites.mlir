// RUN: scalify-opt %s --scalify-inline-calls -split-input-file -verify-diagnostics | FileCheck %s

// What scalify.lax says is kept, also inside of a callee; other composites are
// their decompositions.
// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[S:.*]]: tensor<f32>)
// CHECK-NEXT: %[[P:.*]] = scalify.override_scale %[[X]], %[[S]] : tensor<4xf32>
// CHECK-NEXT: %[[R:.*]] = scalify.rescale_point max %[[P]] : tensor<4xf32>
// CHECK-NEXT: %[[D:.*]], %[[T:.*]] = scalify.data_scale %[[R]] : tensor<4xf32>
// CHECK-NEXT: %[[N:.*]] = stablehlo.negate %[[D]]
// CHECK-NEXT: return %[[N]], %[[T]]
// CHECK-NOT: func.func
func.func public @main(%x: tensor<4xf32>, %s: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) {
  %0 = stablehlo.composite "scalify.set_scaling" %x, %s {decomposition = @first} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = call @inner(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2:2 = stablehlo.composite "scalify.get_data_scale" %1 {decomposition = @pair} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
  %3 = stablehlo.composite "my.negate" %2#0 {decomposition = @negate} : (tensor<4xf32>) -> tensor<4xf32>
  return %3, %2#1 : tensor<4xf32>, tensor<f32>
}
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.composite "scalify.rescale" %x {composite_attributes = {statistic = "max"}, decomposition = @identity} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @identity(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @first(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @pair(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  return %x, %one : tensor<4xf32>, tensor<f32>
}
func.func private @negate(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has the statistic "rms"; it must be one of max, l1, l2}}
  %0 = stablehlo.composite "scalify.rescale" %x {composite_attributes = {statistic = "rms"}, decomposition = @identity} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @identity(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
