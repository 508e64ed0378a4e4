// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s
// RUN: sed 's/<"fp8">/<"bf16">/' %s | scalify-opt --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s --check-prefix=BF16
// RUN: sed 's/<"fp8">/<"fp16">/' %s | scalify-opt --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s --check-prefix=BF16

// The layer whose result is a key of a sort, and its two gradients, stay wide;
// the expert's layer and the one before do not, though they share its input.
// CHECK-LABEL: func.func @top_k
// In 16 bits, too, and nothing else does.
// BF16-LABEL: func.func @top_k
// BF16-COUNT-3: scalify.wide = #scalify.decision<"router", "chooses experts (recipe: router = false)"
// BF16-NOT: scalify.wide
// BF16: return
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = false>} {
  func.func @top_k(%x: tensor<8x8xf32>, %router: tensor<8x4xf32>, %up: tensor<8x4xf32>, %down: tensor<4x8xf32>, %g: tensor<8x4xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xi32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %at = stablehlo.iota dim = 1 : tensor<8x4xi32>
    %h = stablehlo.tanh %x : tensor<8x8xf32>
    %hs = scalify.scale_hint %h, %s : tensor<8x8xf32>
    %rs = scalify.scale_hint %router, %s : tensor<8x4xf32>
    // CHECK: stablehlo.dot_general %[[H:.*]], %{{.*}}scalify.wide = #scalify.decision<"router", "chooses experts (recipe: router = false)"
    %logits = stablehlo.dot_general %hs, %rs, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %p = stablehlo.exponential %logits : tensor<8x4xf32>
    // CHECK: stablehlo.sort
    %sorted:2 = "stablehlo.sort"(%p, %at) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>):
      %gt = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %gt : tensor<i1>
    }) : (tensor<8x4xf32>, tensor<8x4xi32>) -> (tensor<8x4xf32>, tensor<8x4xi32>)
    %us = scalify.scale_hint %up, %s : tensor<8x4xf32>
    // CHECK: stablehlo.dot_general
    // CHECK-NOT: scalify.wide
    // CHECK: stablehlo.multiply
    %expert = stablehlo.dot_general %hs, %us, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %gated = stablehlo.multiply %sorted#0, %expert : tensor<8x4xf32>
    %gs = scalify.scale_hint %gated, %s : tensor<8x4xf32>
    %ds = scalify.scale_hint %down, %s : tensor<4x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "
    %y = stablehlo.dot_general %gs, %ds, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %dl = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<8x4xf32>
    %dls = scalify.scale_hint %dl, %s : tensor<8x4xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"router", "chooses experts (recipe: router = false)"
    %dx = stablehlo.dot_general %dls, %rs, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"router", "chooses experts (recipe: router = false)"
    %dw = stablehlo.dot_general %hs, %dls, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    return %y, %dx, %dw, %sorted#1 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xi32>
  }
}

// -----

// One expert, found by an argmax; the gate is the probability itself.
// CHECK-LABEL: func.func @argmax
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = false, router = f8E4M3FN>} {
  func.func @argmax(%x: tensor<8x8xf32>, %router: tensor<8x4xf32>, %down: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<8xi32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %at = stablehlo.iota dim = 1 : tensor<8x4xi32>
    %xs = scalify.scale_hint %x, %s : tensor<8x8xf32>
    %rs = scalify.scale_hint %router, %s : tensor<8x4xf32>
    // CHECK-DAG: scalify.quantize %arg0, {{.*}} -> tensor<8x8xf8E4M3FN>
    // CHECK-DAG: scalify.quantize %arg1, {{.*}} -> tensor<8x4xf8E4M3FN>
    %logits = stablehlo.dot_general %xs, %rs, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %best:2 = stablehlo.reduce(%logits init: %least), (%at init: %zero) across dimensions = [1] : (tensor<8x4xf32>, tensor<8x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xi32>)
    reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
      %gt = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %m = stablehlo.select %gt, %a, %b : tensor<i1>, tensor<f32>
      %n = stablehlo.select %gt, %i, %j : tensor<i1>, tensor<i32>
      stablehlo.return %m, %n : tensor<f32>, tensor<i32>
    }
    %ls = scalify.scale_hint %logits, %s : tensor<8x4xf32>
    %ds = scalify.scale_hint %down, %s : tensor<4x8xf32>
    %y = stablehlo.dot_general %ls, %ds, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %y, %best#1 : tensor<8x8xf32>, tensor<8xi32>
  }
}

