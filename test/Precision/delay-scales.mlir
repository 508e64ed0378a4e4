// RUN: scalify-opt %s --scalify-delay-scales --split-input-file | FileCheck %s

// Two casts to FP8, each with a row: the history of two steps comes in and
// goes out in place. A cast to F16 keeps its constant, and so does one whose
// data main returns.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[H:[^:]*]]: tensor<2x2xf32> {scalify.casts = ["c0: x", "c1: w"], scalify.name = "scalify.amax_history", scalify.role = #scalify.role<state>, tf.aliasing_output = 3 : i32})
// CHECK-SAME: tensor<2x2xf32> {jax.result_info = "scalify.amax_history"})
// The largest amax of a row over the format's largest value, rounded up to a
// power of two; the constants while the row is zero.
// CHECK: %[[AMAX:.*]] = stablehlo.reduce(%[[H]] init: %{{.*}}) {{.*}}across dimensions = [1]
// CHECK: %[[PREDICTED:.*]] = stablehlo.constant dense<[5.000000e-01, 4.000000e+00]> : tensor<2xf32>
// CHECK: %[[LARGEST:.*]] = stablehlo.constant dense<[4.480000e+02, 5.734400e+04]> : tensor<2xf32>
// CHECK: %[[RATIO:.*]] = stablehlo.divide %[[AMAX]], %[[LARGEST]]
// CHECK: stablehlo.bitcast_convert %[[RATIO]]
// CHECK: stablehlo.constant dense<2.000000e+00> : tensor<2xf32>
// CHECK: %[[CLAMPED:.*]] = stablehlo.clamp
// CHECK: %[[SCALES:.*]] = stablehlo.select %{{.*}}, %[[CLAMPED]], %[[PREDICTED]]
// CHECK: %[[E0:.*]] = stablehlo.slice %[[SCALES]] [0:1]
// CHECK: %[[S0:.*]] = stablehlo.reshape %[[E0]]
// CHECK: %[[E1:.*]] = stablehlo.slice %[[SCALES]] [1:2]
// CHECK: %[[S1:.*]] = stablehlo.reshape %[[E1]]
// CHECK: %[[ABS:.*]] = stablehlo.abs %arg0
// CHECK: %[[X:.*]] = stablehlo.reduce(%[[ABS]]
// CHECK: %[[FINITE:.*]] = stablehlo.compare LT, %[[X]],
// CHECK: stablehlo.select %[[FINITE]], %[[X]]
// CHECK: %[[Q:.*]] = scalify.quantize %arg0, %[[S0]]
// CHECK: scalify.dequantize %[[Q]], %[[S0]]
// CHECK: %[[R:.*]] = scalify.quantize %arg1, %[[S1]]
// CHECK-NOT: scalify.unproved
// CHECK: scalify.dequantize %[[R]], %[[S1]]
// CHECK: scalify.quantize %arg1, %cst
// CHECK: scalify.quantize %arg1, %cst
// The oldest one falls out, unless nothing was seen.
// CHECK: %[[COLUMN:.*]] = stablehlo.concatenate {{.*}} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<2x1xf32>
// CHECK: %[[REST:.*]] = stablehlo.slice %[[H]] [0:2, 1:2]
// CHECK: %[[MOVED:.*]] = stablehlo.concatenate %[[REST]], %[[COLUMN]]
// CHECK: %[[NEXT:.*]] = stablehlo.select %{{.*}}, %[[MOVED]], %[[H]]
// CHECK: return {{.*}}, %[[NEXT]]
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed", history = 2, margin = 1>} {
func.func @main(%x: tensor<4x8xf32>, %w: tensor<4x8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf8E4M3FN>) {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %t = stablehlo.constant dense<4.0> : tensor<f32>
  %q = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %a = scalify.dequantize %q, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  %r = scalify.quantize %w, %t {cast = "c1: w", scalify.unproved = {}} : tensor<4x8xf32> -> tensor<4x8xf8E5M2>
  %b = scalify.dequantize %r, %t : tensor<4x8xf8E5M2> -> tensor<4x8xf32>
  %h = scalify.quantize %w, %s {cast = "c2: w"} : tensor<4x8xf32> -> tensor<4x8xf16>
  %c = scalify.dequantize %h, %s : tensor<4x8xf16> -> tensor<4x8xf32>
  %d = stablehlo.add %b, %c : tensor<4x8xf32>
  %f = scalify.quantize %w, %s {cast = "c3: w"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  return %a, %d, %f : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf8E4M3FN>
}
}

// -----

