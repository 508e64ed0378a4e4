// RUN: scalify-opt %s --scalify-lower-kernels -verify-diagnostics -split-input-file

// Outside of a program nothing has proved the pair. The loops show that a later
// iteration reads what an earlier one has written.
func.func @shift(%a: memref<64xf32>, %r: memref<64xf32>) {
  // expected-error @+2 {{reads elements of operand 0 that it has overwritten through operand 1}}
  // expected-error @+1 {{could not be lowered}}
  plan.kernel "shift" reads(%a : memref<64xf32>) writes(%r : memref<64xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%x: tensor<64xf32>):
    %y = stablehlo.reverse %x, dims = [0] : tensor<64xf32>
    plan.yield %y : tensor<64xf32>
  }
  return
}

// -----

// Columns are summed before any element is written, but by every task.
func.func @columns(%a: memref<256x64xf32>, %r: memref<256x64xf32>) {
  // expected-error @+2 {{reads elements of operand 0 that it has overwritten through operand 1}}
  // expected-error @+1 {{could not be lowered}}
  plan.kernel "columns" reads(%a : memref<256x64xf32>) writes(%r : memref<256x64xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%x: tensor<256x64xf32>):
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %m = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<256x64xf32>, tensor<f32>) -> tensor<64xf32>
    %b = stablehlo.broadcast_in_dim %m, dims = [1] : (tensor<64xf32>) -> tensor<256x64xf32>
    %y = stablehlo.subtract %x, %b : tensor<256x64xf32>
    plan.yield %y : tensor<256x64xf32>
  }
  return
}

// -----

// A reshape and its inverse cut an index and join it again: the same element.
func.func @blocks(%a: memref<16x64xf32>, %b: memref<16x2xf32>, %r: memref<16x64xf32>) {
  plan.kernel "blocks" reads(%a, %b : memref<16x64xf32>, memref<16x2xf32>) writes(%r : memref<16x64xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%x: tensor<16x64xf32>, %s: tensor<16x2xf32>):
    %w = stablehlo.broadcast_in_dim %s, dims = [0, 1] : (tensor<16x2xf32>) -> tensor<16x2x32xf32>
    %v = stablehlo.reshape %w : (tensor<16x2x32xf32>) -> tensor<16x64xf32>
    %y = stablehlo.multiply %x, %v : tensor<16x64xf32>
    plan.yield %y : tensor<16x64xf32>
  }
  return
}
