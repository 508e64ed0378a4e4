// RUN: scalify-opt %s --scalify-annotate-phases --scalify-annotate-roles -split-input-file | FileCheck %s

// Two steps written out: what makes the second one's weight and moment of the
// first one's gradient is the update, although the second forward needs it.
// CHECK-LABEL: @main
// CHECK-SAME: scalify.role = #scalify.role<param>
// CHECK-SAME: scalify.role = #scalify.role<moment>
// CHECK: stablehlo.constant {scalify.phase = #scalify.phase<optimizer>}
// CHECK: stablehlo.cosine {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.sine {{.*}}#scalify.phase<backward>
// What only decays a moment reads no gradient.
// CHECK: stablehlo.multiply {{.*}}#scalify.phase<optimizer>
// CHECK: stablehlo.add {{.*}}#scalify.phase<optimizer>
// CHECK: stablehlo.subtract {{.*}}#scalify.phase<optimizer>
// What prepares a batch for the second forward is forward.
// CHECK: stablehlo.abs {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.multiply {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.sine {{.*}}#scalify.phase<backward>
// CHECK: stablehlo.add {{.*}}#scalify.phase<optimizer>
// CHECK: stablehlo.subtract {{.*}}#scalify.phase<optimizer>
func.func public @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %m: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %0 = stablehlo.cosine %w : tensor<4xf32> loc("jit(f)/jvp()/cos")
  %1 = stablehlo.sine %0 : tensor<4xf32> loc("jit(f)/transpose(jvp())/sin")
  %2 = stablehlo.multiply %m, %half : tensor<4xf32> loc("jit(f)/mul")
  %m1 = stablehlo.add %2, %1 : tensor<4xf32> loc("jit(f)/add")
  %w1 = stablehlo.subtract %w, %m1 : tensor<4xf32> loc("jit(f)/sub")
  %x1 = stablehlo.abs %x : tensor<4xf32> loc("jit(f)/abs")
  %3 = stablehlo.multiply %w1, %x1 : tensor<4xf32> loc("jit(f)/jvp()/mul")
  %4 = stablehlo.sine %3 : tensor<4xf32> loc("jit(f)/transpose(jvp())/sin")
  %m2 = stablehlo.add %m1, %4 : tensor<4xf32> loc("jit(f)/add")
  %w2 = stablehlo.subtract %w1, %m2 : tensor<4xf32> loc("jit(f)/sub")
  return %w2, %m2 : tensor<4xf32>, tensor<4xf32>
}

// -----

// The same in a loop; the sum of gradients beside it is no update, in a loop
// of its own: no forward reads it.
// CHECK-LABEL: @main
// CHECK-SAME: scalify.role = #scalify.role<param>
// CHECK-SAME: scalify.role = #scalify.role<moment>
// CHECK: stablehlo.while
// CHECK: stablehlo.while
// CHECK: stablehlo.cosine {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.sine {{.*}}#scalify.phase<backward>
// CHECK: stablehlo.add {{.*}}#scalify.phase<backward>
// CHECK: stablehlo.add {{.*}}#scalify.phase<optimizer>
// CHECK: stablehlo.subtract {{.*}}#scalify.phase<optimizer>
func.func public @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %m: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %n: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0:3 = stablehlo.while(%i = %n, %a = %w, %b = %m) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> loc("jit(f)/while/cond/lt")
    stablehlo.return %c : tensor<i1>
  } do {
    %1:3 = stablehlo.while(%j = %n, %v = %a, %sum = %zeros) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %j, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> loc("jit(f)/while/body/while/cond/lt")
      stablehlo.return %c : tensor<i1>
    } do {
      %l = stablehlo.cosine %v : tensor<4xf32> loc("jit(f)/while/body/while/body/jvp()/cos")
      %g = stablehlo.sine %l : tensor<4xf32> loc("jit(f)/while/body/while/body/transpose(jvp())/sin")
      %s = stablehlo.add %sum, %g : tensor<4xf32> loc("jit(f)/while/body/while/body/add")
      stablehlo.return %j, %v, %s : tensor<i32>, tensor<4xf32>, tensor<4xf32>
    } loc("jit(f)/while/body/while")
    %b1 = stablehlo.add %b, %1#2 : tensor<4xf32> loc("jit(f)/while/body/add")
    %a1 = stablehlo.subtract %a, %b1 : tensor<4xf32> loc("jit(f)/while/body/sub")
    stablehlo.return %i, %a1, %b1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  } loc("jit(f)/while")
  return %0#1, %0#2 : tensor<4xf32>, tensor<4xf32>
}
