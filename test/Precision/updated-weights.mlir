// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s

// A weight that the step has updated is a weight: its layer the head, with both
// gradients, and nothing between two updates is rounded for the backward.
// CHECK-LABEL: func.func @written_out
// CHECK: %[[W1:.*]] = stablehlo.subtract
// CHECK-NOT: scalify.quantize %[[W1]]
// CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "
// CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "
// CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "
// CHECK-NOT: scalify.quantize
// CHECK: return
module attributes {scalify.recipe = #scalify.recipe<"bf16", head = false, sensitive = true>} {
  func.func @written_out(%x: tensor<4x8xf32> {scalify.role = #scalify.role<batch>}, %w: tensor<8x8xf32> {scalify.role = #scalify.role<param>}, %m: tensor<8x8xf32> {scalify.role = #scalify.role<moment>}, %g: tensor<8x8xf32> {scalify.role = #scalify.role<batch>}, %d: tensor<4x8xf32> {scalify.role = #scalify.role<batch>})
      -> (tensor<8x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %g0 = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<8x8xf32>
    %m1 = stablehlo.add %m, %g0 {scalify.phase = #scalify.phase<optimizer>, scalify.scale = 0 : i32, scalify.rule = "sum"} : tensor<8x8xf32>
    %w1 = stablehlo.subtract %w, %m1 {scalify.phase = #scalify.phase<optimizer>, scalify.scale = 0 : i32, scalify.rule = "sum"} : tensor<8x8xf32>
    %xs = scalify.scale_hint %x, %s : tensor<4x8xf32>
    %ws = scalify.scale_hint %w1, %s : tensor<8x8xf32>
    %y = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dy = stablehlo.multiply %y, %d {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
    %dys = scalify.scale_hint %dy, %s : tensor<4x8xf32>
    %dx = stablehlo.dot_general %dys, %ws, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dw = stablehlo.dot_general %xs, %dys, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %m2 = stablehlo.add %m1, %dw {scalify.phase = #scalify.phase<optimizer>, scalify.scale = 0 : i32, scalify.rule = "sum"} : tensor<8x8xf32>
    %w2 = stablehlo.subtract %w1, %m2 {scalify.phase = #scalify.phase<optimizer>, scalify.scale = 0 : i32, scalify.rule = "sum"} : tensor<8x8xf32>
    return %w2, %dx, %m2 : tensor<8x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>
  }
}

// -----

// What a loop over steps changes is not rounded on its way in, although the
// loop as a whole counts as backward; a value that it only reads may be.
// A step that trains has a product in its backward; that of %k is one which no
// recipe casts.
// CHECK-LABEL: func.func @in_a_loop
// CHECK: %[[W:.*]] = stablehlo.abs
// CHECK: %[[C:.*]] = stablehlo.cosine
// CHECK-NOT: scalify.quantize %[[W]]
// CHECK: scalify.quantize %[[C]]
// CHECK-NOT: scalify.quantize %[[W]]
// CHECK: stablehlo.while
module attributes {scalify.recipe = #scalify.recipe<"bf16">} {
  func.func @in_a_loop(%w: tensor<8x8xf32> {scalify.role = #scalify.role<batch>}, %n: tensor<i32>, %k: tensor<2x2xi32>) -> (tensor<8x8xf32>, tensor<2x2xi32>) {
    %w0 = stablehlo.abs %w {scalify.phase = #scalify.phase<forward>, scalify.scale = 0 : i32, scalify.rule = "abs"} : tensor<8x8xf32>
    %c0 = stablehlo.cosine %w {scalify.phase = #scalify.phase<forward>, scalify.scale = 0 : i32, scalify.rule = "cosine"} : tensor<8x8xf32>
    %0:3 = stablehlo.while(%i = %n, %a = %w0, %c = %c0) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32> attributes {scalify.phase = #scalify.phase<backward>}
    cond {
      %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %1 = stablehlo.multiply %a, %c {scalify.phase = #scalify.phase<backward>} : tensor<8x8xf32>
      %a1 = stablehlo.subtract %a, %1 {scalify.phase = #scalify.phase<optimizer>} : tensor<8x8xf32>
      stablehlo.return %i, %a1, %c : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    %trained = stablehlo.dot_general %k, %k, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    return %0#1, %trained : tensor<8x8xf32>, tensor<2x2xi32>
  }
}
