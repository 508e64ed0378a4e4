// RUN: scalify-opt %s -split-input-file | FileCheck %s

// Kernels that read each element where they write it, or all of a row before
// they write any of it.

// CHECK-LABEL: plan.program @by_element
plan.program @by_element {
  %a = plan.argument 0 : memref<2x8xf32>
  %b = plan.argument 1 : memref<8xf32>
  %r = plan.result 0 aliases 0 : memref<2x8xf32>
  plan.kernel "k" reads(%a, %b : memref<2x8xf32>, memref<8xf32>) writes(%r : memref<2x8xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%x: tensor<2x8xf32>, %v: tensor<8xf32>):
    %f = stablehlo.reshape %x : (tensor<2x8xf32>) -> tensor<16xf32>
    %n = stablehlo.negate %f : tensor<16xf32>
    %m = stablehlo.reshape %n : (tensor<16xf32>) -> tensor<2x1x8xf32>
    %t = stablehlo.transpose %m, dims = [1, 0, 2] : (tensor<2x1x8xf32>) -> tensor<1x2x8xf32>
    %y = stablehlo.reshape %t : (tensor<1x2x8xf32>) -> tensor<2x8xf32>
    %w = stablehlo.broadcast_in_dim %v, dims = [1] : (tensor<8xf32>) -> tensor<2x8xf32>
    %z = stablehlo.add %y, %w : tensor<2x8xf32>
    plan.yield %z : tensor<2x8xf32>
  }
}

// -----

// CHECK-LABEL: plan.program @by_row
plan.program @by_row {
  %a = plan.argument 0 : memref<4x8xf32>
  %r = plan.result 0 aliases 0 : memref<4x8xf32>
  %s = plan.result 1 : memref<4xf32>
  plan.kernel "k" reads(%a : memref<4x8xf32>) writes(%r, %s : memref<4x8xf32>, memref<4xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%x: tensor<4x8xf32>):
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %m = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
    %y = stablehlo.subtract %x, %b : tensor<4x8xf32>
    plan.yield %y, %m : tensor<4x8xf32>, tensor<4xf32>
  }
}

// -----

// An update at a place known at run time keeps the rest where it is.
// CHECK-LABEL: plan.program @update
plan.program @update {
  %a = plan.argument 0 : memref<16xf32>
  %u = plan.argument 1 : memref<4xf32>
  %i = plan.argument 2 : memref<i32>
  %r = plan.result 0 aliases 0 : memref<16xf32>
  plan.kernel "k" reads(%a, %u, %i : memref<16xf32>, memref<4xf32>, memref<i32>) writes(%r : memref<16xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%x: tensor<16xf32>, %v: tensor<4xf32>, %at: tensor<i32>):
    %y = stablehlo.dynamic_update_slice %x, %v, %at : (tensor<16xf32>, tensor<4xf32>, tensor<i32>) -> tensor<16xf32>
    plan.yield %y : tensor<16xf32>
  }
}
