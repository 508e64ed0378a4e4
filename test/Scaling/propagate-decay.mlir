// RUN: scalify-opt %s --scalify-propagate="remarks=0" -split-input-file | FileCheck %s

// Sums of values that are never positive only fall. Their differences under a
// causal mask have exponentials that are decays: one on the diagonal, and no
// larger elsewhere. Without the rule the terms' variance would lift them.
// CHECK-LABEL: func.func @segments
func.func @segments(%x: tensor<4x32xf32> {scalify.scale = 1 : i32}) -> (tensor<4x32x32xf32>, tensor<4x32xf32>, tensor<4x32xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<4x32x32xf32>
  %a = stablehlo.abs %x : tensor<4x32xf32>
  %n = stablehlo.negate %a : tensor<4x32xf32>
  %s = "stablehlo.reduce_window"(%n, %zero) <{window_dimensions = array<i64: 1, 32>, window_strides = array<i64: 1, 1>, padding = dense<[[0, 0], [31, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<4x32xf32>, tensor<f32>) -> tensor<4x32xf32>
  %i = stablehlo.broadcast_in_dim %s, dims = [0, 1] : (tensor<4x32xf32>) -> tensor<4x32x32xf32>
  %j = stablehlo.broadcast_in_dim %s, dims = [0, 2] : (tensor<4x32xf32>) -> tensor<4x32x32xf32>
  // CHECK: stablehlo.subtract {{.*}}scalify.rule = "difference of one cumulative sum: the terms between", scalify.scale = 4 : i32
  %d = stablehlo.subtract %i, %j : tensor<4x32x32xf32>
  %row = stablehlo.iota dim = 1 : tensor<4x32x32xi32>
  %column = stablehlo.iota dim = 2 : tensor<4x32x32xi32>
  %after = stablehlo.compare GE, %row, %column, SIGNED : (tensor<4x32x32xi32>, tensor<4x32x32xi32>) -> tensor<4x32x32xi1>
  %m = stablehlo.select %after, %d, %least : tensor<4x32x32xi1>, tensor<4x32x32xf32>
  // CHECK: stablehlo.exponential {{.*}}scalify.rule = "decay between entries of a cumulative sum: at most 1", scalify.scale = -2 : i32
  %e = stablehlo.exponential %m : tensor<4x32x32xf32>
  // From each entry to the last there is no need of a mask.
  %last = stablehlo.slice %s [0:4, 31:32] : (tensor<4x32xf32>) -> tensor<4x1xf32>
  %wide = stablehlo.broadcast_in_dim %last, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x32xf32>
  %rest = stablehlo.subtract %wide, %s : tensor<4x32xf32>
  // CHECK: stablehlo.exponential {{.*}}scalify.rule = "decay between entries of a cumulative sum: at most 1"
  %t = stablehlo.exponential %rest : tensor<4x32xf32>
  // And from the start: the first entries count, where the mean of all sums
  // would leave nothing: 2^-3.5 for terms apart, 2^-2.7 for terms alike.
  // CHECK: stablehlo.exponential {{.*}}scalify.rule = "decay between entries of a cumulative sum: at most 1", scalify.scale = {{-[34]}} : i32
  %u = stablehlo.exponential %s : tensor<4x32xf32>
  return %e, %t, %u : tensor<4x32x32xf32>, tensor<4x32xf32>, tensor<4x32xf32>
}

// -----

// Sums of either sign do not decay, nor do differences that no mask halves.
// CHECK-LABEL: func.func @either_sign
// CHECK-NOT: decay
func.func @either_sign(%x: tensor<4x32xf32> {scalify.scale = 1 : i32}) -> (tensor<4x32xf32>, tensor<4x32x32xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 32>, window_strides = array<i64: 1, 1>, padding = dense<[[0, 0], [31, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<4x32xf32>, tensor<f32>) -> tensor<4x32xf32>
  %last = stablehlo.slice %s [0:4, 31:32] : (tensor<4x32xf32>) -> tensor<4x1xf32>
  %wide = stablehlo.broadcast_in_dim %last, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x32xf32>
  %rest = stablehlo.subtract %wide, %s : tensor<4x32xf32>
  %t = stablehlo.exponential %rest : tensor<4x32xf32>
  %i = stablehlo.broadcast_in_dim %s, dims = [0, 1] : (tensor<4x32xf32>) -> tensor<4x32x32xf32>
  %j = stablehlo.broadcast_in_dim %s, dims = [0, 2] : (tensor<4x32xf32>) -> tensor<4x32x32xf32>
  %d = stablehlo.subtract %i, %j : tensor<4x32x32xf32>
  %e = stablehlo.exponential %d : tensor<4x32x32xf32>
  return %t, %e : tensor<4x32xf32>, tensor<4x32x32xf32>
}
