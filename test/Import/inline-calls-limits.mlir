// RUN: scalify-opt %s --scalify-inline-calls=max-ops=23 -verify-diagnostics
// RUN: scalify-opt %s --scalify-inline-calls=max-ops=24 | FileCheck %s

// @quarter is 3 ops with itself and its return, @half 4 of its own and two of
// these, @main 4 of its own and two of @half.
// CHECK-COUNT-4: stablehlo.negate
// CHECK-NOT: stablehlo.negate
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @half(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{'func.call' op cannot be inlined: its function would have 24 ops or more, and there may be 23; write repeated calls as a loop, or raise 'max-ops' of --scalify-inline-calls}}
  %1 = call @half(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @half(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @quarter(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @quarter(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @quarter(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
