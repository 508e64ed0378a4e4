// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 -split-input-file | FileCheck %s

// The pass changes no op: hints stay, and nothing is cast.
// CHECK-NOT: scalify.quantize

// A layer, the head and the gradients of both. An operand that the backward
// computes has the gradient's format.
// CHECK-LABEL: func.func @layers
// CHECK: %[[X:.*]] = scalify.scale_hint
// CHECK: %[[A:.*]] = scalify.scale_hint
// CHECK: stablehlo.dot_general %[[X]], %[[A]], {{.*}}{scalify.dot_kind = #scalify.dot_kind<forward_dot>, scalify.dot_role = #scalify.dot_role<linear>, {{(scalify.dot_weight = [^ ]*, )?}}scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>}
// CHECK: stablehlo.dot_general {{.*}}{scalify.dot_kind = #scalify.dot_kind<forward_dot>, scalify.dot_role = #scalify.dot_role<head>, {{(scalify.dot_weight = [^ ]*, )?}}scalify.wide = #scalify.decision<"head", "the last linear layer before the loss (recipe: head = false)">}
// CHECK: stablehlo.dot_general {{.*}}{scalify.dot_kind = #scalify.dot_kind<input_grad>, scalify.dot_role = #scalify.dot_role<head>, {{.*}}scalify.wide = #scalify.decision<"head",
// CHECK: stablehlo.dot_general {{.*}}{scalify.dot_kind = #scalify.dot_kind<weight_grad>, scalify.dot_role = #scalify.dot_role<linear>, {{(scalify.dot_weight = [^ ]*, )?}}scalify.formats = #scalify.formats<f8E4M3FN, f8E5M2>, scalify.phase
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = false>} {
  func.func @layers(%x: tensor<4x8xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %g: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %dz = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
    %xs = scalify.scale_hint %x, %s : tensor<4x8xf32>
    %as = scalify.scale_hint %a, %s : tensor<8x8xf32>
    %h = stablehlo.dot_general %xs, %as, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %t = stablehlo.tanh %h : tensor<4x8xf32>
    %ts = scalify.scale_hint %t, %s : tensor<4x8xf32>
    %bs = scalify.scale_hint %b, %s : tensor<8x8xf32>
    %z = stablehlo.dot_general %ts, %bs, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dzs = scalify.scale_hint %dz, %s : tensor<4x8xf32>
    %bt = scalify.scale_hint %b, %s : tensor<8x8xf32>
    %dt = stablehlo.dot_general %dzs, %bt, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dh = stablehlo.abs %dt {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
    %xt = scalify.scale_hint %x, %s : tensor<4x8xf32>
    %dhs = scalify.scale_hint %dh, %s : tensor<4x8xf32>
    %da = stablehlo.dot_general %xt, %dhs, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %z, %da : tensor<4x8xf32>, tensor<8x8xf32>
  }
}

// -----

// The scores stay wide; the mix of values, which follows them, is F16.
// CHECK-LABEL: func.func @attention
// CHECK: stablehlo.dot_general {{.*}}scalify.dot_role = #scalify.dot_role<attention_qk>, scalify.wide = #scalify.decision<"attention_qk",
// CHECK: stablehlo.dot_general {{.*}}scalify.dot_role = #scalify.dot_role<attention_pv>, scalify.formats = #scalify.formats<f16, f16>}
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = false, embedding = false, convolution = false, sensitive = false, attention_qk = false, attention_pv = f16>} {
  func.func @attention(%x: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %q = stablehlo.tanh %x : tensor<2x4x8xf32>
    %k = stablehlo.cosine %x : tensor<2x4x8xf32>
    %qs = scalify.scale_hint %q, %s : tensor<2x4x8xf32>
    %ks = scalify.scale_hint %k, %s : tensor<2x4x8xf32>
    %scores = stablehlo.dot_general %qs, %ks, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x4xf32>
    %p = stablehlo.exponential %scores : tensor<2x4x4xf32>
    %ps = scalify.scale_hint %p, %s : tensor<2x4x4xf32>
    %o = stablehlo.dot_general %ps, %ks, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x4xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    return %o : tensor<2x4x8xf32>
  }
}

// -----

// Exceptions by name: of formats, and of sums.
// CHECK-LABEL: func.func @by_name
// CHECK: stablehlo.dot_general {{.*}}{scalify.accumulation = #scalify.accumulation<precise>, scalify.dot_kind = #scalify.dot_kind<forward_dot>, scalify.dot_role = #scalify.dot_role<linear>, {{(scalify.dot_weight = [^ ]*, )?}}scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>}
// CHECK: stablehlo.dot_general {{.*}}scalify.dot_role = #scalify.dot_role<head>, scalify.dot_weight = "last", scalify.formats = #scalify.formats<bf16, bf16>}
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = false, where = {"first" = precise, "last" = bf16}>} {
  func.func @by_name(%x: tensor<4x8xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<8x8xf32> {scalify.name = "first"}, %b: tensor<8x8xf32> {scalify.name = "last"}) -> tensor<4x8xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<4x8xf32>
    %as = scalify.scale_hint %a, %s : tensor<8x8xf32>
    %h = stablehlo.dot_general %xs, %as, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %hs = scalify.scale_hint %h, %s : tensor<4x8xf32>
    %bs = scalify.scale_hint %b, %s : tensor<8x8xf32>
    %z = stablehlo.dot_general %hs, %bs, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %z : tensor<4x8xf32>
  }
}

