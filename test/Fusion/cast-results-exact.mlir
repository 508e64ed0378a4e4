// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-form-epilogues))' -verify-diagnostics -split-input-file | FileCheck %s

// The program clamps to the format and counts nothing: the library does the
// same, by a scale that is an argument, and so is the largest magnitude.
// CHECK-LABEL: func.func @clamped
// CHECK-SAME: %[[S:[^ ]*]]: tensor<f32>
// CHECK: %[[Q:.*]], %[[AMAX:.*]] = plan.matmul {{.*}} into(%[[S]]) {{.*}} -> (tensor<32x48xf8E4M3FN>, tensor<f32>)
// CHECK: return %[[Q]], %[[AMAX]]
func.func @clamped(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>, %s: tensor<f32>) -> (tensor<32x48xf8E4M3FN>, tensor<f32>) {
  %init = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %low = stablehlo.constant dense<-448.0> : tensor<32x48xf32>
  %high = stablehlo.constant dense<448.0> : tensor<32x48xf32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %by = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<32x48xf32>
  %scaled = stablehlo.multiply %y, %by : tensor<32x48xf32>
  %over = stablehlo.maximum %low, %scaled : tensor<32x48xf32>
  %within = stablehlo.minimum %high, %over : tensor<32x48xf32>
  %q = stablehlo.convert %within : (tensor<32x48xf32>) -> tensor<32x48xf8E4M3FN>
  %a = stablehlo.abs %y : tensor<32x48xf32>
  %amax = stablehlo.reduce(%a init: %init) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<f32>
  return %q, %amax : tensor<32x48xf8E4M3FN>, tensor<f32>
}

// -----

// CHECK-LABEL: func.func @overflows
// CHECK: stablehlo.convert
func.func @overflows(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>) -> tensor<32x48xf8E4M3FN> {
  // expected-remark @below {{values beyond the format become NaN in the program, and saturate in the library's cast (epilogues=all allows it)}}
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %q = stablehlo.convert %y : (tensor<32x48xf32>) -> tensor<32x48xf8E4M3FN>
  return %q : tensor<32x48xf8E4M3FN>
}

// -----

// A clamp to other numbers is not the cast's.
// CHECK-LABEL: func.func @other_bounds
// CHECK: stablehlo.clamp
func.func @other_bounds(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>) -> tensor<32x48xf8E4M3FN> {
  %low = stablehlo.constant dense<-240.0> : tensor<f32>
  %high = stablehlo.constant dense<240.0> : tensor<f32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %within = stablehlo.clamp %low, %y, %high : (tensor<f32>, tensor<32x48xf32>, tensor<f32>) -> tensor<32x48xf32>
  %q = stablehlo.convert %within : (tensor<32x48xf32>) -> tensor<32x48xf8E4M3FN>
  return %q : tensor<32x48xf8E4M3FN>
}

// -----

// CHECK-LABEL: func.func @divides
// CHECK: stablehlo.divide
func.func @divides(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>, %s: tensor<f32>) -> tensor<32x48xf8E4M3FN> {
  %low = stablehlo.constant dense<-448.0> : tensor<f32>
  %high = stablehlo.constant dense<448.0> : tensor<f32>
  // expected-remark @below {{the library multiplies by the reciprocal of the program's divisor (epilogues=all allows it)}}
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %by = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<32x48xf32>
  %scaled = stablehlo.divide %y, %by : tensor<32x48xf32>
  %within = stablehlo.clamp %low, %scaled, %high : (tensor<f32>, tensor<32x48xf32>, tensor<f32>) -> tensor<32x48xf32>
  %q = stablehlo.convert %within : (tensor<32x48xf32>) -> tensor<32x48xf8E4M3FN>
  return %q : tensor<32x48xf8E4M3FN>
}

// -----

// What a recipe casts is counted, which the library does not.
// CHECK-LABEL: func.func @counted
// CHECK: scalify.quantize
func.func @counted(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>) -> tensor<32x48xf8E4M3FN> {
  %s = stablehlo.constant dense<4.0> : tensor<f32>
  // expected-remark @below {{the library's cast does not count saturated values (epilogues=all allows it)}}
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %q = scalify.quantize %y, %s {cast = "c0: dot"} : tensor<32x48xf32> -> tensor<32x48xf8E4M3FN>
  return %q : tensor<32x48xf8E4M3FN>
}

// -----

