// RUN: scalify-opt %s --scalify-annotate-phases -split-input-file | FileCheck %s

// CHECK-LABEL: @main
// CHECK: stablehlo.add {{.*}}#scalify.phase<optimizer>
// CHECK: stablehlo.multiply {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.exponential {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.cosine {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.sine {{.*}}#scalify.phase<backward>
// CHECK: stablehlo.negate {{.*}}#scalify.phase<optimizer>
// CHECK: stablehlo.subtract {{.*}}#scalify.phase<optimizer>
// CHECK: stablehlo.abs {{.*}}#scalify.phase<forward>
func.func public @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %n: tensor<i32> {tf.aliasing_output = 1 : i32}, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>, tensor<4xf32>) {
  // Feeds state only.
  %0 = stablehlo.add %n, %n : tensor<i32> loc("jit(step)/add")
  // Traced outside of the derivative, but read within.
  %1 = stablehlo.multiply %x, %x : tensor<4xf32> loc("jit(step)/mul")
  %2 = stablehlo.exponential %1 : tensor<4xf32> loc("jit(step)/jvp()/exp")
  %3 = stablehlo.cosine %2 : tensor<4xf32> loc("jit(step)/transpose(jvp())/checkpoint/rematted_computation/cos")
  %4 = stablehlo.sine %3 : tensor<4xf32> loc("jit(step)/transpose(jvp())/sin")
  %5 = stablehlo.negate %4 : tensor<4xf32> loc("jit(step)/neg")
  %6 = stablehlo.subtract %w, %5 : tensor<4xf32>
  // A metric: neither state nor gradients.
  %7 = stablehlo.abs %2 : tensor<4xf32> loc("jit(step)/abs")
  return %6, %0, %7 : tensor<4xf32>, tensor<i32>, tensor<4xf32>
}

// -----

// A primitive named transpose is no transposition of a derivative.
// CHECK-LABEL: @main
// CHECK: stablehlo.transpose {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.while
// CHECK: stablehlo.compare {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.add {{.*}}#scalify.phase<backward>
// CHECK: stablehlo.reduce(
// CHECK-SAME: {scalify.phase = #scalify.phase<backward>}
func.func public @main(%x: tensor<4x4xf32>, %n: tensor<i32>) -> tensor<f32> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("jit(step)/jvp()/transpose")
  %1:2 = stablehlo.while(%i = %n, %y = %0) : tensor<i32>, tensor<4x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> loc("jit(step)/jvp()/while/cond/lt")
    stablehlo.return %c : tensor<i1>
  } do {
    %z = stablehlo.add %y, %y : tensor<4x4xf32> loc("jit(step)/transpose(jvp())/while/body/add")
    stablehlo.return %i, %z : tensor<i32>, tensor<4x4xf32>
  } loc("jit(step)/while")
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  // The body of a reduction has no phase of its own.
  %2 = stablehlo.reduce(%1#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<f32> loc("jit(step)/transpose(jvp())/reduce_sum")
  return %2 : tensor<f32>
}

// -----

// A gradient that the loss is made of is evaluated as the rest of the loss.
// CHECK-LABEL: @main
// CHECK: stablehlo.cosine {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.sine {{.*}}#scalify.phase<backward>
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.cosine %x : tensor<4xf32> loc("jit(step)/jvp(transpose(jvp()))/cos")
  %1 = stablehlo.sine %0 : tensor<4xf32> loc("jit(step)/transpose(jvp(transpose(jvp())))/sin")
  return %1 : tensor<4xf32>
}

// -----

