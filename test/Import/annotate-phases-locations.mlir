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
