// RUN: scalify-opt %s --scalify-carry-scales --split-input-file | FileCheck %s

// Each cast has an entry: the scales that earlier steps have set come in and go
// out in place. A cast to BF16 keeps its constant, and so does one whose data
// main returns, and one with a proof that rests on the gain of a norm.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[STATE:[^:]*]]: tensor<2xf32> {scalify.casts = ["c0: x", "c1: w"], scalify.name = "scalify.carried_scales", scalify.role = #scalify.role<state>, tf.aliasing_output = 4 : i32})
// CHECK-SAME: tensor<2xf32> {jax.result_info = "scalify.carried_scales"})
// The constants while an entry is zero.
// CHECK: %[[PREDICTED:.*]] = stablehlo.constant dense<[5.000000e-01, 4.000000e+00]> : tensor<2xf32>
// CHECK: %[[SCALES:.*]] = stablehlo.select %{{.*}}, %[[STATE]], %[[PREDICTED]]
// CHECK: %[[E0:.*]] = stablehlo.slice %[[SCALES]] [0:1]
// CHECK: %[[S0:.*]] = stablehlo.reshape %[[E0]]
// CHECK: %[[HALF:.*]] = stablehlo.constant dense<9.765625E-4> : tensor<f32>
// CHECK: %[[LEAST:.*]] = stablehlo.multiply %[[S0]], %[[HALF]]
// CHECK: %[[E1:.*]] = stablehlo.slice %[[SCALES]] [1:2]
// CHECK: %[[S1:.*]] = stablehlo.reshape %[[E1]]
// The largest magnitude.
// CHECK: %[[ABS:.*]] = stablehlo.abs %arg0
// CHECK: %[[AMAX:.*]] = stablehlo.reduce(%[[ABS]] init: %{{.*}}) applies stablehlo.maximum
// CHECK: stablehlo.select
// What half of the smallest number and less become is zero: of those that are
// not, one counts as much as 63 others.
// CHECK: %[[SPREAD:.*]] = stablehlo.broadcast_in_dim %[[LEAST]]
// CHECK: %[[KEPT:.*]] = stablehlo.compare GT, %{{.*}}, %[[SPREAD]]
// CHECK: stablehlo.constant dense<-1> : tensor<4x8xi32>
// CHECK: stablehlo.constant dense<63> : tensor<4x8xi32>
// CHECK: stablehlo.select %[[KEPT]]
// CHECK: stablehlo.reduce({{.*}} applies stablehlo.add
// CHECK: %[[Q:.*]] = scalify.quantize %arg0, %[[S0]]
// CHECK: scalify.dequantize %[[Q]], %[[S0]]
// CHECK: %[[R:.*]] = scalify.quantize %arg1, %[[S1]]
// CHECK-NOT: scalify.unproved
// CHECK: scalify.dequantize %[[R]], %[[S1]]
// CHECK: scalify.quantize %arg1, %cst{{.*}} -> tensor<4x8xbf16>
// CHECK: scalify.quantize %arg1, %cst
// CHECK: scalify.quantize %{{.*}}, %cst{{.*}}scalify.proved
// One vector of both statistics.
// CHECK: %[[ALL:.*]] = stablehlo.concatenate {{.*}} -> tensor<4xf32>
// CHECK: stablehlo.slice %[[ALL]] [0:2]
// CHECK: stablehlo.slice %[[ALL]] [2:4]
// CHECK: %[[MOVED:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %[[STATE]]
// A scale falls by its headroom at most; one that never moved stays 0.
// CHECK: %[[HEADROOM:.*]] = stablehlo.constant dense<[2.500000e-01, 4.8828125E-4]>
// CHECK: %[[LEAST:.*]] = stablehlo.multiply %[[SCALES]], %[[HEADROOM]]
// CHECK: %[[SLOW:.*]] = stablehlo.maximum %[[MOVED]], %[[LEAST]]
// CHECK: %[[NEXT:.*]] = stablehlo.select %{{.*}}, %[[SLOW]], %[[MOVED]]
// CHECK: return {{.*}}, %[[NEXT]]
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
func.func @main(%x: tensor<4x8xf32>, %w: tensor<4x8xf32>, %g: tensor<4x8xf32> {scalify.name = "gain", scalify.moments = array<f64: 1.0, 0.0>})
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf8E4M3FN>, tensor<4x8xf32>) {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %t = stablehlo.constant dense<4.0> : tensor<f32>
  %q = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %a = scalify.dequantize %q, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  %r = scalify.quantize %w, %t {cast = "c1: w", scalify.proved = {assumed = ["arg1"]}} : tensor<4x8xf32> -> tensor<4x8xf8E5M2>
  %b = scalify.dequantize %r, %t : tensor<4x8xf8E5M2> -> tensor<4x8xf32>
  %h = scalify.quantize %w, %s {cast = "c2: w"} : tensor<4x8xf32> -> tensor<4x8xbf16>
  %c = scalify.dequantize %h, %s : tensor<4x8xbf16> -> tensor<4x8xf32>
  %d = stablehlo.add %b, %c : tensor<4x8xf32>
  %f = scalify.quantize %w, %s {cast = "c3: w"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %k = scalify.quantize %g, %s {cast = "c4: g", scalify.proved = {assumed = ["gain"]}} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %l = scalify.dequantize %k, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  return %a, %d, %f, %l : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf8E4M3FN>, tensor<4x8xf32>
}
}

