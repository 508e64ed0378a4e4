// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-form-epilogues))' -verify-diagnostics -split-input-file | FileCheck %s

// A hidden layer: the next product reads what is stored. The backward makes it
// again, for a product of its own, and asks if the sum was above 0.
// CHECK-LABEL: func.func @hidden
// CHECK-SAME: %[[X:.*]]: tensor<16x8xf32>, %[[W:.*]]: tensor<8x32xf32>, %[[BIAS:.*]]: tensor<32xf32>,
// CHECK: %[[H:.*]] = plan.matmul %[[X]], %[[W]] m 16 n 32 k 8 {{.*}} offsets [0, 0, 0, 0] {{.*}} epilogue bias_relu bias(%[[BIAS]])
// CHECK-SAME: {scalify.phase = #scalify.phase<forward>}
// CHECK-NOT: stablehlo.add
// CHECK-NOT: stablehlo.maximum
// CHECK: plan.matmul %[[H]], %{{.*}} m 16 n 4 k 32
// CHECK: stablehlo.compare GT, %[[H]], %{{.*}} {scalify.phase = #scalify.phase<backward>}
// CHECK: plan.matmul %[[H]], %{{.*}} m 32 n 32 k 16
func.func @hidden(%x: tensor<16x8xf32>, %w: tensor<8x32xf32>, %bias: tensor<32xf32>, %v: tensor<32x4xf32>, %dy: tensor<16x32xf32>) -> (tensor<16x4xf32>, tensor<16x32xf32>, tensor<32x32xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<16x32xf32>
  %d = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 5.000000e-01 {scalify.phase = #scalify.phase<forward>} : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %row = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
  %b = stablehlo.broadcast_in_dim %row, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<16x32xf32>
  %s = stablehlo.add %d, %b {scalify.phase = #scalify.phase<forward>} : tensor<16x32xf32>
  %h = stablehlo.maximum %s, %zero {scalify.phase = #scalify.phase<forward>} : tensor<16x32xf32>
  %y = plan.matmul %h, %v m 16 n 4 k 32 strides [32, 1] x [4, 1] to [4, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x32xf32>, tensor<32x4xf32>) -> tensor<16x4xf32>
  %b1 = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<32xf32>) -> tensor<16x32xf32>
  %s1 = stablehlo.add %b1, %d {scalify.phase = #scalify.phase<backward>} : tensor<16x32xf32>
  %h1 = stablehlo.maximum %zero, %s1 {scalify.phase = #scalify.phase<backward>} : tensor<16x32xf32>
  %p = stablehlo.compare GT, %s1, %zero {scalify.phase = #scalify.phase<backward>} : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xi1>
  %g = stablehlo.select %p, %dy, %zero : tensor<16x32xi1>, tensor<16x32xf32>
  %dv = plan.matmul %h1, %dy m 32 n 32 k 16 strides [1, 32] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<32x32xf32>
  return %y, %g, %dv : tensor<16x4xf32>, tensor<16x32xf32>, tensor<32x32xf32>
}

// -----

// A vector of a stack is read where it lies; one behind the product is made
// before it. Results are in memory.
// CHECK-LABEL: func.func @stack
// CHECK-SAME: %{{.*}}, %[[STACK:.*]]: tensor<3x32xf32>
// CHECK: plan.matmul {{.*}} offsets [0, 0, 0, 64] {{.*}} epilogue bias bias(%[[STACK]])
// CHECK: %[[TWICE:.*]] = stablehlo.multiply
// CHECK: plan.matmul {{.*}} offsets [0, 0, 0, 0] {{.*}} epilogue bias bias(%[[TWICE]])
func.func @stack(%x: tensor<16x8xf32>, %w: tensor<8x32xf32>, %stack: tensor<3x32xf32>, %c: tensor<32xf32>) -> (tensor<2x8x32xf32>, tensor<2x8x4x8xf32>) {
  %d = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<2x8x32xf32>
  %slice = stablehlo.slice %stack [2:3, 0:32] : (tensor<3x32xf32>) -> tensor<1x32xf32>
  %bias = stablehlo.reshape %slice : (tensor<1x32xf32>) -> tensor<32xf32>
  %b = stablehlo.broadcast_in_dim %bias, dims = [2] : (tensor<32xf32>) -> tensor<2x8x32xf32>
  %s = stablehlo.add %b, %d : tensor<2x8x32xf32>
  %e = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<2x8x4x8xf32>
  %twice = stablehlo.multiply %c, %c : tensor<32xf32>
  %heads = stablehlo.reshape %twice : (tensor<32xf32>) -> tensor<4x8xf32>
  %t = stablehlo.broadcast_in_dim %heads, dims = [2, 3] : (tensor<4x8xf32>) -> tensor<2x8x4x8xf32>
  %u = stablehlo.add %e, %t : tensor<2x8x4x8xf32>
  return %s, %u : tensor<2x8x32xf32>, tensor<2x8x4x8xf32>
}

// -----

// 16 bits: one rounding behind all, of a vector in the result's format. Of F32
// results the vector is F32, of FP8 operands BF16.
// CHECK-LABEL: func.func @narrow
// CHECK-SAME: %[[X:.*]]: tensor<16x8xbf16>, %{{.*}}, %[[BIAS:.*]]: tensor<32xbf16>, %[[Q:.*]]: tensor<16x16xf8E4M3FN>
// CHECK: plan.matmul %[[X]], {{.*}} epilogue bias_relu bias(%[[BIAS]]) {{.*}} -> tensor<16x32xbf16>
// CHECK: plan.matmul %[[X]], {{.*}} epilogue relu : {{.*}} -> tensor<16x32xbf16>
// CHECK: %[[WIDE:.*]] = stablehlo.convert %[[BIAS]]
// CHECK: plan.matmul %[[X]], {{.*}} epilogue bias bias(%[[WIDE]]) {{.*}} -> tensor<16x32xf32>
// CHECK: plan.matmul %[[Q]], {{.*}} epilogue bias bias(%[[BIAS]]) {{.*}} -> tensor<16x32xf32>
func.func @narrow(%x: tensor<16x8xbf16>, %w: tensor<8x32xbf16>, %bias: tensor<32xbf16>, %q: tensor<16x16xf8E4M3FN>, %p: tensor<32x16xf8E4M3FN>) -> (tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xf32>, tensor<16x32xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<16x32xf32>
  %none = stablehlo.constant dense<0.0> : tensor<16x32xbf16>
  %wide = stablehlo.convert %bias : (tensor<32xbf16>) -> tensor<32xf32>
  %b = stablehlo.broadcast_in_dim %wide, dims = [1] : (tensor<32xf32>) -> tensor<16x32xf32>
  %d = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xbf16>, tensor<8x32xbf16>) -> tensor<16x32xf32>
  %s = stablehlo.add %d, %b : tensor<16x32xf32>
  %h = stablehlo.maximum %s, %zero : tensor<16x32xf32>
  %r = stablehlo.convert %h : (tensor<16x32xf32>) -> tensor<16x32xbf16>
  %e = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xbf16>, tensor<8x32xbf16>) -> tensor<16x32xbf16>
  %t = stablehlo.maximum %e, %none : tensor<16x32xbf16>
  %wide1 = stablehlo.convert %bias : (tensor<32xbf16>) -> tensor<32xf32>
  %b1 = stablehlo.broadcast_in_dim %wide1, dims = [1] : (tensor<32xf32>) -> tensor<16x32xf32>
  %f = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xbf16>, tensor<8x32xbf16>) -> tensor<16x32xf32>
  %u = stablehlo.add %f, %b1 : tensor<16x32xf32>
  %g = plan.matmul %q, %p m 16 n 32 k 16 strides [16, 1] x [1, 16] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>) -> tensor<16x32xf32>
  %b2 = stablehlo.broadcast_in_dim %wide, dims = [1] : (tensor<32xf32>) -> tensor<16x32xf32>
  %v = stablehlo.add %g, %b2 : tensor<16x32xf32>
  return %r, %t, %u, %v : tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xf32>, tensor<16x32xf32>
}

// -----

// Kernels alone read the sum, or read the product too: the bias is theirs, and
// nothing is said. What is added to rows of several sizes is no bias, and of a
// pipeline another stage may have it.
// CHECK-LABEL: func.func @kernels
// CHECK-NOT: epilogue
func.func @kernels(%x: tensor<16x8xf32>, %w: tensor<8x32xf32>, %bias: tensor<32xf32>, %table: tensor<8x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<2x8x32xf32>, tensor<16x32xf32>) {
  %b = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<32xf32>) -> tensor<16x32xf32>
  %d = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %s = stablehlo.add %d, %b : tensor<16x32xf32>
  %t = stablehlo.tanh %s : tensor<16x32xf32>
  %e = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %u = stablehlo.add %e, %b : tensor<16x32xf32>
  %v = stablehlo.multiply %e, %e : tensor<16x32xf32>
  %f = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<2x8x32xf32>
  %places = stablehlo.broadcast_in_dim %table, dims = [1, 2] : (tensor<8x32xf32>) -> tensor<2x8x32xf32>
  %z = stablehlo.add %f, %places : tensor<2x8x32xf32>
  %g = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 {plan.task = "F0.0"} : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %a = stablehlo.add %g, %b {plan.task = "F1.0"} : tensor<16x32xf32>
  return %t, %u, %v, %z, %a : tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<2x8x32xf32>, tensor<16x32xf32>
}

