// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-form-epilogues{level=all}))' -verify-diagnostics -split-input-file | FileCheck %s
// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-form-epilogues))' -split-input-file 2>/dev/null | FileCheck %s --check-prefix=EXACT

// The tanh form as JAX has it, in F32: the backward reads what the GELU read,
// which the library stores.
// EXACT-LABEL: func.func @kept
// EXACT-NOT: epilogue gelu
// CHECK-LABEL: func.func @kept
// CHECK: %[[H:.*]], %[[AUX:.*]] = plan.matmul {{.*}} epilogue bias_gelu bias(%{{.*}}) : {{.*}} -> (tensor<16x32xf32>, tensor<16x32xf32>)
// CHECK-NOT: stablehlo.tanh
// CHECK: plan.matmul %[[H]],
// CHECK: stablehlo.cosine %[[AUX]]
func.func @kept(%x: tensor<16x8xf32>, %w: tensor<8x32xf32>, %bias: tensor<32xf32>, %v: tensor<32x8xf32>) -> (tensor<16x8xf32>, tensor<16x32xf32>) {
  %half = stablehlo.constant dense<0.5> : tensor<16x32xf32>
  %one = stablehlo.constant dense<1.0> : tensor<16x32xf32>
  %slope = stablehlo.constant dense<0.797884583> : tensor<16x32xf32>
  %cubic = stablehlo.constant dense<4.471500e-02> : tensor<16x32xf32>
  %b = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<32xf32>) -> tensor<16x32xf32>
  %d = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %s = stablehlo.add %d, %b : tensor<16x32xf32>
  %1 = stablehlo.multiply %s, %s : tensor<16x32xf32>
  %2 = stablehlo.multiply %1, %s : tensor<16x32xf32>
  %3 = stablehlo.multiply %2, %cubic : tensor<16x32xf32>
  %4 = stablehlo.add %s, %3 : tensor<16x32xf32>
  %5 = stablehlo.multiply %4, %slope : tensor<16x32xf32>
  %6 = stablehlo.tanh %5 : tensor<16x32xf32>
  %7 = stablehlo.add %6, %one : tensor<16x32xf32>
  %8 = stablehlo.multiply %7, %half : tensor<16x32xf32>
  %h = stablehlo.multiply %s, %8 : tensor<16x32xf32>
  %y = plan.matmul %h, %v m 16 n 8 k 32 strides [32, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  %z = stablehlo.cosine %s : tensor<16x32xf32>
  return %y, %z : tensor<16x8xf32>, tensor<16x32xf32>
}

// -----

