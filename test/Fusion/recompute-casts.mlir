// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-recompute-casts))' -split-input-file | FileCheck %s

// What the activation is made of is read by the backward as well: it is cast
// again beside the dot of the backward, and counts nothing there. A weight is
// cast once a step.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[V:.*]]: tensor<8x8xf32>, %[[W:.*]]: tensor<8x8xf32>,
func.func @step(%x: tensor<4x8xf32>, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>, %g: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  // CHECK: %[[H:.*]] = stablehlo.dot_general %[[X]], %[[V]]
  %h = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[T:.*]] = stablehlo.tanh %[[H]] {scalify.phase = #scalify.phase<forward>}
  %t = stablehlo.tanh %h {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
  // CHECK: scalify.quantize %[[T]], %{{.*}} {cast = "c0", scalify.phase = #scalify.phase<forward>}
  %q = scalify.quantize %t, %one {cast = "c0", scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %a = scalify.dequantize %q, %one {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  // CHECK: %[[P:.*]] = scalify.quantize %[[W]], %{{.*}} {cast = "c1", scalify.phase = #scalify.phase<forward>}
  %p = scalify.quantize %w, %one {cast = "c1", scalify.phase = #scalify.phase<forward>} : tensor<8x8xf32> -> tensor<8x8xf8E4M3FN>
  %b = scalify.dequantize %p, %one {scalify.phase = #scalify.phase<forward>} : tensor<8x8xf8E4M3FN> -> tensor<8x8xf32>
  // CHECK: stablehlo.dot_general {{.*}}phase = #scalify.phase<forward>
  %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[T2:.*]] = stablehlo.tanh %[[H]] {scalify.phase = #scalify.phase<backward>}
  // CHECK-NEXT: %[[Q2:.*]] = scalify.quantize %[[T2]], %{{.*}} {cast = "c0", scalify.phase = #scalify.phase<backward>, scalify.uncounted}
  // CHECK-NEXT: %[[A2:.*]] = scalify.dequantize %[[Q2]], %{{.*}} {scalify.phase = #scalify.phase<backward>}
  // CHECK-NEXT: stablehlo.dot_general %[[A2]]
  %dw = stablehlo.dot_general %a, %g, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT: %[[B2:.*]] = scalify.dequantize %[[P]], %{{.*}} {scalify.phase = #scalify.phase<backward>}
  // CHECK-NEXT: stablehlo.dot_general %{{.*}}, %[[B2]]
  %da = stablehlo.dot_general %g, %b, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %c = stablehlo.cosine %h {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
  %dh = stablehlo.multiply %da, %c {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
  return %y, %dw, %dh : tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>
}

// -----

// Nothing else reads what was cast: the byte of the data is less than its four.
// Nor is a cast by blocks made again, or a stochastic one.
// CHECK-LABEL: func.func @kept
// CHECK-NOT: scalify.uncounted
func.func @kept(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %g: tensor<4x8xf32>, %step: tensor<2xui32>, %s: tensor<4x1xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %q = scalify.quantize %y, %one {cast = "c0", scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %a = scalify.dequantize %q, %one {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  %q1 = scalify.quantize %x, %s by tensor<4x1xf32> {block = array<i64: 1, 8>, cast = "c1", scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %b = scalify.dequantize %q1, %s by tensor<4x1xf32> {block = array<i64: 1, 8>, scalify.phase = #scalify.phase<forward>} : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  %q2 = scalify.quantize %x, %one at %step {cast = "c2", rounding = #scalify.rounding<stochastic>, scalify.phase = #scalify.phase<forward>, stream = 2 : i64} : tensor<4x8xf32> -> tensor<4x8xf16>
  %c = scalify.dequantize %q2, %one {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf16> -> tensor<4x8xf32>
  %z = stablehlo.add %y, %a {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
  %d0 = stablehlo.dot_general %a, %g, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %d1 = stablehlo.dot_general %b, %g, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %d2 = stablehlo.dot_general %c, %g, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %z, %d0, %d1, %d2 : tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Of two micro-batches the second reads the weight as cast: it stays.
// CHECK-LABEL: func.func @batches
// CHECK-COUNT-1: scalify.quantize
// CHECK-NOT: scalify.quantize
func.func @batches(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %g: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %p = scalify.quantize %w, %one {cast = "c0", scalify.phase = #scalify.phase<forward>} : tensor<8x8xf32> -> tensor<8x8xf8E4M3FN>
  %b = scalify.dequantize %p, %one {scalify.phase = #scalify.phase<forward>} : tensor<8x8xf8E4M3FN> -> tensor<8x8xf32>
  %y0 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %d0 = stablehlo.dot_general %g, %b, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y1 = stablehlo.dot_general %g, %b, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %d1 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y0, %d0, %y1, %d1 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// What the backward alone reads narrow is cast there only, and counts.
// CHECK-LABEL: func.func @backward_alone
// CHECK: scalify.quantize
// CHECK-NOT: scalify.uncounted
func.func @backward_alone(%x: tensor<4x8xf32>, %v: tensor<8x8xf32>, %g: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %h = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %t = stablehlo.tanh %h {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
  %q = scalify.quantize %t, %one {cast = "c0", scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %a = scalify.dequantize %q, %one {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  %dw = stablehlo.dot_general %a, %g, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %c = stablehlo.cosine %h {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
  return %t, %dw, %c : tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>
}