// -----

// CHECK-LABEL: func.func @roundings
// CHECK-NOT: epilogue
func.func @roundings(%x: tensor<16x8xbf16>, %w: tensor<8x32xbf16>, %bias: tensor<32xbf16>, %c: tensor<32xf32>, %q: tensor<16x16xf8E4M3FN>, %p: tensor<32x16xf8E4M3FN>) -> (tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xf32>) {
  // expected-remark @+1 {{is done by a kernel, not by the library: the program rounds the product before it adds the bias, and the library after it (epilogues=all allows it)}}
  %d = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xbf16>, tensor<8x32xbf16>) -> tensor<16x32xbf16>
  %b = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<32xbf16>) -> tensor<16x32xbf16>
  %s = stablehlo.add %d, %b : tensor<16x32xbf16>
  // expected-remark @+1 {{to a result of bf16 it adds a bias of bf16, and this one is f32}}
  %e = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xbf16>, tensor<8x32xbf16>) -> tensor<16x32xf32>
  %wide = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<32xf32>) -> tensor<16x32xf32>
  %t = stablehlo.add %e, %wide : tensor<16x32xf32>
  %r = stablehlo.convert %t : (tensor<16x32xf32>) -> tensor<16x32xbf16>
  // expected-remark @+1 {{to a result of f32 it adds a bias of bf16, and this one is f32}}
  %f = plan.matmul %q, %p m 16 n 32 k 16 strides [16, 1] x [1, 16] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>) -> tensor<16x32xf32>
  %u = stablehlo.add %f, %wide : tensor<16x32xf32>
  return %s, %r, %u : tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xf32>
}