// What is cut before the clamp is no matter of the format.
// CHECK-LABEL: func.func @cut_at_zero
// CHECK-NOT: into
// CHECK: stablehlo.maximum
// CHECK: stablehlo.clamp
func.func @cut_at_zero(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>, %s: tensor<f32>) -> tensor<32x48xf8E4M3FN> {
  %low = stablehlo.constant dense<-448.0> : tensor<f32>
  %high = stablehlo.constant dense<448.0> : tensor<f32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<32x48xf32>
  %by = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<32x48xf32>
  %scaled = stablehlo.multiply %y, %by : tensor<32x48xf32>
  %r = stablehlo.maximum %scaled, %zero : tensor<32x48xf32>
  %within = stablehlo.clamp %low, %r, %high : (tensor<f32>, tensor<32x48xf32>, tensor<f32>) -> tensor<32x48xf32>
  %q = stablehlo.convert %within : (tensor<32x48xf32>) -> tensor<32x48xf8E4M3FN>
  return %q : tensor<32x48xf8E4M3FN>
}

// -----

// CHECK-LABEL: func.func @cut_twice
// CHECK-NOT: into
// CHECK: stablehlo.clamp
// CHECK: stablehlo.clamp
func.func @cut_twice(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>, %s: tensor<f32>) -> tensor<32x48xf8E4M3FN> {
  %low = stablehlo.constant dense<-448.0> : tensor<f32>
  %high = stablehlo.constant dense<448.0> : tensor<f32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %less = stablehlo.constant dense<-100.0> : tensor<f32>
  %more = stablehlo.constant dense<100.0> : tensor<f32>
  %r = stablehlo.clamp %less, %y, %more : (tensor<f32>, tensor<32x48xf32>, tensor<f32>) -> tensor<32x48xf32>
  %within = stablehlo.clamp %low, %r, %high : (tensor<f32>, tensor<32x48xf32>, tensor<f32>) -> tensor<32x48xf32>
  %q = stablehlo.convert %within : (tensor<32x48xf32>) -> tensor<32x48xf8E4M3FN>
  return %q : tensor<32x48xf8E4M3FN>
}

// -----

// A branch chooses the product's own largest magnitude.
// CHECK-LABEL: func.func @branches
// CHECK-NOT: into
// CHECK: stablehlo.convert
func.func @branches(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>, %p: tensor<i1>, %s0: tensor<f32>) -> tensor<32x48xf8E4M3FN> {
  %low = stablehlo.constant dense<-448.0> : tensor<f32>
  %high = stablehlo.constant dense<448.0> : tensor<f32>
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %a = stablehlo.abs %y : tensor<32x48xf32>
  %amax = stablehlo.reduce(%a init: %init) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<f32>
  %s = "stablehlo.if"(%p) ({ stablehlo.return %amax : tensor<f32> }, { stablehlo.return %s0 : tensor<f32> }) : (tensor<i1>) -> tensor<f32>
  %by = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<32x48xf32>
  %scaled = stablehlo.multiply %y, %by : tensor<32x48xf32>
  %within = stablehlo.clamp %low, %scaled, %high : (tensor<f32>, tensor<32x48xf32>, tensor<f32>) -> tensor<32x48xf32>
  %q = stablehlo.convert %within : (tensor<32x48xf32>) -> tensor<32x48xf8E4M3FN>
  return %q : tensor<32x48xf8E4M3FN>
}

// -----

// Ranks agree on the scale behind the product: their messages keep their order.
// CHECK-LABEL: func.func @of_ranks
// CHECK-NOT: into
// CHECK: stablehlo.convert
func.func @of_ranks(%x: tensor<32x16xf8E4M3FN>, %w: tensor<48x16xf8E4M3FN>, %s0: tensor<f32>) -> tensor<32x48xf8E4M3FN> {
  %low = stablehlo.constant dense<-448.0> : tensor<f32>
  %high = stablehlo.constant dense<448.0> : tensor<f32>
  %y = plan.matmul %x, %w m 32 n 48 k 16 strides [16, 1] x [1, 16] to [48, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>) -> tensor<32x48xf32>
  %s = "stablehlo.all_reduce"(%s0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %9 = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) : (tensor<f32>) -> tensor<f32>
  %by = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<32x48xf32>
  %scaled = stablehlo.multiply %y, %by : tensor<32x48xf32>
  %within = stablehlo.clamp %low, %scaled, %high : (tensor<f32>, tensor<32x48xf32>, tensor<f32>) -> tensor<32x48xf32>
  %q = stablehlo.convert %within : (tensor<32x48xf32>) -> tensor<32x48xf8E4M3FN>
  return %q : tensor<32x48xf8E4M3FN>
}
