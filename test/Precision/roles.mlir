// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s

// The scores, the mix of values with its two gradients, and the two dots on
// the gradient of the scores have formats of their own; k is cast to both of
// the formats that it is used in.
// CHECK-LABEL: func.func @attention
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = false, embedding = false, convolution = false, sensitive = false, attention_qk = true, attention_pv = f16, attention_ds = false>} {
  func.func @attention(%x: tensor<2x4x8xf32>, %g: tensor<2x4x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %q = stablehlo.tanh %x : tensor<2x4x8xf32>
    %k = stablehlo.cosine %x : tensor<2x4x8xf32>
    %v = stablehlo.sine %x : tensor<2x4x8xf32>
    %qs = scalify.scale_hint %q, %s : tensor<2x4x8xf32>
    %ks = scalify.scale_hint %k, %s : tensor<2x4x8xf32>
    // CHECK-DAG: %[[Q:.*]] = stablehlo.tanh
    // CHECK-DAG: scalify.quantize %[[Q]], {{.*}} -> tensor<2x4x8xf8E4M3FN>
    // CHECK-DAG: %[[K:.*]] = stablehlo.cosine
    // CHECK-DAG: scalify.quantize %[[K]], {{.*}} -> tensor<2x4x8xf8E4M3FN>
    // CHECK-DAG: %[[V:.*]] = stablehlo.sine
    // CHECK-DAG: scalify.quantize %[[V]], {{.*}} -> tensor<2x4x8xf16>
    %scores = stablehlo.dot_general %qs, %ks, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x4xf32>
    // CHECK: %[[P:.*]] = stablehlo.exponential
    // CHECK: scalify.quantize %[[P]], {{.*}} -> tensor<2x4x4xf16>
    %p = stablehlo.exponential %scores : tensor<2x4x4xf32>
    %ps = scalify.scale_hint %p, %s : tensor<2x4x4xf32>
    %vs = scalify.scale_hint %v, %s : tensor<2x4x8xf32>
    %o = stablehlo.dot_general %ps, %vs, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x4xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %do = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<2x4x8xf32>
    // CHECK: %[[DO:.*]] = stablehlo.negate
    // CHECK: scalify.quantize %[[DO]], {{.*}} -> tensor<2x4x8xf16>
    %dos = scalify.scale_hint %do, %s : tensor<2x4x8xf32>
    %dp = stablehlo.dot_general %dos, %vs, batching_dims = [0] x [0], contracting_dims = [2] x [2] {scalify.phase = #scalify.phase<backward>} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x4xf32>
    %dv = stablehlo.dot_general %ps, %dos, batching_dims = [0] x [0], contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<2x4x4xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %ds = stablehlo.multiply %dp, %p {scalify.phase = #scalify.phase<backward>} : tensor<2x4x4xf32>
    %dss = scalify.scale_hint %ds, %s : tensor<2x4x4xf32>
    // CHECK: scalify.wide = #scalify.decision<"attention_ds", "the gradient of scores (recipe: attention_ds = false)"
    %dq = stablehlo.dot_general %dss, %ks, batching_dims = [0] x [0], contracting_dims = [2] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<2x4x4xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    return %o, %dv, %dq : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>
  }
}

// -----

// An exception by the name of the weight holds for the gradient of the weight,
// which has no operand of that name.
// CHECK-LABEL: func.func @by_name
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, embedding = false, convolution = false, sensitive = false, head = true, where = {"params\\['b'\\]" = wide}>} {
  func.func @by_name(%x: tensor<4x8xf32>, %a: tensor<8x8xf32> {scalify.name = "params['a']"}, %b: tensor<8x8xf32> {scalify.name = "params['b']"}, %g: tensor<4x8xf32>)
      -> (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<4x8xf32>
    %as = scalify.scale_hint %a, %s : tensor<8x8xf32>
    %y = stablehlo.dot_general %xs, %as, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %h = stablehlo.tanh %y : tensor<4x8xf32>
    %hs = scalify.scale_hint %h, %s : tensor<4x8xf32>
    %bs = scalify.scale_hint %b, %s : tensor<8x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"name", "the last linear layer before the loss (recipe: where \22params
    %z = stablehlo.dot_general %hs, %bs, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dz = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
    %dzs = scalify.scale_hint %dz, %s : tensor<4x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"name", "
    %dh = stablehlo.dot_general %dzs, %bs, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"name", "
    %db = stablehlo.dot_general %hs, %dzs, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %z, %db, %dh : tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>
  }
}

// -----

// Newton-Schulz's iterations in an update cancel: no rule says what is left.
// CHECK-LABEL: func.func @update
module attributes {scalify.recipe = #scalify.recipe<"fp16">} {
  func.func @update(%w: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %g = stablehlo.negate %w {scalify.phase = #scalify.phase<backward>} : tensor<4x4xf32>
    %a = scalify.scale_hint %g, %s : tensor<4x4xf32>
    // CHECK-NOT: scalify.quantize
    // CHECK: scalify.wide = #scalify.decision<"optimizer", "a dot of the update (recipe: optimizer = false)"
    %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<optimizer>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}

// -----

// Without a backward nothing is updated: this is a second result.
// CHECK-LABEL: func.func @two_results
module attributes {scalify.recipe = #scalify.recipe<"fp16">} {
  func.func @two_results(%w: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %a = scalify.scale_hint %w, %s : tensor<4x4xf32>
    // CHECK: scalify.quantize
    // CHECK-NOT: scalify.wide
    %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<optimizer>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}

// -----

// A contrastive loss: the product of two projections is all that stands between
// them and the loss, so that they and it are the head, with their gradients.
// CHECK-LABEL: func.func @similarity
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = false>} {
  func.func @similarity(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %a: tensor<8x8xf32> {scalify.name = "params['a']"}, %b: tensor<8x8xf32> {scalify.name = "params['b']"}, %c: tensor<8x8xf32> {scalify.name = "params['c']"}, %g: tensor<4x4xf32>)
      -> (tensor<4x4xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %as = scalify.scale_hint %a, %s : tensor<8x8xf32>
    %bs = scalify.scale_hint %b, %s : tensor<8x8xf32>
    %cs = scalify.scale_hint %c, %s : tensor<8x8xf32>
    // CHECK-COUNT-2: scalify.quantize
    // CHECK-NOT: scalify.quantize
    %x0 = stablehlo.tanh %x : tensor<4x8xf32>
    %x1 = scalify.scale_hint %x0, %s : tensor<4x8xf32>
    %h = stablehlo.dot_general %x1, %as, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %h0 = stablehlo.tanh %h : tensor<4x8xf32>
    %h1 = scalify.scale_hint %h0, %s : tensor<4x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before the loss
    %p = stablehlo.dot_general %h1, %bs, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %y0 = stablehlo.sine %y : tensor<4x8xf32>
    %y1 = scalify.scale_hint %y0, %s : tensor<4x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before the loss
    %q = stablehlo.dot_general %y1, %cs, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before the loss
    %logits = stablehlo.dot_general %p, %q, contracting_dims = [1] x [1] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
    %d = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<4x4xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before the loss
    %dp = stablehlo.dot_general %d, %q, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before the loss
    %dq = stablehlo.dot_general %d, %p, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %dq1 = scalify.scale_hint %dq, %s : tensor<4x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before the loss
    %dy = stablehlo.dot_general %dq1, %cs, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before the loss
    %dc = stablehlo.dot_general %y1, %dq1, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %logits, %dp, %dy, %dc : tensor<4x4xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>
  }
}

// -----

// A checkpoint makes a layer again whose weight is computed: by the weight
// behind it, it is that layer, and no head, though only gradients follow.
// CHECK-LABEL: func.func @computed_weight
// CHECK-COUNT-2: stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [0] {scalify.dot_kind = {{[^ ]*}}, {{(scalify.dot_weight = [^ ]*, )?}}scalify.phase = #scalify.phase<forward>}
// CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before the loss (recipe: head = false)"
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = false>} {
  func.func @computed_weight(%x: tensor<4x8xf32> {scalify.role = #scalify.role<batch>}, %w: tensor<8x8xf32> {scalify.role = #scalify.role<param>}, %u: tensor<8x8xf32> {scalify.role = #scalify.role<param>})
      -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %a = stablehlo.add %w, %w {scalify.phase = #scalify.phase<forward>} : tensor<8x8xf32>
    %xs = scalify.scale_hint %x, %s : tensor<4x8xf32>
    %as = scalify.scale_hint %a, %s : tensor<8x8xf32>
    %y = stablehlo.dot_general %xs, %as, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %b = stablehlo.optimization_barrier {scalify.phase = #scalify.phase<forward>} %w : tensor<8x8xf32>
    %c = stablehlo.add %b, %b {scalify.phase = #scalify.phase<forward>} : tensor<8x8xf32>
    %cs = scalify.scale_hint %c, %s : tensor<8x8xf32>
    %again = stablehlo.dot_general %xs, %cs, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %h = stablehlo.tanh %y {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
    %hs = scalify.scale_hint %h, %s : tensor<4x8xf32>
    %us = scalify.scale_hint %u, %s : tensor<8x8xf32>
    %z = stablehlo.dot_general %hs, %us, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %g = stablehlo.multiply %z, %again {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
    return %z, %g : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// A graph's adjacency multiplies the result of each layer. It is batch, so the
// layer before it is the head, and so is its own product. The inner ones cast.
// CHECK-LABEL: func.func @graph
// CHECK-COUNT-2: stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [0] {scalify.dot_kind = {{[^ ]*}}, {{(scalify.dot_weight = [^ ]*, )?}}scalify.phase = #scalify.phase<forward>} :
// CHECK-COUNT-2: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before the loss (recipe: head = false)"
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = false>} {
  func.func @graph(%x: tensor<4x8xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<4x4xf32> {scalify.role = #scalify.role<batch>}, %w: tensor<8x8xf32> {scalify.role = #scalify.role<param>}, %u: tensor<8x8xf32> {scalify.role = #scalify.role<param>})
      -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<4x8xf32>
    %ws = scalify.scale_hint %w, %s : tensor<8x8xf32>
    %as = scalify.scale_hint %a, %s : tensor<4x4xf32>
    %us = scalify.scale_hint %u, %s : tensor<8x8xf32>
    %y = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %ys = scalify.scale_hint %y, %s : tensor<4x8xf32>
    %ay = stablehlo.dot_general %as, %ys, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %h = stablehlo.tanh %ay {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
    %hs = scalify.scale_hint %h, %s : tensor<4x8xf32>
    %z = stablehlo.dot_general %hs, %us, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %zs = scalify.scale_hint %z, %s : tensor<4x8xf32>
    %az = stablehlo.dot_general %as, %zs, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %g = stablehlo.negate %az {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
    return %az, %g : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// Logits times labels, example by example: the layer before is the head.
// CHECK-LABEL: func.func @labels
// CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before the loss (recipe: head = false)"
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = false>} {
  func.func @labels(%x: tensor<4x8xf32> {scalify.role = #scalify.role<batch>}, %t: tensor<4x8xf32> {scalify.role = #scalify.role<batch>}, %w: tensor<8x8xf32> {scalify.role = #scalify.role<param>})
      -> (tensor<4xf32>, tensor<4xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<4x8xf32>
    %ws = scalify.scale_hint %w, %s : tensor<8x8xf32>
    %z = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %e = stablehlo.exponential %z {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
    %r = stablehlo.dot_general %e, %t, batching_dims = [0] x [0], contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4xf32>
    %g = stablehlo.negate %r {scalify.phase = #scalify.phase<backward>} : tensor<4xf32>
    return %r, %g : tensor<4xf32>, tensor<4xf32>
  }
}
