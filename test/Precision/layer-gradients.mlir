// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s

// A checkpoint that keeps the head's result makes its input again, and no dot of
// the head: the gradient of the weight is told by the gradient of the output,
// which multiplies the weight elsewhere, and by size.
// CHECK-LABEL: func.func @remat
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"head", "
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"head", "
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"head", "
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = true>} {
  func.func @remat(%h: tensor<4x8xf32> {scalify.role = #scalify.role<batch>}, %w: tensor<8x6xf32> {scalify.role = #scalify.role<param>}, %d: tensor<4x6xf32> {scalify.role = #scalify.role<batch>}) -> (tensor<4x6xf32>, tensor<4x8xf32>, tensor<6x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %x = stablehlo.tanh %h {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
    %xs = scalify.scale_hint %x, %s : tensor<4x8xf32>
    %ws = scalify.scale_hint %w, %s : tensor<8x6xf32>
    %y = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %b = stablehlo.optimization_barrier %h : tensor<4x8xf32>
    %x2 = stablehlo.tanh %b {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
    %x2s = scalify.scale_hint %x2, %s : tensor<4x8xf32>
    %dy = stablehlo.multiply %y, %d {scalify.phase = #scalify.phase<backward>} : tensor<4x6xf32>
    %dys = scalify.scale_hint %dy, %s : tensor<4x6xf32>
    %dx = stablehlo.dot_general %dys, %ws, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
    %dw = stablehlo.dot_general %dys, %x2s, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x6xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    return %y, %dx, %dw : tensor<4x6xf32>, tensor<4x8xf32>, tensor<6x8xf32>
  }
}

// -----

// A head whose input takes no gradient has no product with its weight in the
// backward: the input and the size tell.
// CHECK-LABEL: func.func @stopped
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"head", "
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"head", "
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = true>} {
  func.func @stopped(%x: tensor<4x8xf32> {scalify.role = #scalify.role<batch>}, %w: tensor<8x6xf32> {scalify.role = #scalify.role<param>}, %d: tensor<4x6xf32> {scalify.role = #scalify.role<batch>}) -> (tensor<4x6xf32>, tensor<6x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<4x8xf32>
    %ws = scalify.scale_hint %w, %s : tensor<8x6xf32>
    %y = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %dy = stablehlo.multiply %y, %d {scalify.phase = #scalify.phase<backward>} : tensor<4x6xf32>
    %dys = scalify.scale_hint %dy, %s : tensor<4x6xf32>
    %dw = stablehlo.dot_general %dys, %xs, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x6xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    return %y, %dw : tensor<4x6xf32>, tensor<6x8xf32>
  }
}

// -----

// A gradient for each example has batch dimensions as attention has; it is the
// layer's all the same.
// CHECK-LABEL: func.func @per_example
// CHECK: dot_general
// CHECK-NOT: scalify.wide
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"head", "
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"head", "
// CHECK-NOT: scalify.wide
// CHECK: dot_general {{.*}}contracting_dims = [1] x [1]
// CHECK-NOT: scalify.wide
// CHECK: dot_general {{.*}}batching_dims = [0] x [0]
// CHECK-NOT: scalify.wide
// CHECK: return
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = true>} {
  func.func @per_example(%x: tensor<4x8xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<8x8xf32> {scalify.role = #scalify.role<param>}, %w: tensor<8x6xf32> {scalify.role = #scalify.role<param>}, %d: tensor<4x6xf32> {scalify.role = #scalify.role<batch>}) -> (tensor<4x6xf32>, tensor<4x8xf32>, tensor<4x8x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %e = stablehlo.tanh %x {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
    %es = scalify.scale_hint %e, %s : tensor<4x8xf32>
    %as = scalify.scale_hint %a, %s : tensor<8x8xf32>
    %ws = scalify.scale_hint %w, %s : tensor<8x6xf32>
    %h = stablehlo.dot_general %es, %as, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %hs = scalify.scale_hint %h, %s : tensor<4x8xf32>
    %y = stablehlo.dot_general %hs, %ws, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %dy = stablehlo.multiply %y, %d {scalify.phase = #scalify.phase<backward>} : tensor<4x6xf32>
    %dys = scalify.scale_hint %dy, %s : tensor<4x6xf32>
    %dh = stablehlo.dot_general %dys, %ws, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
    %dhs = scalify.scale_hint %dh, %s : tensor<4x8xf32>
    %de = stablehlo.dot_general %dhs, %as, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %da = stablehlo.dot_general %es, %dhs, batching_dims = [0] x [0], contracting_dims = [] x [] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8x8xf32>
    return %y, %de, %da : tensor<4x6xf32>, tensor<4x8xf32>, tensor<4x8x8xf32>
  }
}