// Nothing else reads it, and it is not stored: in 16 bits all the program's
// roundings are one. Another slope is no GELU.
// CHECK-LABEL: func.func @alone
// CHECK: plan.matmul {{.*}} epilogue bias_gelu bias(%{{.*}}) : {{.*}} -> tensor<16x32xbf16>
// CHECK: plan.matmul {{.*}} epilogue bias bias(%{{.*}}) : {{.*}} -> tensor<16x32xbf16>
// CHECK: stablehlo.tanh
// CHECK-NOT: stablehlo.tanh
// EXACT-LABEL: func.func @alone
// EXACT-NOT: epilogue
func.func @alone(%x: tensor<16x8xbf16>, %w: tensor<8x32xbf16>, %bias: tensor<32xbf16>) -> (tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>) {
  %half = stablehlo.constant dense<0.5> : tensor<16x32xbf16>
  %one = stablehlo.constant dense<1.0> : tensor<16x32xbf16>
  %slope = stablehlo.constant dense<7.968750e-01> : tensor<16x32xbf16>
  %other = stablehlo.constant dense<8.007810e-01> : tensor<16x32xbf16>
  %cubic = stablehlo.constant dense<4.467770e-02> : tensor<16x32xbf16>
  %b = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<32xbf16>) -> tensor<16x32xbf16>
  %d = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xbf16>, tensor<8x32xbf16>) -> tensor<16x32xbf16>
  %s = stablehlo.add %d, %b : tensor<16x32xbf16>
  %1 = stablehlo.multiply %s, %s : tensor<16x32xbf16>
  %2 = stablehlo.multiply %s, %1 : tensor<16x32xbf16>
  %3 = stablehlo.multiply %cubic, %2 : tensor<16x32xbf16>
  %4 = stablehlo.add %3, %s : tensor<16x32xbf16>
  %5 = stablehlo.multiply %slope, %4 : tensor<16x32xbf16>
  %6 = stablehlo.tanh %5 : tensor<16x32xbf16>
  %7 = stablehlo.add %one, %6 : tensor<16x32xbf16>
  %8 = stablehlo.multiply %half, %7 : tensor<16x32xbf16>
  %h = stablehlo.multiply %8, %s : tensor<16x32xbf16>
  %e = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xbf16>, tensor<8x32xbf16>) -> tensor<16x32xbf16>
  %t = stablehlo.add %e, %b : tensor<16x32xbf16>
  %11 = stablehlo.multiply %t, %t : tensor<16x32xbf16>
  %12 = stablehlo.multiply %11, %t : tensor<16x32xbf16>
  %13 = stablehlo.multiply %12, %cubic : tensor<16x32xbf16>
  %14 = stablehlo.add %t, %13 : tensor<16x32xbf16>
  %15 = stablehlo.multiply %14, %other : tensor<16x32xbf16>
  %16 = stablehlo.tanh %15 : tensor<16x32xbf16>
  %17 = stablehlo.add %16, %one : tensor<16x32xbf16>
  %18 = stablehlo.multiply %17, %half : tensor<16x32xbf16>
  %k = stablehlo.multiply %t, %18 : tensor<16x32xbf16>
  return %h, %t, %k : tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>
}

// -----

// What the backward reads stays as wide as it was, and rows of 12 elements the
// library does not store.
// CHECK-LABEL: func.func @refused
// CHECK-NOT: epilogue
func.func @refused(%x: tensor<16x8xbf16>, %w: tensor<8x32xbf16>, %v: tensor<8x12xbf16>) -> (tensor<16x32xbf16>, tensor<16x32xf32>, tensor<16x12xbf16>, tensor<16x12xbf16>) {
  %half = stablehlo.constant dense<0.5> : tensor<16x32xf32>
  %one = stablehlo.constant dense<1.0> : tensor<16x32xf32>
  %slope = stablehlo.constant dense<0.797884583> : tensor<16x32xf32>
  %cubic = stablehlo.constant dense<4.471500e-02> : tensor<16x32xf32>
  // expected-remark @+1 {{the product that the backward reads would be rounded too}}
  %s = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xbf16>, tensor<8x32xbf16>) -> tensor<16x32xf32>
  %1 = stablehlo.multiply %s, %s : tensor<16x32xf32>
  %2 = stablehlo.multiply %1, %s : tensor<16x32xf32>
  %3 = stablehlo.multiply %2, %cubic : tensor<16x32xf32>
  %4 = stablehlo.add %s, %3 : tensor<16x32xf32>
  %5 = stablehlo.multiply %4, %slope : tensor<16x32xf32>
  %6 = stablehlo.tanh %5 : tensor<16x32xf32>
  %7 = stablehlo.add %6, %one : tensor<16x32xf32>
  %8 = stablehlo.multiply %7, %half : tensor<16x32xf32>
  %9 = stablehlo.multiply %s, %8 : tensor<16x32xf32>
  %h = stablehlo.convert %9 : (tensor<16x32xf32>) -> tensor<16x32xbf16>
  %z = stablehlo.cosine %6 : tensor<16x32xf32>
  %half1 = stablehlo.constant dense<0.5> : tensor<16x12xbf16>
  %one1 = stablehlo.constant dense<1.0> : tensor<16x12xbf16>
  %slope1 = stablehlo.constant dense<7.968750e-01> : tensor<16x12xbf16>
  %cubic1 = stablehlo.constant dense<4.467770e-02> : tensor<16x12xbf16>
  // expected-remark @+1 {{the GELU's input has rows of no multiple of 8 elements}}
  %t = plan.matmul %x, %v m 16 n 12 k 8 strides [8, 1] x [12, 1] to [12, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xbf16>, tensor<8x12xbf16>) -> tensor<16x12xbf16>
  %11 = stablehlo.multiply %t, %t : tensor<16x12xbf16>
  %12 = stablehlo.multiply %11, %t : tensor<16x12xbf16>
  %13 = stablehlo.multiply %12, %cubic1 : tensor<16x12xbf16>
  %14 = stablehlo.add %t, %13 : tensor<16x12xbf16>
  %15 = stablehlo.multiply %14, %slope1 : tensor<16x12xbf16>
  %16 = stablehlo.tanh %15 : tensor<16x12xbf16>
  %17 = stablehlo.add %16, %one1 : tensor<16x12xbf16>
  %18 = stablehlo.multiply %17, %half1 : tensor<16x12xbf16>
  %k = stablehlo.multiply %t, %18 : tensor<16x12xbf16>
  %y = stablehlo.cosine %t : tensor<16x12xbf16>
  return %h, %z, %k, %y : tensor<16x32xbf16>, tensor<16x32xf32>, tensor<16x12xbf16>, tensor<16x12xbf16>
}