// A loop over micro-batches holds a forward and its backward. What stands in it
// without names, as the loop that a checkpointed layer is, has the phase of
// what it reads and of what reads it; and so has all in its body.
// CHECK-LABEL: @main
// CHECK: stablehlo.while
// CHECK: stablehlo.multiply {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.while
// CHECK: stablehlo.tanh {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.cosine {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.negate {{.*}}#scalify.phase<backward>
// CHECK: stablehlo.sine {{.*}}#scalify.phase<backward>
// CHECK: stablehlo.add {{.*}}#scalify.phase<backward>
func.func public @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %0:3 = stablehlo.while(%i = %n, %a = %x, %s = %x) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> loc("jit(step)/while/cond/lt")
    stablehlo.return %c : tensor<i1>
  } do {
    %h = stablehlo.multiply %a, %a : tensor<4xf32> loc("closed_call:/mul")
    %1:2 = stablehlo.while(%j = %n, %y = %h) : tensor<i32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %j, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %t = stablehlo.tanh %y : tensor<4xf32> loc("closed_call:/tanh")
      stablehlo.return %j, %t : tensor<i32>, tensor<4xf32>
    } loc("closed_call:/while")
    %l = stablehlo.cosine %1#1 : tensor<4xf32> loc("jit(step)/while/body/jvp()/cos")
    %g = stablehlo.negate %l : tensor<4xf32> loc("jit(step)/while/body/transpose(jvp())/neg")
    %p = stablehlo.sine %g : tensor<4xf32> loc("closed_call:/sin")
    %r = stablehlo.add %s, %p : tensor<4xf32> loc("jit(step)/while/body/add")
    stablehlo.return %i, %a, %r : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  } loc("jit(step)/while")
  return %0#2 : tensor<4xf32>
}

// -----

// Names of JAX without a derivative, and nothing is updated: an evaluation with
// a result that has an argument's type only by chance.
// CHECK-LABEL: @main
// CHECK-NOT: phase<backward>
// CHECK-NOT: phase<optimizer>
func.func public @main(%v: tensor<4xf32> loc("v"), %t: tensor<4x4xf32> loc("t")) -> (tensor<f32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %u = stablehlo.tanh %v : tensor<4xf32> loc("jit(f)/tanh")
  %s = stablehlo.reduce(%u init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32> loc("jit(f)/reduce_sum")
  // CHECK: stablehlo.dot_general
  %y = stablehlo.dot_general %t, %u, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("jit(f)/dot_general")
  return %s, %y : tensor<f32>, tensor<4xf32>
}

// -----

// A gradient written by hand has no derivative in its names, but its dot shares
// an operand with the dot of the weight.
// CHECK-LABEL: @main
func.func public @main(%w: tensor<4x2xf32> loc("w"), %x: tensor<8x4xf32> loc("x")) -> (tensor<f32>, tensor<4x2xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %two = stablehlo.constant dense<2.0> : tensor<8x2xf32>
  // CHECK: stablehlo.dot_general {{.*}}phase<forward>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32> loc("jit(f)/dot_general")
  %yy = stablehlo.multiply %y, %y : tensor<8x2xf32> loc("jit(f)/mul")
  %loss = stablehlo.reduce(%yy init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x2xf32>, tensor<f32>) -> tensor<f32> loc("jit(f)/reduce_sum")
  %dy = stablehlo.multiply %two, %y : tensor<8x2xf32> loc("jit(f)/mul")
  // CHECK: stablehlo.dot_general {{.*}}phase<backward>
  %g = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32> loc("jit(f)/dot_general")
  return %loss, %g : tensor<f32>, tensor<4x2xf32>
}

// -----

// Gradients written by hand for one sample have no dot of a weight's gradient,
// but a weight is read again for the gradient of an activation.
// CHECK-LABEL: @main
func.func public @main(%w: tensor<4x2xf32> loc("w"), %v: tensor<2x3xf32> loc("v"), %u: tensor<3x5xf32> loc("u"), %x: tensor<4xf32> loc("x")) -> (tensor<f32>, tensor<2x3xf32>, tensor<4x2xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %two = stablehlo.constant dense<2.0> : tensor<5xf32>
  // CHECK-COUNT-3: stablehlo.dot_general {{.*}}phase<forward>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [0] x [0] : (tensor<4xf32>, tensor<4x2xf32>) -> tensor<2xf32> loc("jit(f)/dot_general")
  %k = stablehlo.dot_general %h, %v, contracting_dims = [0] x [0] : (tensor<2xf32>, tensor<2x3xf32>) -> tensor<3xf32> loc("jit(f)/dot_general")
  %y = stablehlo.dot_general %k, %u, contracting_dims = [0] x [0] : (tensor<3xf32>, tensor<3x5xf32>) -> tensor<5xf32> loc("jit(f)/dot_general")
  %yy = stablehlo.multiply %y, %y : tensor<5xf32> loc("jit(f)/mul")
  %loss = stablehlo.reduce(%yy init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<5xf32>, tensor<f32>) -> tensor<f32> loc("jit(f)/reduce_sum")
  %dy = stablehlo.multiply %two, %y : tensor<5xf32> loc("jit(f)/mul")
  // CHECK-COUNT-2: stablehlo.dot_general {{.*}}phase<backward>
  %dk = stablehlo.dot_general %u, %dy, contracting_dims = [1] x [0] : (tensor<3x5xf32>, tensor<5xf32>) -> tensor<3xf32> loc("jit(f)/dot_general")
  %dh = stablehlo.dot_general %v, %dk, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32> loc("jit(f)/dot_general")
  %0 = stablehlo.broadcast_in_dim %h, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32> loc("jit(f)/mul")
  %1 = stablehlo.broadcast_in_dim %dk, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32> loc("jit(f)/mul")
  %gv = stablehlo.multiply %0, %1 : tensor<2x3xf32> loc("jit(f)/mul")
  %2 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<4xf32>) -> tensor<4x2xf32> loc("jit(f)/mul")
  %3 = stablehlo.broadcast_in_dim %dh, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32> loc("jit(f)/mul")
  %gw = stablehlo.multiply %2, %3 : tensor<4x2xf32> loc("jit(f)/mul")
  return %loss, %gv, %gw : tensor<f32>, tensor<2x3xf32>, tensor<4x2xf32>
}

