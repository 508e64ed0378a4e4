// RUN: scalify-opt %s --scalify-import --scalify-scaling="remarks=0" -split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-import --scalify-scaling="remarks=0 declared-scales=1" -split-input-file | FileCheck %s --check-prefix=DECLARED
// RUN: scalify-opt %s --scalify-import --scalify-scaling -split-input-file 2>&1 | FileCheck %s --check-prefix=ONE

// DECLARED-NOT: measured

// What a norm divides by follows what it divides, but for epsilon; the dot
// behind it reads the scale of x where that is near epsilon, and of w. A
// declared scale and a number are constants.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg0: tensor<4x64xf32> {scalify.measured = 0 : i32
// CHECK-SAME: %arg1: tensor<64x64xf32> {scalify.measured = -3 : i32
// CHECK-SAME: %arg2: tensor<64x64xf32> {scalify.name = "arg2", {{.*}}scalify.scale = -2 : i32
// CHECK-SAME: %arg3: tensor<f32> {scalify.name
// CHECK-DAG: %[[W:.*]] = scalify.measured_scale l2 %arg1, {{.*}} {scalify.unrounded}
// CHECK-DAG: %[[X:.*]] = scalify.measured_scale l2 %arg0, {{.*}} {scalify.unrounded}
// CHECK-NOT: scalify.measured_scale
// CHECK: %[[MEAN:.*]] = stablehlo.multiply %[[X]], %[[X]]
// CHECK: scalify.scale_hint {{.*}} times what is measured in the step
// CHECK: scalify.scale_hint %arg1, {{.*}} times what is measured in the step
// CHECK: scalify.scale_hint %{{[0-9]+}}, {{.*}} times what is measured in the step
// CHECK-NEXT: scalify.scale_hint %arg2, %cst{{[_0-9]*}} {scalify.unproved
// CHECK: return
// ONE: warning: the step measures 2 arguments without a declared scale, 17408 bytes in each step
func.func @main(%x: tensor<4x64xf32>, %w: tensor<64x64xf32>, %v: tensor<64x64xf32> {scalify.scale = -2 : i32}, %rate: tensor<f32>) -> tensor<4x64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<64.0> : tensor<4xf32>
  %eps = stablehlo.constant dense<1.0e-5> : tensor<4xf32>
  %square = stablehlo.multiply %x, %x : tensor<4x64xf32>
  %sum = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x64xf32>, tensor<f32>) -> tensor<4xf32>
  %mean = stablehlo.divide %sum, %n : tensor<4xf32>
  %safe = stablehlo.add %mean, %eps : tensor<4xf32>
  %inverse = stablehlo.rsqrt %safe : tensor<4xf32>
  %rows = stablehlo.broadcast_in_dim %inverse, dims = [0] : (tensor<4xf32>) -> tensor<4x64xf32>
  %normal = stablehlo.multiply %x, %rows : tensor<4x64xf32>
  %h = stablehlo.dot_general %normal, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %y = stablehlo.dot_general %h, %v, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %r = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
  %out = stablehlo.multiply %y, %r : tensor<4x64xf32>
  return %out : tensor<4x64xf32>
}

// -----

// A function says by its own rule how its result follows: small values pass
// tanh, large ones stop at 1. It is a table by the exponent.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.tanh
// CHECK: stablehlo.shift_right_logical
// CHECK: stablehlo.clamp
// CHECK: stablehlo.dynamic_slice %{{.*}}, %{{.*}}, sizes = [1] : (tensor<81xf32>, tensor<i32>)
func.func @main(%x: tensor<4x64xf32>, %w: tensor<64x64xf32> {scalify.scale = -3 : i32}) -> tensor<4x64xf32> {
  %t = stablehlo.tanh %x : tensor<4x64xf32>
  %y = stablehlo.dot_general %t, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// A carry has its scale beside it; a weight that the loop updates is measured
// in each iteration.
// CHECK-LABEL: func.func @main
// CHECK: scalify.measured_scale l2 %arg0
// CHECK: stablehlo.while
// CHECK: do
// CHECK: scalify.measured_scale l2 %iterArg{{[_0-9]*}}, {{.*}}64x64
// CHECK: stablehlo.sqrt
// CHECK: stablehlo.clamp {{.*}} : tensor<f32>
// CHECK-NEXT: stablehlo.return {{.*}}, tensor<f32>
func.func @main(%x: tensor<4x64xf32> loc("x"), %w: tensor<64x64xf32> {scalify.role = #scalify.role<param>} loc("params['w']")) -> tensor<4x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %count = stablehlo.constant dense<12> : tensor<i32>
  %small = stablehlo.constant dense<0.9> : tensor<64x64xf32>
  %r:3 = stablehlo.while(%i = %zero, %h = %x, %u = %w) : tensor<i32>, tensor<4x64xf32>, tensor<64x64xf32>
  cond {
    %c = stablehlo.compare LT, %i, %count : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %a = stablehlo.abs %h : tensor<4x64xf32>
    %y = stablehlo.dot_general %a, %u, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %t = stablehlo.tanh %y : tensor<4x64xf32>
    %s = stablehlo.add %h, %t : tensor<4x64xf32>
    %n = stablehlo.multiply %u, %small : tensor<64x64xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s, %n : tensor<i32>, tensor<4x64xf32>, tensor<64x64xf32>
  }
  return %r#1 : tensor<4x64xf32>
}

// -----

// Donated moments take the scale of what is written into them, and what no
// cast depends on is not read.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg0: tensor<64x64xf32> {scalify.measured
// CHECK-NOT: %arg1: tensor<64x64xf32> {scalify.measured
// CHECK-NOT: %arg2: tensor<64xf32> {scalify.measured
// CHECK-NOT: scalify.measured_scale {{.*}}%arg{{[12]}}
func.func @main(%w: tensor<64x64xf32>, %m: tensor<64x64xf32> {tf.aliasing_output = 1 : i32}, %unread: tensor<64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>) {
  %g = stablehlo.dot_general %w, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %rate = stablehlo.constant dense<0.9> : tensor<64x64xf32>
  %old = stablehlo.multiply %m, %rate : tensor<64x64xf32>
  %new = stablehlo.add %old, %g : tensor<64x64xf32>
  %twice = stablehlo.add %unread, %unread : tensor<64xf32>
  return %g, %new, %twice : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>
}

// -----

// Weights that the step joins are weights of the dot that reads them all.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg1: tensor<64x64xf32> {scalify.measured = -3 : i32
// CHECK-SAME: %arg2: tensor<64x64xf32> {scalify.measured = -3 : i32
func.func @main(%x: tensor<4x64xf32>, %q: tensor<64x64xf32> {scalify.role = #scalify.role<param>}, %k: tensor<64x64xf32> {scalify.role = #scalify.role<param>}) -> tensor<4x128xf32> {
  %w = stablehlo.concatenate %q, %k, dim = 1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x128xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x128xf32>) -> tensor<4x128xf32>
  return %y : tensor<4x128xf32>
}