// -----

// What a sort carries along chooses nothing.
// CHECK-LABEL: func.func @carried_along
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = false>} {
  func.func @carried_along(%x: tensor<8x8xf32>, %w: tensor<8x4xf32>, %down: tensor<4x8xf32>, %keys: tensor<8x4xi32>) -> tensor<8x8xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<8x8xf32>
    %ws = scalify.scale_hint %w, %s : tensor<8x4xf32>
    // CHECK: scalify.quantize %arg0
    // CHECK-NOT: router
    %h = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    // CHECK: stablehlo.sort
    %sorted:2 = "stablehlo.sort"(%keys, %h) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>, %i: tensor<f32>, %j: tensor<f32>):
      %lt = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    }) : (tensor<8x4xi32>, tensor<8x4xf32>) -> (tensor<8x4xi32>, tensor<8x4xf32>)
    %hs = scalify.scale_hint %sorted#1, %s : tensor<8x4xf32>
    %ds = scalify.scale_hint %down, %s : tensor<4x8xf32>
    // CHECK: scalify.wide = #scalify.decision<"head", "
    %y = stablehlo.dot_general %hs, %ds, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %y : tensor<8x8xf32>
  }
}

// -----

// Greedy decoding: a token drawn from the logits leads to the layers of the next
// turn, but the layer that made them is the head. There is no loss.
// CHECK-LABEL: func.func @decode
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, embedding = false, convolution = false, sensitive = false, head = false, router = true>} {
  func.func @decode(%first: tensor<i32>, %table: tensor<16x8xf32>, %w: tensor<8x8xf32>, %out: tensor<8x16xf32>) -> tensor<i32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %turns = stablehlo.constant dense<4> : tensor<i32>
    %at = stablehlo.iota dim = 1 : tensor<1x16xi32>
    %r:2 = stablehlo.while(%n = %zero, %token = %first) : tensor<i32>, tensor<i32>
    cond {
      %more = stablehlo.compare LT, %n, %turns, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %x = stablehlo.dynamic_slice %table, %token, %zero, sizes = [1, 8] : (tensor<16x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
      %t = stablehlo.tanh %x : tensor<1x8xf32>
      %xs = scalify.scale_hint %t, %s : tensor<1x8xf32>
      %ws = scalify.scale_hint %w, %s : tensor<8x8xf32>
      // CHECK: stablehlo.dot_general
      // CHECK-NOT: scalify.wide
      // CHECK: stablehlo.cosine
      %h = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
      %c = stablehlo.cosine %h : tensor<1x8xf32>
      %hs = scalify.scale_hint %c, %s : tensor<1x8xf32>
      %os = scalify.scale_hint %out, %s : tensor<8x16xf32>
      // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before a result (recipe: head = false)"
      %logits = stablehlo.dot_general %hs, %os, contracting_dims = [1] x [0] : (tensor<1x8xf32>, tensor<8x16xf32>) -> tensor<1x16xf32>
      %best:2 = stablehlo.reduce(%logits init: %least), (%at init: %zero) across dimensions = [1] : (tensor<1x16xf32>, tensor<1x16xi32>, tensor<f32>, tensor<i32>) -> (tensor<1xf32>, tensor<1xi32>)
      reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
        %gt = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %m = stablehlo.select %gt, %a, %b : tensor<i1>, tensor<f32>
        %k = stablehlo.select %gt, %i, %j : tensor<i1>, tensor<i32>
        stablehlo.return %m, %k : tensor<f32>, tensor<i32>
      }
      %next = stablehlo.reshape %best#1 : (tensor<1xi32>) -> tensor<i32>
      %turn = stablehlo.add %n, %one : tensor<i32>
      stablehlo.return %turn, %next : tensor<i32>, tensor<i32>
    }
    return %r#1 : tensor<i32>
  }
}
