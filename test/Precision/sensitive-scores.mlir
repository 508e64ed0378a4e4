// RUN: scalify-opt %s --scalify-decide-formats="remarks=0 noise-exponent=9" | FileCheck %s --check-prefixes=CHECK,NOW
// RUN: scalify-opt %s --scalify-decide-formats="remarks=0 noise-exponent=9 stays" | FileCheck %s --check-prefixes=CHECK,STAYS
// RUN: sed 's/recipe<"fp8">/recipe<"fp8", where = {"arg1|arg2" = false}>/' %s | scalify-opt --scalify-decide-formats="remarks=0 noise-exponent=9 stays" | FileCheck %s --check-prefix=NAMED

// At weights of 2^-10 scores are near zero, and exact enough in BF16. At unit
// gain they have a variance of 64, and an exponential turns the error of BF16
// into 3e-4 of the mean square of its gradient, here multiplied by 2^9. If
// formats stay, the forward is F32: sharp attention multiplies its errors.
// Queries and keys that the user keeps wide say nothing of what scores need.
// CHECK-LABEL: func.func @attention
// NAMED-LABEL: func.func @attention
// NAMED-COUNT-2: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"name"
// NAMED: stablehlo.dot_general {{.*}}#scalify.dot_role<attention_qk>
// NAMED-SAME: scalify.formats = #scalify.formats<bf16, bf16>
// NOW-COUNT-5: stablehlo.dot_general {{.*}}scalify.formats = #scalify.formats<bf16, bf16>
// STAYS-COUNT-5: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"sensitive_wide", "attention becomes sharp
// CHECK: stablehlo.dot_general {{.*}}#scalify.dot_kind<weight_grad>
// CHECK-SAME: scalify.formats = #scalify.formats<bf16, bf16>
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
  func.func @attention(%x: tensor<4x64x64xf32> {scalify.role = #scalify.role<batch>, scalify.scale = 0 : i32},
                       %wq: tensor<64x64xf32> {scalify.role = #scalify.role<param>, scalify.scale = -10 : i32},
                       %wk: tensor<64x64xf32> {scalify.role = #scalify.role<param>, scalify.scale = -10 : i32},
                       %wv: tensor<64x64xf32> {scalify.role = #scalify.role<param>, scalify.scale = -3 : i32})
      -> tensor<64x64xf32> {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %xq = scalify.scale_hint %x, %s : tensor<4x64x64xf32>
    %wqs = scalify.scale_hint %wq, %s : tensor<64x64xf32>
    %q = stablehlo.dot_general %xq, %wqs, contracting_dims = [2] x [0] : (tensor<4x64x64xf32>, tensor<64x64xf32>) -> tensor<4x64x64xf32>
    %xk = scalify.scale_hint %x, %s : tensor<4x64x64xf32>
    %wks = scalify.scale_hint %wk, %s : tensor<64x64xf32>
    %k = stablehlo.dot_general %xk, %wks, contracting_dims = [2] x [0] : (tensor<4x64x64xf32>, tensor<64x64xf32>) -> tensor<4x64x64xf32>
    %xv = scalify.scale_hint %x, %s : tensor<4x64x64xf32>
    %wvs = scalify.scale_hint %wv, %s : tensor<64x64xf32>
    %v = stablehlo.dot_general %xv, %wvs, contracting_dims = [2] x [0] : (tensor<4x64x64xf32>, tensor<64x64xf32>) -> tensor<4x64x64xf32>
    %qs = scalify.scale_hint %q, %s : tensor<4x64x64xf32>
    %ks = scalify.scale_hint %k, %s : tensor<4x64x64xf32>
    %scores = stablehlo.dot_general %qs, %ks, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<4x64x64xf32>, tensor<4x64x64xf32>) -> tensor<4x64x64xf32>
    %e = stablehlo.exponential %scores : tensor<4x64x64xf32>
    %es = scalify.scale_hint %e, %s : tensor<4x64x64xf32>
    %vs = scalify.scale_hint %v, %s : tensor<4x64x64xf32>
    %o = stablehlo.dot_general %es, %vs, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x64x64xf32>, tensor<4x64x64xf32>) -> tensor<4x64x64xf32>
    %g = stablehlo.multiply %o, %o {scalify.phase = #scalify.phase<backward>} : tensor<4x64x64xf32>
    %xg = scalify.scale_hint %x, %s : tensor<4x64x64xf32>
    %gs = scalify.scale_hint %g, %s : tensor<4x64x64xf32>
    %gw = stablehlo.dot_general %xg, %gs, contracting_dims = [0, 1] x [0, 1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x64x64xf32>, tensor<4x64x64xf32>) -> tensor<64x64xf32>
    return %gw : tensor<64x64xf32>
  }

  // Scores of parts of the keys, in a loop that the queries enter.
  // CHECK-LABEL: func.func @parts
  // NOW: stablehlo.dot_general {{.*}}scalify.dot_weight = "arg1", scalify.formats = #scalify.formats<bf16, bf16>
  // STAYS: stablehlo.dot_general {{.*}}scalify.dot_weight = "arg1", scalify.wide = #scalify.decision<"sensitive_wide", "attention becomes sharp
  // CHECK: stablehlo.while
  // CHECK: stablehlo.dot_general {{.*}}#scalify.dot_role<attention_qk>
  // NOW-SAME: scalify.formats = #scalify.formats<bf16, bf16>
  // STAYS-SAME: scalify.wide = #scalify.decision<"sensitive_wide", "attention becomes sharp
  // CHECK: stablehlo.dot_general {{.*}}#scalify.dot_kind<weight_grad>
  // CHECK-SAME: scalify.formats = #scalify.formats<bf16, bf16>
  func.func @parts(%x: tensor<4x64x64xf32> {scalify.role = #scalify.role<batch>, scalify.scale = 0 : i32},
                   %wq: tensor<64x64xf32> {scalify.role = #scalify.role<param>, scalify.scale = -10 : i32})
      -> tensor<64x64xf32> {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %zeros = stablehlo.constant dense<0.0> : tensor<4x64x64xf32>
    %xq = scalify.scale_hint %x, %s : tensor<4x64x64xf32>
    %wqs = scalify.scale_hint %wq, %s : tensor<64x64xf32>
    %q = stablehlo.dot_general %xq, %wqs, contracting_dims = [2] x [0] : (tensor<4x64x64xf32>, tensor<64x64xf32>) -> tensor<4x64x64xf32>
    %k = stablehlo.tanh %x : tensor<4x64x64xf32>
    %r:4 = stablehlo.while(%i = %zero, %queries = %q, %keys = %k, %sum = %zeros) : tensor<i32>, tensor<4x64x64xf32>, tensor<4x64x64xf32>, tensor<4x64x64xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %qs = scalify.scale_hint %queries, %s : tensor<4x64x64xf32>
      %ks = scalify.scale_hint %keys, %s : tensor<4x64x64xf32>
      %scores = stablehlo.dot_general %qs, %ks, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<4x64x64xf32>, tensor<4x64x64xf32>) -> tensor<4x64x64xf32>
      %e = stablehlo.exponential %scores : tensor<4x64x64xf32>
      %es = scalify.scale_hint %e, %s : tensor<4x64x64xf32>
      %vs = scalify.scale_hint %keys, %s : tensor<4x64x64xf32>
      %o = stablehlo.dot_general %es, %vs, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x64x64xf32>, tensor<4x64x64xf32>) -> tensor<4x64x64xf32>
      %next = stablehlo.add %sum, %o : tensor<4x64x64xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %queries, %keys, %next : tensor<i32>, tensor<4x64x64xf32>, tensor<4x64x64xf32>, tensor<4x64x64xf32>
    }
    %g = stablehlo.multiply %r#3, %r#3 {scalify.phase = #scalify.phase<backward>} : tensor<4x64x64xf32>
    %xg = scalify.scale_hint %x, %s : tensor<4x64x64xf32>
    %gs = scalify.scale_hint %g, %s : tensor<4x64x64xf32>
    %gw = stablehlo.dot_general %xg, %gs, contracting_dims = [0, 1] x [0, 1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x64x64xf32>, tensor<4x64x64xf32>) -> tensor<64x64xf32>
    return %gw : tensor<64x64xf32>
  }
}