// -----

// Out of a loop both statistics come as maxima.
// CHECK-LABEL: func.func @main
// CHECK: %[[LOOP:.*]]:4 = stablehlo.while
// CHECK: } do {
// CHECK: scalify.quantize
// CHECK: %[[M0:.*]] = stablehlo.maximum
// CHECK: %[[M1:.*]] = stablehlo.maximum
// CHECK: stablehlo.return %{{.*}}, %{{.*}}, %[[M0]], %[[M1]]
// CHECK: stablehlo.reshape %[[LOOP]]#2
// CHECK: stablehlo.reshape %[[LOOP]]#3
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
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
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %d : tensor<i32>, tensor<8x8xf32>
  }
  return %0#1 : tensor<8x8xf32>
}
}

// -----

// Where the step measures the scale, the entry is a factor of it, held below
// zero; in a loop each iteration's own measure keeps what it is. The amax counts
// in units of the measure.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[STATE:[^:]*]]: tensor<2xf32> {scalify.casts = ["c0: x", "c1: carry1"]
// CHECK: %[[SIGNS:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<2xf32>
// CHECK: %[[FACTORS:.*]] = stablehlo.multiply %[[STATE]], %[[SIGNS]]
// CHECK: %[[PREDICTED:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK: %[[ENTRIES:.*]] = stablehlo.select %{{.*}}, %[[FACTORS]], %[[PREDICTED]]
// CHECK: stablehlo.slice %[[ENTRIES]] [0:1]
// CHECK: %[[F0:.*]] = stablehlo.reshape
// CHECK: stablehlo.slice %[[ENTRIES]] [1:2]
// CHECK: %[[F1:.*]] = stablehlo.reshape
// CHECK: %[[M:.*]] = scalify.measured_scale l2 %arg0
// CHECK: %[[S:.*]] = stablehlo.multiply %[[M]], %[[F0]]
// CHECK: stablehlo.divide %{{.*}}, %[[M]]
// CHECK: %[[Q:.*]] = scalify.quantize %arg0, %[[S]]
// CHECK: scalify.dequantize %[[Q]], %[[S]]
// CHECK: stablehlo.while
// CHECK: } do {
// CHECK: %[[N:.*]] = scalify.measured_scale
// CHECK: %[[T:.*]] = stablehlo.multiply %[[N]], %[[F1]]
// CHECK: stablehlo.divide %{{.*}}, %[[N]]
// CHECK: %[[R:.*]] = scalify.quantize %{{.*}}, %[[T]]
// CHECK: scalify.dequantize %[[R]], %[[T]]
// CHECK: stablehlo.compare GT, %{{.*}}, %{{.*}} : (tensor<2xf32>, tensor<2xf32>)
// CHECK: %[[FITTING:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xf32>
// CHECK: stablehlo.maximum %[[FITTING]]
// CHECK: %[[SLOW:.*]] = stablehlo.select
// CHECK: %[[NEXT:.*]] = stablehlo.multiply %[[SLOW]]
// CHECK: return %{{.*}}#1, %[[NEXT]]
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %unit = stablehlo.constant dense<1.0> : tensor<f32>
  %m = scalify.measured_scale l2 %x, %unit : tensor<8x8xf32>
  %p = scalify.quantize %x, %m {cast = "c0: x"} : tensor<8x8xf32> -> tensor<8x8xf8E4M3FN>
  %b = scalify.dequantize %p, %m : tensor<8x8xf8E4M3FN> -> tensor<8x8xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %b) : tensor<i32>, tensor<8x8xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = scalify.measured_scale l2 %v, %unit : tensor<8x8xf32>
    %q = scalify.quantize %v, %s {cast = "c1: carry1"} : tensor<8x8xf32> -> tensor<8x8xf8E4M3FN>
    %a = scalify.dequantize %q, %s : tensor<8x8xf8E4M3FN> -> tensor<8x8xf32>
    %d = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %d : tensor<i32>, tensor<8x8xf32>
  }
  return %0#1 : tensor<8x8xf32>
}
}

// -----

// Other sources of scales have nothing to carry.
// CHECK-LABEL: func.func @main
// CHECK-NOT: scalify.carried_scales
module attributes {scalify.recipe = #scalify.recipe<"fp8-current">} {
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %q = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %a = scalify.dequantize %q, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  return %a : tensor<4x8xf32>
}
}
