// RUN: scalify-opt %s --scalify-propagate -split-input-file | FileCheck %s

// A softmax that goes on with a running maximum, which starts from a finite
// lowest value. That value is no size of the carry, which as all that may hold a
// masking constant is a true value, at 2^0. exp(m - max(m, x)) is 1 wherever m is the larger, half the elements
// or more, and nowhere above 1; so the sum of weights grows as a sum does, with
// its terms, not as a product: after 8 steps it is below 8.
// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<8x16xf32> {scalify.scale = 1 : i32}) -> (tensor<16xf32>, tensor<16xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<16xf32>
  %lowest = stablehlo.constant dense<-1.0e38> : tensor<16xf32>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c8 = stablehlo.constant dense<8> : tensor<i32>
  // CHECK: scalify.carry_scales = array<i64: 0, {{[0-3]}}, 0>
  %r:3 = stablehlo.while(%i = %c0, %sum = %zero, %m = %lowest) : tensor<i32>, tensor<16xf32>, tensor<16xf32>
  cond {
    %p = stablehlo.compare LT, %i, %c8, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %s = stablehlo.dynamic_slice %x, %i, %c0, sizes = [1, 16] : (tensor<8x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
    %k = stablehlo.reshape %s : (tensor<1x16xf32>) -> tensor<16xf32>
    %q = stablehlo.maximum %m, %k : tensor<16xf32>
    // CHECK: stablehlo.subtract {{.*}}rule = "difference from the larger of two"
    %below = stablehlo.subtract %m, %q : tensor<16xf32>
    // CHECK: stablehlo.exponential {{.*}}rule = "exponential of a difference from the larger of two", scalify.scale = 0
    %decay = stablehlo.exponential %below : tensor<16xf32>
    %at = stablehlo.subtract %k, %q : tensor<16xf32>
    // CHECK: stablehlo.exponential {{.*}}rule = "exponential of a difference from the larger of two", scalify.scale = 0
    %weight = stablehlo.exponential %at : tensor<16xf32>
    %kept = stablehlo.multiply %sum, %decay : tensor<16xf32>
    %next = stablehlo.add %kept, %weight : tensor<16xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %next, %q : tensor<i32>, tensor<16xf32>, tensor<16xf32>
  }
  return %r#1, %r#2 : tensor<16xf32>, tensor<16xf32>
}

// -----

// In F32 nothing of the data is left in -1e38 + x, nor of x - max(x, -1e38).
// CHECK-LABEL: func.func @lowest
func.func @lowest(%x: tensor<16xf32> {scalify.scale = 0 : i32}) -> (tensor<16xf32>, tensor<16xf32>) {
  %lowest = stablehlo.constant dense<-1.0e38> : tensor<16xf32>
  // CHECK: stablehlo.add {{.*}}rule = "sum: a constant absorbs the rest"
  %y = stablehlo.add %lowest, %x : tensor<16xf32>
  %m = stablehlo.maximum %x, %y : tensor<16xf32>
  %d = stablehlo.subtract %x, %m : tensor<16xf32>
  // CHECK: stablehlo.exponential {{.*}}scalify.scale = 0
  %e = stablehlo.exponential %d : tensor<16xf32>
  // CHECK: stablehlo.exponential {{.*}}rule = "exponential of a constant"
  %f = stablehlo.exponential %y : tensor<16xf32>
  return %e, %f : tensor<16xf32>, tensor<16xf32>
}