// -----

// Scales of blocks: lines of the batch along K, squares of a weight.
// CHECK-LABEL: func.func @blocks
// CHECK: scalify.formats = #scalify.formats<f8E4M3FN by [1, 128], f8E4M3FN by [128, 128]>
module attributes {scalify.recipe = #scalify.recipe<"fp8-block", attention = false, embedding = false, convolution = false, sensitive = false, head = true>} {
  func.func @blocks(%x: tensor<256x200xf32> {scalify.role = #scalify.role<batch>}, %w: tensor<200x64xf32> {scalify.role = #scalify.role<param>}) -> tensor<256x64xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %a = scalify.scale_hint %x, %s : tensor<256x200xf32>
    %b = scalify.scale_hint %w, %s : tensor<200x64xf32>
    %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<256x200xf32>, tensor<200x64xf32>) -> tensor<256x64xf32>
    return %y : tensor<256x64xf32>
  }
}

// -----

// A cast that clipped in an earlier run: the dot has formats, but stays wide.
// The list stays for the casts that the next pass makes.
// CHECK: scalify.wide_casts = [
// CHECK-LABEL: func.func @clipped
// CHECK: scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>, scalify.wide = #scalify.decision<"health", "of cast 'c1: arg1', seen">}
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, embedding = false, convolution = false, sensitive = false, head = true>,
    scalify.wide_casts = [{cast = "c1: arg1", elements = 64 : i64, names = "", reason = "seen"}]} {
  func.func @clipped(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %a = scalify.scale_hint %x, %s : tensor<4x8xf32>
    %b = scalify.scale_hint %w, %s : tensor<8x8xf32>
    %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}

// -----

// A recipe that casts nothing: roles alone.
// CHECK-LABEL: func.func @none
// CHECK: stablehlo.dot_general {{.*}}{scalify.dot_kind = #scalify.dot_kind<forward_dot>, scalify.dot_role = #scalify.dot_role<linear>} :
func.func @none(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// By default the dots of softmax attention, with their gradients, are BF16, and
// a product without exponentials between its two dots, as of linear attention,
// stays wide: its rows may vanish, and a norm behind it amplifies rounding.
// CHECK-LABEL: func.func @softmax_or_not
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
  func.func @softmax_or_not(%x: tensor<2x4x8xf32>, %g: tensor<2x4x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %q = stablehlo.tanh %x : tensor<2x4x8xf32>
    %k = stablehlo.cosine %x : tensor<2x4x8xf32>
    %v = stablehlo.sine %x : tensor<2x4x8xf32>
    %qs = scalify.scale_hint %q, %s : tensor<2x4x8xf32>
    %ks = scalify.scale_hint %k, %s : tensor<2x4x8xf32>
    %vs = scalify.scale_hint %v, %s : tensor<2x4x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}#scalify.dot_role<attention_qk>, scalify.formats = #scalify.formats<bf16, bf16>}
    // CHECK: stablehlo.dot_general {{.*}}#scalify.dot_role<attention_pv>, scalify.formats = #scalify.formats<bf16, bf16>}
    %scores = stablehlo.dot_general %qs, %ks, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x4xf32>
    %p = stablehlo.exponential %scores : tensor<2x4x4xf32>
    %ps = scalify.scale_hint %p, %s : tensor<2x4x4xf32>
    %o = stablehlo.dot_general %ps, %vs, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x4xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"product", "two activations (recipe: product = false)"
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"product", "two activations (recipe: product = false)"
    %t = stablehlo.dot_general %ks, %vs, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x4xf32>
    %ts = scalify.scale_hint %t, %s : tensor<2x4x4xf32>
    %r = stablehlo.dot_general %ts, %vs, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x4xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %do = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<2x4x8xf32>
    %dos = scalify.scale_hint %do, %s : tensor<2x4x8xf32>
    // The gradient of the softmax's scores: of the attention by the value that
    // multiplies it.
    // CHECK: stablehlo.dot_general {{.*}}#scalify.dot_role<attention_pv>, scalify.formats = #scalify.formats<bf16, bf16>
    // CHECK: stablehlo.dot_general {{.*}}#scalify.dot_role<attention_ds>, scalify.formats = #scalify.formats<bf16, bf16>
    %dp = stablehlo.dot_general %dos, %vs, batching_dims = [0] x [0], contracting_dims = [2] x [2] {scalify.phase = #scalify.phase<backward>} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x4xf32>
    %ds = stablehlo.multiply %dp, %p {scalify.phase = #scalify.phase<backward>} : tensor<2x4x4xf32>
    %dss = scalify.scale_hint %ds, %s : tensor<2x4x4xf32>
    %dq = stablehlo.dot_general %dss, %ks, batching_dims = [0] x [0], contracting_dims = [2] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<2x4x4xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    return %o, %r, %dq : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>
  }
}