// -----

// Gradients of layers in a loop, written by hand: a later loop reads the weights
// again, and makes values of their type.
// CHECK-LABEL: @main
func.func public @main(%w: tensor<3x4x4xf32> loc("w"), %x: tensor<8x4xf32> loc("x")) -> (tensor<f32>, tensor<3x4x4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i2 = stablehlo.constant dense<2> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %hs0 = stablehlo.constant dense<0.0> : tensor<3x8x4xf32>
  %gs0 = stablehlo.constant dense<0.0> : tensor<3x4x4xf32>
  %f:3 = stablehlo.while(%i = %i0, %h = %x, %hs = %hs0) : tensor<i32>, tensor<8x4xf32>, tensor<3x8x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %i3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.dynamic_slice %w, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<3x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
    %l = stablehlo.reshape %s : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    // CHECK: stablehlo.dot_general {{.*}}phase<forward>
    %y = stablehlo.dot_general %h, %l, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %p = stablehlo.reshape %h : (tensor<8x4xf32>) -> tensor<1x8x4xf32>
    %n = stablehlo.dynamic_update_slice %hs, %p, %i, %i0, %i0 : (tensor<3x8x4xf32>, tensor<1x8x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x4xf32>
    %j = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %j, %y, %n : tensor<i32>, tensor<8x4xf32>, tensor<3x8x4xf32>
  } loc("jit(f)/while")
  %yy = stablehlo.multiply %f#1, %f#1 : tensor<8x4xf32> loc("jit(f)/mul")
  %loss = stablehlo.reduce(%yy init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32> loc("jit(f)/reduce_sum")
  %two = stablehlo.constant dense<2.0> : tensor<8x4xf32>
  %d0 = stablehlo.multiply %two, %f#1 : tensor<8x4xf32> loc("jit(f)/mul")
  %b:3 = stablehlo.while(%i = %i2, %d = %d0, %gs = %gs0) : tensor<i32>, tensor<8x4xf32>, tensor<3x4x4xf32>
  cond {
    %c = stablehlo.compare GE, %i, %i0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.dynamic_slice %w, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<3x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
    %l = stablehlo.reshape %s : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    %q = stablehlo.dynamic_slice %f#2, %i, %i0, %i0, sizes = [1, 8, 4] : (tensor<3x8x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x4xf32>
    %h = stablehlo.reshape %q : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
    // CHECK: stablehlo.dot_general {{.*}}phase<backward>
    %e = stablehlo.dot_general %d, %l, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    // CHECK: stablehlo.dot_general {{.*}}phase<backward>
    %g = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %p = stablehlo.reshape %g : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %n = stablehlo.dynamic_update_slice %gs, %p, %i, %i0, %i0 : (tensor<3x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x4x4xf32>
    %j = stablehlo.subtract %i, %i1 : tensor<i32>
    stablehlo.return %j, %e, %n : tensor<i32>, tensor<8x4xf32>, tensor<3x4x4xf32>
  } loc("jit(f)/while")
  return %loss, %b#2 : tensor<f32>, tensor<3x4x4xf32>
}
