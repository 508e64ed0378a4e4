// RUN: scalify-opt %s --scalify-annotate-phases=use-locations=false -split-input-file -verify-diagnostics | FileCheck %s

// y = x w, loss = sum(y y), g = x^T (2 y), with clipping, momentum and a count.
// CHECK-LABEL: @main
// CHECK: stablehlo.constant {scalify.phase = #scalify.phase<forward>} dense<0.0
// CHECK: stablehlo.constant {scalify.phase = #scalify.phase<backward>} dense<2.0
// CHECK: stablehlo.constant {scalify.phase = #scalify.phase<optimizer>} dense<1>
func.func public @main(
    %w: tensor<4x4xf32> {tf.aliasing_output = 0 : i32},
    %m: tensor<4x4xf32> {tf.aliasing_output = 1 : i32},
    %n: tensor<i32> {tf.aliasing_output = 2 : i32}, %x: tensor<8x4xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %two = stablehlo.constant dense<2.0> : tensor<8x4xf32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  // CHECK: stablehlo.dot_general {{.*}}#scalify.phase<forward>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  // CHECK: stablehlo.multiply {{.*}}#scalify.phase<forward>
  %yy = stablehlo.multiply %y, %y : tensor<8x4xf32>
  // CHECK: stablehlo.reduce{{.*}}#scalify.phase<forward>
  %loss = stablehlo.reduce(%yy init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  %b:2 = stablehlo.optimization_barrier %x, %w : tensor<8x4xf32>, tensor<4x4xf32>
  // A copy behind a barrier is computed again, not a gradient.
  // CHECK: stablehlo.dot_general {{.*}}#scalify.phase<forward>
  %again = stablehlo.dot_general %b#0, %b#1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  // CHECK: stablehlo.multiply {{.*}}#scalify.phase<backward>
  %dy = stablehlo.multiply %two, %again : tensor<8x4xf32>
  // CHECK: stablehlo.dot_general {{.*}}#scalify.phase<backward>
  %g0 = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  // CHECK: stablehlo.transpose {{.*}}#scalify.phase<backward>
  %t = stablehlo.transpose %g0, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // A sum of gradients is still one.
  // CHECK: stablehlo.add {{.*}}#scalify.phase<backward>
  %g = stablehlo.add %g0, %t : tensor<4x4xf32>
  // CHECK: stablehlo.multiply {{.*}}#scalify.phase<optimizer>
  %gg = stablehlo.multiply %g, %g : tensor<4x4xf32>
  // CHECK: stablehlo.reduce{{.*}}#scalify.phase<optimizer>
  %norm = stablehlo.reduce(%gg init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>
  // CHECK: stablehlo.compare {{.*}}#scalify.phase<optimizer>
  %p = stablehlo.compare LT, %norm, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
  // CHECK: stablehlo.select {{.*}}#scalify.phase<optimizer>
  %clipped = stablehlo.select %p, %g, %gg : tensor<i1>, tensor<4x4xf32>
  // CHECK: stablehlo.add {{.*}}#scalify.phase<optimizer>
  %m1 = stablehlo.add %m, %clipped : tensor<4x4xf32>
  // What depends on a moment is the optimizer's, products too.
  // CHECK: stablehlo.dot_general {{.*}}#scalify.phase<optimizer>
  %o = stablehlo.dot_general %m1, %m1, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: stablehlo.subtract {{.*}}#scalify.phase<optimizer>
  %w1 = stablehlo.subtract %w, %o : tensor<4x4xf32>
  // CHECK: stablehlo.add {{.*}}#scalify.phase<optimizer>
  %n1 = stablehlo.add %n, %one : tensor<i32>
  return %w1, %m1, %n1, %loss : tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>, tensor<f32>
}

// -----

// Gradients without an optimizer, a metric beside the loss.
// CHECK-LABEL: @main
func.func public @main(%w: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>, tensor<4xi1>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: stablehlo.sine {{.*}}#scalify.phase<forward>
  %s = stablehlo.sine %w : tensor<4xf32>
  %loss = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  // CHECK: stablehlo.reverse {{.*}}#scalify.phase<backward>
  %g = stablehlo.reverse %w, dims = [0] : tensor<4xf32>
  // CHECK: stablehlo.compare {{.*}}#scalify.phase<forward>
  %right = stablehlo.compare EQ, %s, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %loss, %g, %right : tensor<f32>, tensor<4xf32>, tensor<4xi1>
}

// -----

// CHECK-LABEL: @main
// CHECK: stablehlo.exponential {{.*}}#scalify.phase<forward>
// expected-warning @+1 {{no scalar float result that could be the loss, and no locations of JAX: every op counts as forward; return the loss, or lower with debug_info=True}}
func.func public @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
  %0 = stablehlo.exponential %w : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A loop over micro-batches with ragged dots: the second product is a
// gradient's, although the loop as a whole is of the forward.
// CHECK-LABEL: @main
// CHECK: chlo.ragged_dot{{.*}}scalify.phase = #scalify.phase<forward>
// CHECK: chlo.ragged_dot{{.*}}scalify.phase = #scalify.phase<backward>
func.func public @main(%w: tensor<3x4x5xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<8x4xf32>, %n: tensor<3xi32>)
    -> (tensor<3x4x5xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.constant dense<0.0> : tensor<3x4x5xf32>
  %start = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<2> : tensor<i32>
  %loop:3 = stablehlo.while(%i = %start, %sum = %zero, %grads = %zeros) : tensor<i32>, tensor<f32>, tensor<3x4x5xf32>
  cond {
    %c = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %y = "chlo.ragged_dot"(%x, %w, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<8x4xf32>, tensor<3x4x5xf32>, tensor<3xi32>) -> tensor<8x5xf32>
    %yy = stablehlo.multiply %y, %y : tensor<8x5xf32>
    %loss = stablehlo.reduce(%yy init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x5xf32>, tensor<f32>) -> tensor<f32>
    %dy = stablehlo.add %y, %y : tensor<8x5xf32>
    %g = "chlo.ragged_dot"(%x, %dy, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0]>}> : (tensor<8x4xf32>, tensor<8x5xf32>, tensor<3xi32>) -> tensor<3x4x5xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %s = stablehlo.add %sum, %loss : tensor<f32>
    %gs = stablehlo.add %grads, %g : tensor<3x4x5xf32>
    stablehlo.return %j, %s, %gs : tensor<i32>, tensor<f32>, tensor<3x4x5xf32>
  }
  %w1 = stablehlo.subtract %w, %loop#2 : tensor<3x4x5xf32>
  return %w1, %loop#1 : tensor<3x4x5xf32>, tensor<f32>
}

// -----

// JAX's names are there and tell of no derivative: an evaluation.
// CHECK-LABEL: @main
// CHECK: stablehlo.exponential {{.*}}#scalify.phase<forward>
// expected-remark @+1 {{no derivative in JAX's names: every op counts as forward}}
func.func public @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
  %0 = stablehlo.exponential %w : tensor<4xf32> loc("jit(step)/exp"("step.py":1:1))
  return %0 : tensor<4xf32>
}