// -----

// CHECK-LABEL: func.func @layouts
// CHECK-NOT: epilogue
func.func @layouts(%x: tensor<16x8xf32>, %w: tensor<8x32xf32>, %bias: tensor<32xf32>, %long: tensor<40xf32>, %rows: tensor<16xf32>) -> (tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x2x16xf32>) {
  // expected-remark @+1 {{the rows of the result are not contiguous}}
  %d = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [1, 16] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<32x16xf32>
  %b = stablehlo.broadcast_in_dim %bias, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
  %s = stablehlo.add %d, %b : tensor<32x16xf32>
  // expected-remark @+1 {{the bias lies at no multiple of 16 bytes}}
  %e = plan.matmul %x, %w m 16 n 32 k 8 strides [8, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %part = stablehlo.slice %long [2:34] : (tensor<40xf32>) -> tensor<32xf32>
  %p = stablehlo.broadcast_in_dim %part, dims = [1] : (tensor<32xf32>) -> tensor<16x32xf32>
  %t = stablehlo.add %e, %p : tensor<16x32xf32>
  // expected-remark @+1 {{the bias does not run along the rows of the result}}
  %f = plan.matmul %x, %x m 16 n 16 k 8 strides [8, 1] x [1, 8] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x16xf32>
  %down = stablehlo.broadcast_in_dim %rows, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
  %u = stablehlo.add %f, %down : tensor<16x16xf32>
  // Rows of 24 elements would not end with the vector's 16.
  // expected-remark @+1 {{the bias does not run along the rows of the result}}
  %g = plan.matmul %x, %w m 16 n 16 k 8 strides [8, 1] x [32, 1] to [24, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x2x16xf32>
  %across = stablehlo.broadcast_in_dim %rows, dims = [2] : (tensor<16xf32>) -> tensor<16x2x16xf32>
  %v = stablehlo.add %g, %across : tensor<16x2x16xf32>
  return %s, %t, %u, %v : tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x2x16xf32>
}

// -----

// CHECK-LABEL: func.func @fp8
// CHECK-NOT: epilogue
func.func @fp8(%q: tensor<2x16x16xf8E4M3FN>, %p: tensor<2x36x16xf8E4M3FN>, %bias: tensor<36xbf16>, %sa: tensor<16xf32>, %sb: tensor<36xf32>) -> (tensor<2x16x36xf32>, tensor<16x36xbf16>, tensor<16x36xf32>) {
  %wide = stablehlo.convert %bias : (tensor<36xbf16>) -> tensor<36xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x36xf32>
  // expected-remark @+1 {{it is a batch of FP8 products}}
  %d = plan.matmul %q, %p m 16 n 36 k 16 strides [16, 1] x [1, 16] to [36, 1] offsets [0, 0, 0] batch [2] [256, 576, 576] alpha 1.0 : (tensor<2x16x16xf8E4M3FN>, tensor<2x36x16xf8E4M3FN>) -> tensor<2x16x36xf32>
  %b = stablehlo.broadcast_in_dim %wide, dims = [2] : (tensor<36xf32>) -> tensor<2x16x36xf32>
  %s = stablehlo.add %d, %b : tensor<2x16x36xf32>
  // expected-remark @+1 {{rows of an FP8 product that are rounded would be no multiple of 16 bytes}}
  %e = plan.matmul %q, %p m 16 n 36 k 16 strides [16, 1] x [1, 16] to [36, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<2x16x16xf8E4M3FN>, tensor<2x36x16xf8E4M3FN>) -> tensor<16x36xf32>
  %h = stablehlo.maximum %e, %zero : tensor<16x36xf32>
  %r = stablehlo.convert %h : (tensor<16x36xf32>) -> tensor<16x36xbf16>
  // expected-remark @+1 {{the operands have more than one scale each}}
  %f = plan.matmul %q, %p m 16 n 36 k 16 strides [16, 1] x [1, 16] to [36, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 scales(%sa, %sb) by rows x rows : (tensor<2x16x16xf8E4M3FN>, tensor<2x36x16xf8E4M3FN>, tensor<16xf32>, tensor<36xf32>) -> tensor<16x36xf32>
  %t = stablehlo.maximum %f, %zero : tensor<16x36xf32>
  return %s, %r, %t : tensor<2x16x36xf32>, tensor<16x36xbf16>, tensor<16x36xf32>
}