// -----

// A gradient behind a GELU, in another order than JAX's, with 3 * 0.044715 as
// one constant. What the GELU read is in memory: an argument.
// CHECK-LABEL: func.func @gradient
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<16x32xf32>)
// CHECK: %[[D:.*]] = plan.matmul {{.*}} epilogue gelu_grad saved(%[[X]]) :
// CHECK-NOT: stablehlo.
// CHECK: plan.matmul %[[D]],
// EXACT-LABEL: func.func @gradient
// EXACT-NOT: epilogue
func.func @gradient(%dy: tensor<16x8xf32>, %w: tensor<8x32xf32>, %v: tensor<32x8xf32>, %x: tensor<16x32xf32>) -> tensor<16x8xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<16x32xf32>
  %one = stablehlo.constant dense<1.0> : tensor<16x32xf32>
  %slope = stablehlo.constant dense<0.797884583> : tensor<16x32xf32>
  %cubic = stablehlo.constant dense<4.471500e-02> : tensor<16x32xf32>
  %cubic3 = stablehlo.constant dense<0.134145> : tensor<16x32xf32>
  %g = plan.matmul %dy, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %x2 = stablehlo.multiply %x, %x : tensor<16x32xf32>
  %dx2 = stablehlo.multiply %cubic3, %x2 : tensor<16x32xf32>
  %inner = stablehlo.add %one, %dx2 : tensor<16x32xf32>
  %x3 = stablehlo.multiply %x2, %x : tensor<16x32xf32>
  %cx3 = stablehlo.multiply %x3, %cubic : tensor<16x32xf32>
  %sum = stablehlo.add %cx3, %x : tensor<16x32xf32>
  %arg = stablehlo.multiply %sum, %slope : tensor<16x32xf32>
  %t = stablehlo.tanh %arg : tensor<16x32xf32>
  %t2 = stablehlo.multiply %t, %t : tensor<16x32xf32>
  %minus = stablehlo.negate %t2 : tensor<16x32xf32>
  %rest = stablehlo.add %one, %minus : tensor<16x32xf32>
  %hg = stablehlo.multiply %g, %half : tensor<16x32xf32>
  %p1 = stablehlo.multiply %hg, %x : tensor<16x32xf32>
  %p2 = stablehlo.multiply %p1, %rest : tensor<16x32xf32>
  %p3 = stablehlo.multiply %p2, %slope : tensor<16x32xf32>
  %p4 = stablehlo.multiply %inner, %p3 : tensor<16x32xf32>
  %q1 = stablehlo.add %t, %one : tensor<16x32xf32>
  %q2 = stablehlo.multiply %q1, %hg : tensor<16x32xf32>
  %dx = stablehlo.add %q2, %p4 : tensor<16x32xf32>
  %y = plan.matmul %dx, %v m 16 n 8 k 32 strides [32, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

// -----

// 3 * 0.0447 is another function.
// CHECK-LABEL: func.func @almost_a_gradient
// CHECK-NOT: epilogue
func.func @almost_a_gradient(%dy: tensor<16x8xf32>, %w: tensor<8x32xf32>, %v: tensor<32x8xf32>, %x: tensor<16x32xf32>) -> tensor<16x8xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<16x32xf32>
  %one = stablehlo.constant dense<1.0> : tensor<16x32xf32>
  %slope = stablehlo.constant dense<0.797884583> : tensor<16x32xf32>
  %cubic = stablehlo.constant dense<4.471500e-02> : tensor<16x32xf32>
  %cubic3 = stablehlo.constant dense<0.1341> : tensor<16x32xf32>
  %g = plan.matmul %dy, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %x2 = stablehlo.multiply %x, %x : tensor<16x32xf32>
  %dx2 = stablehlo.multiply %cubic3, %x2 : tensor<16x32xf32>
  %inner = stablehlo.add %one, %dx2 : tensor<16x32xf32>
  %x3 = stablehlo.multiply %x2, %x : tensor<16x32xf32>
  %cx3 = stablehlo.multiply %x3, %cubic : tensor<16x32xf32>
  %sum = stablehlo.add %cx3, %x : tensor<16x32xf32>
  %arg = stablehlo.multiply %sum, %slope : tensor<16x32xf32>
  %t = stablehlo.tanh %arg : tensor<16x32xf32>
  %t2 = stablehlo.multiply %t, %t : tensor<16x32xf32>
  %minus = stablehlo.negate %t2 : tensor<16x32xf32>
  %rest = stablehlo.add %one, %minus : tensor<16x32xf32>
  %hg = stablehlo.multiply %g, %half : tensor<16x32xf32>
  %p1 = stablehlo.multiply %hg, %x : tensor<16x32xf32>
  %p2 = stablehlo.multiply %p1, %rest : tensor<16x32xf32>
  %p3 = stablehlo.multiply %p2, %slope : tensor<16x32xf32>
  %p4 = stablehlo.multiply %inner, %p3 : tensor<16x32xf32>
  %q1 = stablehlo.add %t, %one : tensor<16x32xf32>
  %q2 = stablehlo.multiply %q1, %hg : tensor<16x32xf32>
  %dx = stablehlo.add %q2, %p4 : tensor<16x32xf32>
  %y = plan.matmul %dx, %v m 16 n 8 k 32 strides [32, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

// -----

// A kernel computes what the GELU reads: the library would have to be given it.
// CHECK-LABEL: func.func @nowhere
// CHECK-NOT: epilogue
func.func @nowhere(%dy: tensor<16x8xf32>, %w: tensor<8x32xf32>, %v: tensor<32x8xf32>, %z: tensor<16x32xf32>) -> tensor<16x8xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<16x32xf32>
  %one = stablehlo.constant dense<1.0> : tensor<16x32xf32>
  %slope = stablehlo.constant dense<0.797884583> : tensor<16x32xf32>
  %cubic = stablehlo.constant dense<4.471500e-02> : tensor<16x32xf32>
  %cubic3 = stablehlo.constant dense<0.134145> : tensor<16x32xf32>
  %x = stablehlo.cosine %z : tensor<16x32xf32>
  // expected-remark @+1 {{the GELU's input is not in memory, since a kernel does the GELU}}
  %g = plan.matmul %dy, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %x2 = stablehlo.multiply %x, %x : tensor<16x32xf32>
  %dx2 = stablehlo.multiply %cubic3, %x2 : tensor<16x32xf32>
  %inner = stablehlo.add %one, %dx2 : tensor<16x32xf32>
  %x3 = stablehlo.multiply %x2, %x : tensor<16x32xf32>
  %cx3 = stablehlo.multiply %x3, %cubic : tensor<16x32xf32>
  %sum = stablehlo.add %cx3, %x : tensor<16x32xf32>
  %arg = stablehlo.multiply %sum, %slope : tensor<16x32xf32>
  %t = stablehlo.tanh %arg : tensor<16x32xf32>
  %t2 = stablehlo.multiply %t, %t : tensor<16x32xf32>
  %minus = stablehlo.negate %t2 : tensor<16x32xf32>
  %rest = stablehlo.add %one, %minus : tensor<16x32xf32>
  %hg = stablehlo.multiply %g, %half : tensor<16x32xf32>
  %p1 = stablehlo.multiply %hg, %x : tensor<16x32xf32>
  %p2 = stablehlo.multiply %p1, %rest : tensor<16x32xf32>
  %p3 = stablehlo.multiply %p2, %slope : tensor<16x32xf32>
  %p4 = stablehlo.multiply %inner, %p3 : tensor<16x32xf32>
  %q1 = stablehlo.add %t, %one : tensor<16x32xf32>
  %q2 = stablehlo.multiply %q1, %hg : tensor<16x32xf32>
  %dx = stablehlo.add %q2, %p4 : tensor<16x32xf32>
  %y = plan.matmul %dx, %v m 16 n 8 k 32 strides [32, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

// -----

// The bits of a ReLU are stored by the product that has it, once, and read by
// that of the gradient; h itself is read by products only.
// CHECK-LABEL: func.func @clamped
// CHECK: %[[H:.*]], %[[MASK:.*]] = plan.matmul {{.*}} epilogue relu : {{.*}} -> (tensor<16x32xf32>, tensor<16x16xui8>)
// CHECK: plan.matmul %{{.*}}, %{{.*}} m 16 n 32 {{.*}} epilogue relu_grad saved(%[[MASK]]) :
// CHECK-NOT: stablehlo.
// CHECK: return
// EXACT-LABEL: func.func @clamped
// EXACT: stablehlo.select
func.func @clamped(%dy: tensor<16x8xf32>, %a: tensor<16x8xf32>, %w: tensor<8x32xf32>, %v: tensor<32x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<16x32xf32>
  %s = plan.matmul %a, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %h = stablehlo.maximum %s, %zero : tensor<16x32xf32>
  %y = plan.matmul %h, %v m 16 n 8 k 32 strides [32, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  %g = plan.matmul %dy, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %p = stablehlo.compare GT, %s, %zero : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xi1>
  %dx = stablehlo.select %p, %g, %zero : tensor<16x32xi1>, tensor<16x32xf32>
  %z = plan.matmul %dx, %v m 16 n 8 k 32 strides [32, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %y, %z : tensor<16x8xf32>, tensor<16x8xf32>
}

// -----

// Nothing says that the library keeps bits of FP8 products.
// CHECK-LABEL: func.func @clamped_fp8
// CHECK: plan.matmul {{.*}} epilogue relu :
// CHECK: stablehlo.select
func.func @clamped_fp8(%dy: tensor<16x16xf8E5M2>, %a: tensor<16x8xf32>, %w: tensor<8x32xf32>, %w2: tensor<32x16xf8E4M3FN>, %v: tensor<32x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<16x32xf32>
  %s = plan.matmul %a, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %h = stablehlo.maximum %s, %zero : tensor<16x32xf32>
  %y = plan.matmul %h, %v m 16 n 8 k 32 strides [32, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  // expected-remark @+1 {{FP8 products keep and read no bits of a ReLU}}
  %g = plan.matmul %dy, %w2 m 16 n 32 k 16 strides [16, 1] x [1, 16] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x16xf8E5M2>, tensor<32x16xf8E4M3FN>) -> tensor<16x32xf32>
  %p = stablehlo.compare GT, %s, %zero : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xi1>
  %dx = stablehlo.select %p, %g, %zero : tensor<16x32xi1>, tensor<16x32xf32>
  %z = plan.matmul %dx, %v m 16 n 8 k 32 strides [32, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %y, %z : tensor<16x8xf32>, tensor<16x8xf32>
}