// Out of a loop and of a branch in it the amax comes as a maximum; a branch
// that casts nothing gives zero. A carry in the body of the loop is cast in it.
// CHECK-LABEL: func.func @main
// CHECK: %[[LAST:.*]] = stablehlo.slice %arg1 [0:2, 15:16]
// CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK: %[[LOOP:.*]]:4 = stablehlo.while({{.*}} = %[[ZERO]]
// CHECK: } do {
// CHECK: scalify.quantize %[[CARRY:[a-zA-Z0-9_]*]],
// CHECK: %[[IF:.*]]:2 = "stablehlo.if"
// CHECK: stablehlo.return %{{.*}}, %{{.*}} : tensor<8x8xf32>, tensor<f32>
// CHECK: %[[NONE:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK: stablehlo.return %[[CARRY]], %[[NONE]]
// CHECK: %[[M0:.*]] = stablehlo.maximum
// CHECK: %[[M1:.*]] = stablehlo.maximum %{{.*}}, %[[IF]]#1
// CHECK: stablehlo.return %{{.*}}, %[[IF]]#0, %[[M0]], %[[M1]]
// CHECK: stablehlo.reshape %[[LOOP]]#2
// CHECK: stablehlo.reshape %[[LOOP]]#3
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed", history_use = most_recent>} {
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8x8xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %q = scalify.quantize %v, %s {cast = "c0: carry1"} : tensor<8x8xf32> -> tensor<8x8xf8E4M3FN>
    %a = scalify.dequantize %q, %s : tensor<8x8xf8E4M3FN> -> tensor<8x8xf32>
    %d = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %p = stablehlo.compare EQ, %i, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %e = "stablehlo.if"(%p) ({
      %r = scalify.quantize %d, %s {cast = "c1: dot"} : tensor<8x8xf32> -> tensor<8x8xf8E4M3FN>
      %b = scalify.dequantize %r, %s : tensor<8x8xf8E4M3FN> -> tensor<8x8xf32>
      stablehlo.return %b : tensor<8x8xf32>
    }, {
      stablehlo.return %v : tensor<8x8xf32>
    }) : (tensor<i1>) -> tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %e : tensor<i32>, tensor<8x8xf32>
  }
  return %0#1 : tensor<8x8xf32>
}
}

// -----

// A value and the same value that a checkpoint makes again have one row, and
// so do iterations of an unrolled loop; another scope has its own.
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<2x16xf32> {scalify.casts = ["c0: tanh", "c2: tanh"]
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed">} {
func.func @main(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %v = stablehlo.tanh %x : tensor<8x8xf32> loc(#l0)
  %q = scalify.quantize %v, %s {cast = "c0: tanh"} : tensor<8x8xf32> -> tensor<8x8xf8E4M3FN> loc(#l0)
  %a = scalify.dequantize %q, %s : tensor<8x8xf8E4M3FN> -> tensor<8x8xf32>
  %w = stablehlo.tanh %a : tensor<8x8xf32> loc(#l1)
  %r = scalify.quantize %w, %s {cast = "c1: tanh"} : tensor<8x8xf32> -> tensor<8x8xf8E4M3FN> loc(#l1)
  %b = scalify.dequantize %r, %s : tensor<8x8xf8E4M3FN> -> tensor<8x8xf32>
  %y = stablehlo.tanh %b : tensor<8x8xf32> loc(#l2)
  %t = scalify.quantize %y, %s {cast = "c2: tanh"} : tensor<8x8xf32> -> tensor<8x8xf8E4M3FN> loc(#l2)
  %c = scalify.dequantize %t, %s : tensor<8x8xf8E4M3FN> -> tensor<8x8xf32>
  return %a, %b, %c : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
}
#f = loc("model.py":12:4)
#l0 = loc("jit(step)/jvp(layer)/while/body/tanh"(#f))
#l1 = loc("jit(step)/transpose(jvp(layer))/while/body/checkpoint/rematted_computation/tanh"(#f))
#l2 = loc("jit(step)/jvp(head)/tanh"(#f))

// -----

// The gradient of the last layer comes from the loss, that of the one before
// from a sum, and the products of one place read both: one row, and the larger
// of the predictions. What another operand of the product reads has its own.
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<2x16xf32> {scalify.casts = ["c0: negate", "c1: tanh"]
// CHECK: stablehlo.constant dense<[4.000000e+00, 5.000000e-01]> : tensor<2xf32>
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed">} {
func.func @main(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %t = stablehlo.constant dense<4.0> : tensor<f32>
  %g = stablehlo.negate %x {scalify.phase = #scalify.phase<backward>} : tensor<8x8xf32> loc(#l0)
  %q = scalify.quantize %g, %s {cast = "c0: negate"} : tensor<8x8xf32> -> tensor<8x8xf8E5M2> loc(#l0)
  %a = scalify.dequantize %q, %s : tensor<8x8xf8E5M2> -> tensor<8x8xf32>
  %y = stablehlo.tanh %x : tensor<8x8xf32> loc(#l1)
  %r = scalify.quantize %y, %s {cast = "c1: tanh"} : tensor<8x8xf32> -> tensor<8x8xf8E5M2> loc(#l1)
  %b = scalify.dequantize %r, %s : tensor<8x8xf8E5M2> -> tensor<8x8xf32>
  %w = stablehlo.transpose %b, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc(#l2)
  %h = stablehlo.add %d, %g {scalify.phase = #scalify.phase<backward>} : tensor<8x8xf32> loc(#l3)
  %p = scalify.quantize %h, %t {cast = "c2: add"} : tensor<8x8xf32> -> tensor<8x8xf8E5M2> loc(#l3)
  %c = scalify.dequantize %p, %t : tensor<8x8xf8E5M2> -> tensor<8x8xf32>
  %e = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc(#l2)
  return %d, %e : tensor<8x8xf32>, tensor<8x8xf32>
}
}
#f = loc("model.py":12:4)
#l0 = loc("jit(step)/transpose(jvp(loss))/neg"(#f))
#l1 = loc("jit(step)/jvp(layer)/tanh"(#f))
#l2 = loc("jit(step)/transpose(jvp(layer))/dot_general"(#f))
#l3 = loc("jit(step)/transpose(jvp(layer))/add_any"(#f))

// -----

// Other recipes are left as they are.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%arg0: tensor<4x8xf32>) -> tensor<4x8xf32>
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %q = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %a = scalify.dequantize %q, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  return %a : tensor<4x8xf32>
}
}
