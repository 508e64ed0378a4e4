// RUN: scalify-opt %s --scalify-annotate-phases -split-input-file | FileCheck %s

// A head whose derivative is its own: the forward makes the gradients of its
// input and of its weight, and the backward multiplies them by a number. What
// the loss needs is forward, the weight's product as well as the exponential.
// CHECK-LABEL: @main
// CHECK: stablehlo.dot_general {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.exponential {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.negate {{.*}}#scalify.phase<backward>
// CHECK: stablehlo.dot_general {{.*}}#scalify.phase<backward>
// CHECK: stablehlo.dot_general {{.*}}#scalify.phase<backward>
// CHECK: stablehlo.reduce{{.*}}#scalify.phase<forward>
func.func public @main(%w: tensor<8x6xf32>, %x: tensor<4x8xf32>, %g: tensor<f32>) -> (tensor<f32>, tensor<8x6xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32> loc("jit(f)/jvp()/dot_general")
  %p = stablehlo.exponential %y : tensor<4x6xf32> loc("jit(f)/jvp()/exp")
  %d = stablehlo.negate %p : tensor<4x6xf32> loc("jit(f)/jvp()/neg")
  %dx = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32> loc("jit(f)/jvp()/dot_general")
  %dw = stablehlo.dot_general %x, %d, contracting_dims = [0] x [0] : (tensor<4x8xf32>, tensor<4x6xf32>) -> tensor<8x6xf32> loc("jit(f)/jvp()/dot_general")
  %loss = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32> loc("jit(f)/jvp()/reduce_sum")
  %n = stablehlo.reduce(%dx init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32> loc("jit(f)/transpose(jvp())/reduce_sum")
  %s = stablehlo.multiply %n, %g : tensor<f32> loc("jit(f)/transpose(jvp())/mul")
  %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8x6xf32> loc("jit(f)/transpose(jvp())/broadcast_in_dim")
  %r = stablehlo.multiply %dw, %b : tensor<8x6xf32> loc("jit(f)/transpose(jvp())/mul")
  return %loss, %r : tensor<f32>, tensor<8x6xf32>
}

// -----

// A tied layer has the form of a gradient, and one of its own: it is forward.
// CHECK-LABEL: @main
// CHECK: stablehlo.dot_general {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.dot_general {{.*}}#scalify.phase<forward>
// CHECK: stablehlo.sine {{.*}}#scalify.phase<backward>
// CHECK: stablehlo.dot_general {{.*}}#scalify.phase<backward>
// CHECK: stablehlo.dot_general {{.*}}#scalify.phase<backward>
func.func public @main(%w: tensor<8x6xf32>, %x: tensor<4x8xf32>) -> tensor<8x6xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32> loc("jit(f)/jvp()/dot_general")
  %r = stablehlo.dot_general %h, %w, contracting_dims = [1] x [1] : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32> loc("jit(f)/jvp()/dot_general")
  %dr = stablehlo.sine %r : tensor<4x8xf32> loc("jit(f)/transpose(jvp())/sin")
  %dh = stablehlo.dot_general %dr, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32> loc("jit(f)/transpose(jvp())/dot_general")
  %dw = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<4x8xf32>, tensor<4x6xf32>) -> tensor<8x6xf32> loc("jit(f)/transpose(jvp())/dot_general")
  return %dw : tensor<8x6xf32>
}
