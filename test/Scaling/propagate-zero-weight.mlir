// RUN: scalify-opt %s --scalify-propagate="remarks=0" -split-input-file | FileCheck %s

// A weight that starts at zero holds updates, which are made of its inputs: where
// these share a mean, the product grows by 64, and not by 8. A gradient is none
// of them.
// CHECK-LABEL: func.func @gate
func.func @gate(%x: tensor<4x64xf32> {scalify.scale = 0 : i32, scalify.moments = array<f64: 0.6, 0.8>}, %w: tensor<64x64xf32> {scalify.scale = -127 : i32},
                %g: tensor<4x64xf32> {scalify.scale = 0 : i32}) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  // CHECK: stablehlo.dot_general {{.*}}scalify.rule = "dot with a weight of updates: K = 64", scalify.scale = 0 : i32
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  // CHECK: stablehlo.dot_general {{.*}}scalify.rule = "dot: sqrt(K = 64)", scalify.scale = -3 : i32
  %d = stablehlo.dot_general %g, %w, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  return %y, %d : tensor<4x64xf32>, tensor<4x64xf32>
}

// -----

// Without a mean inputs agree in part: half-way, 2^4.5 = 22.6 in place of 64.
// CHECK-LABEL: func.func @head
func.func @head(%x: tensor<4x64xf32> {scalify.scale = 0 : i32}, %w: tensor<64x64xf32> {scalify.scale = -127 : i32}) -> tensor<4x64xf32> {
  // CHECK: stablehlo.dot_general {{.*}}scalify.rule = "dot with a weight of updates: K^(3/4), K = 64", scalify.scale = -2 : i32
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// The same of a slice of a stack that a loop reads.
// CHECK-LABEL: func.func @stacked
func.func @stacked(%x: tensor<4x64xf32> {scalify.scale = 0 : i32}, %w: tensor<2x64x64xf32> {scalify.scale = -127 : i32}) -> tensor<4x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %v = %w, %h = %x) : tensor<i32>, tensor<2x64x64xf32>, tensor<4x64xf32>
  cond {
    %c = stablehlo.compare LT, %i, %two, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.dynamic_slice %v, %i, %zero, %zero, sizes = [1, 64, 64] : (tensor<2x64x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x64xf32>
    %m = stablehlo.reshape %s : (tensor<1x64x64xf32>) -> tensor<64x64xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.rule = "dot with a weight of updates: K^(3/4), K = 64"
    %y = stablehlo.dot_general %h, %m, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %v, %y : tensor<i32>, tensor<2x64x64xf32>, tensor<4x64xf32>
  }
  return %r#2 : tensor<4x64xf32>
}

// -----

// At the start the sum is what is added, 2^-12; later it is the parameter, 2^-6.
// What is no parameter, or does not start at zero, has no such path before it.
// CHECK-LABEL: func.func @step_up
func.func @step_up(%p: tensor<10xf32> {scalify.scale = -127 : i32, scalify.role = #scalify.role<param>},
                   %q: tensor<10xf32> {scalify.scale = -6 : i32, scalify.role = #scalify.role<param>},
                   %d: tensor<10xf32> {scalify.scale = -12 : i32}) -> (tensor<10xf32>, tensor<10xf32>) {
  // CHECK: stablehlo.add {{.*}}scalify.rule = "sum with a parameter that starts at zero: half-way to it", scalify.scale = -9 : i32
  %y = stablehlo.add %p, %d : tensor<10xf32>
  // CHECK: stablehlo.add {{.*}}scalify.rule = "sum: variances add", scalify.scale = -6 : i32
  %z = stablehlo.add %q, %d : tensor<10xf32>
  return %y, %z : tensor<10xf32>, tensor<10xf32>
}
