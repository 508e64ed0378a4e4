// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize=recompute=1 -split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize -split-input-file | FileCheck %s --check-prefix=KEPT

// Of a gate, its sigmoid and their product, one value is kept: the others are
// computed again in the backward, and no longer before.
// CHECK-LABEL: func.func @silu
// KEPT-LABEL: func.func @silu
func.func @silu(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %g: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) {
  // CHECK: %[[GATE:.*]] = stablehlo.dot_general
  %gate = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[S:.*]] = stablehlo.logistic %[[GATE]] {scalify.phase = #scalify.phase<forward>}
  %s = stablehlo.logistic %gate {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
  %y = stablehlo.multiply %gate, %s {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
  // CHECK: %[[G:.*]] = stablehlo.dot_general
  %g0 = stablehlo.dot_general %g, %w, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %[[S2:.*]] = stablehlo.logistic %[[GATE]] {scalify.phase = #scalify.phase<backward>}
  // CHECK-NEXT: stablehlo.multiply %[[G]], %[[S2]]
  // KEPT: stablehlo.logistic
  // KEPT-NOT: stablehlo.logistic
  %a = stablehlo.multiply %g0, %s {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
  // CHECK-NEXT: stablehlo.multiply %{{.*}}, %[[GATE]]
  %b = stablehlo.multiply %a, %gate {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
  %d = stablehlo.dot_general %x, %b, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %y, %b, %d : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>
}

// -----

// One value that two follow from is no saving where one of these alone is read:
// what is nearest to the backward is kept, and nothing is computed twice.
// CHECK-LABEL: func.func @nearest
func.func @nearest(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %g: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[T:.*]] = stablehlo.tanh
  // CHECK: %[[C:.*]] = stablehlo.cosine %[[T]] {scalify.phase = #scalify.phase<forward>}
  %t = stablehlo.tanh %h {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
  %c = stablehlo.cosine %t {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
  %g0 = stablehlo.dot_general %g, %w, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: stablehlo.multiply %{{.*}}, %[[C]]
  %a = stablehlo.multiply %g0, %c {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
  return %a : tensor<4x8xf32>
}

// -----

// A statistic is smaller than what is spread from it. What a reduction leaves
// is never computed again.
// CHECK-LABEL: func.func @statistic
func.func @statistic(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %g: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[SUM:.*]] = stablehlo.reduce
  %sum = stablehlo.reduce(%h init: %zero) applies stablehlo.add across dimensions = [1] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK-NOT: stablehlo.broadcast_in_dim %[[SUM]], dims = [0] {scalify.phase = #scalify.phase<forward>}
  %wide = stablehlo.broadcast_in_dim %sum, dims = [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %g0 = stablehlo.dot_general %g, %w, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[WIDE:.*]] = stablehlo.broadcast_in_dim %[[SUM]], dims = [0] {scalify.phase = #scalify.phase<backward>}
  // CHECK: stablehlo.multiply %{{.*}}, %[[WIDE]]
  %a = stablehlo.multiply %g0, %wide {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
  return %a : tensor<4x8xf32>
}

// -----

// What is kept in F16 is rounded: the difference of two such values may be
// nothing but rounding, so that it is kept itself. Its double follows from it.
// CHECK-LABEL: func.func @rounded
module attributes {scalify.recipe = #scalify.recipe<"fp16">} {
  func.func @rounded(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %g: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %two = stablehlo.constant dense<2.0> : tensor<4x8xf32>
    %h = stablehlo.tanh %x {scalify.phase = #scalify.phase<forward>, scalify.scale = 0 : i32} : tensor<4x8xf32>
    %k = stablehlo.cosine %x {scalify.phase = #scalify.phase<forward>, scalify.scale = 0 : i32} : tensor<4x8xf32>
    // CHECK: %[[D:.*]] = stablehlo.subtract
    // CHECK: scalify.quantize %[[D]]
    // CHECK-NOT: scalify.quantize
    %d = stablehlo.subtract %h, %k {scalify.phase = #scalify.phase<forward>, scalify.scale = 0 : i32} : tensor<4x8xf32>
    %e = stablehlo.multiply %d, %two {scalify.phase = #scalify.phase<forward>, scalify.scale = 1 : i32} : tensor<4x8xf32>
    %g0 = stablehlo.dot_general %g, %w, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: stablehlo.multiply %{{.*}} {scalify.phase = #scalify.phase<backward>
    %a = stablehlo.multiply %g0, %d {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
    %b = stablehlo.multiply %a, %e {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
    return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// A weight that the program rounds to BF16 is rounded once a step; what
// follows from it by a move is made again.
// CHECK-LABEL: func.func @weight
// KEPT-LABEL: func.func @weight
func.func @weight(%x: tensor<4x8xbf16>, %w: tensor<8x8xf32>, %g: tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xbf16>) {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg1
  // CHECK: %[[W:.*]] = stablehlo.convert %[[T]] {scalify.phase = #scalify.phase<forward>}
  // CHECK-NOT: stablehlo.convert
  %t = stablehlo.transpose %w, dims = [1, 0] {scalify.phase = #scalify.phase<forward>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %n = stablehlo.convert %t {scalify.phase = #scalify.phase<forward>} : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %y = stablehlo.dot_general %x, %n, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  // CHECK: stablehlo.dot_general %arg2, %[[W]]
  %a = stablehlo.dot_general %g, %n, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  return %y, %a : tensor<4x8xbf16>, tensor<4x8xbf16>
}
