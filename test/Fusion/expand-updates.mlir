// RUN: scalify-opt %s --split-input-file --scalify-expand-updates | FileCheck %s

// A cache that is donated: the window's start is moved inside, and the update alone is stored.
// CHECK-LABEL: func.func @cache
func.func @cache(%s: tensor<64x2x8xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<1x2x8xf32>, %i: tensor<i32>) -> tensor<64x2x8xf32> {
  // CHECK: %[[MOST:.*]] = stablehlo.constant dense<63>
  // CHECK: %[[AT:.*]] = stablehlo.clamp %{{.*}}, %arg2, %[[MOST]] : tensor<i32>
  // CHECK: %[[INDEX:.*]] = stablehlo.reshape %[[AT]] : (tensor<i32>) -> tensor<1xi32>
  // CHECK: "stablehlo.scatter"(%arg0, %[[INDEX]], %arg1)
  // CHECK-SAME: update_window_dims = [0, 1, 2]
  // CHECK-SAME: scatter_dims_to_operand_dims = [0]
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %t = stablehlo.dynamic_update_slice %s, %y, %i, %c0, %c0 : (tensor<64x2x8xf32>, tensor<1x2x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<64x2x8xf32>
  return %t : tensor<64x2x8xf32>
}

// -----

// A chain of two, in two dimensions; an index of 8 bits holds no more than 127.
// CHECK-LABEL: func.func @chain
func.func @chain(%s: tensor<300x300xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<2x3xf32>, %i: tensor<i8>) -> tensor<300x300xf32> {
  // CHECK: stablehlo.constant dense<127> : tensor<i8>
  // CHECK: %[[FIRST:.*]] = "stablehlo.scatter"(%arg0,
  // CHECK-SAME: scatter_dims_to_operand_dims = [0, 1]
  // CHECK: "stablehlo.scatter"(%[[FIRST]],
  %c1 = stablehlo.constant dense<1> : tensor<i8>
  %t = stablehlo.dynamic_update_slice %s, %y, %i, %c1 : (tensor<300x300xf32>, tensor<2x3xf32>, tensor<i8>, tensor<i8>) -> tensor<300x300xf32>
  %u = stablehlo.dynamic_update_slice %t, %y, %c1, %i : (tensor<300x300xf32>, tensor<2x3xf32>, tensor<i8>, tensor<i8>) -> tensor<300x300xf32>
  return %u : tensor<300x300xf32>
}

// -----

// Without the argument's memory, the kernel stores a new tensor anyway.
// CHECK-LABEL: func.func @kept
func.func @kept(%s: tensor<64x8xf32>, %y: tensor<1x8xf32>, %i: tensor<i32>) -> tensor<64x8xf32> {
  // CHECK: stablehlo.dynamic_update_slice
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %t = stablehlo.dynamic_update_slice %s, %y, %i, %c0 : (tensor<64x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<64x8xf32>
  return %t : tensor<64x8xf32>
}