// -----

// The update of the scalar %s needs fewer products than the loss, and is no
// loss: the reduction over z y is a gradient's.
// CHECK-LABEL: @main
func.func public @main(
    %s: tensor<f32> {tf.aliasing_output = 0 : i32},
    %w: tensor<4x4xf32> {tf.aliasing_output = 1 : i32}, %x: tensor<8x4xf32>)
    -> (tensor<f32>, tensor<4x4xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: stablehlo.dot_general {{.*}}#scalify.phase<forward>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %all = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
  %z = stablehlo.multiply %y, %all : tensor<8x4xf32>
  // CHECK: stablehlo.dot_general {{.*}}#scalify.phase<forward>
  %loss = stablehlo.dot_general %z, %z, contracting_dims = [0, 1] x [0, 1] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<f32>
  // CHECK: stablehlo.multiply {{.*}}#scalify.phase<backward>
  %zy = stablehlo.multiply %z, %y : tensor<8x4xf32>
  // CHECK: stablehlo.reduce{{.*}}#scalify.phase<backward>
  %ds = stablehlo.reduce(%zy init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  %s1 = stablehlo.subtract %s, %ds : tensor<f32>
  %dy = stablehlo.multiply %z, %all : tensor<8x4xf32>
  // CHECK: stablehlo.dot_general {{.*}}#scalify.phase<backward>
  %g = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %w1 = stablehlo.subtract %w, %g : tensor<4x4xf32>
  return %s1, %w1, %loss : tensor<f32>, tensor<4x4xf32>, tensor<f32>
}

// -----

// A distance reads the weight in no product and is no loss. Products of
// gradients alone are the optimizer's, as Shampoo's statistics.
// CHECK-LABEL: @main
func.func public @main(
    %w: tensor<4x4xf32> {tf.aliasing_output = 0 : i32},
    %l: tensor<4x4xf32> {tf.aliasing_output = 1 : i32},
    %w0: tensor<4x4xf32>, %x: tensor<8x4xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: stablehlo.dot_general {{.*}}#scalify.phase<forward>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  // CHECK: stablehlo.multiply {{.*}}#scalify.phase<forward>
  %yy = stablehlo.multiply %y, %y : tensor<8x4xf32>
  // CHECK: stablehlo.reduce{{.*}}#scalify.phase<forward>
  %loss = stablehlo.reduce(%yy init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  %move = stablehlo.subtract %w, %w0 : tensor<4x4xf32>
  %far = stablehlo.reduce(%move init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>
  // CHECK: stablehlo.dot_general {{.*}}#scalify.phase<backward>
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  // CHECK: stablehlo.transpose {{.*}}#scalify.phase<backward>
  %gt = stablehlo.transpose %g, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: stablehlo.dot_general {{.*}}#scalify.phase<optimizer>
  %ggt = stablehlo.dot_general %g, %gt, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %l1 = stablehlo.add %l, %ggt : tensor<4x4xf32>
  // CHECK: stablehlo.dot_general {{.*}}#scalify.phase<optimizer>
  %u = stablehlo.dot_general %l1, %gt, contracting_dims = [1] x [1] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w1 = stablehlo.subtract %w, %u : tensor<4x4xf32>
  return %w1, %l1, %far, %loss : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<f32>
}
