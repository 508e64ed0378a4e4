// RUN: scalify-opt %s --scalify-decide-formats="recipe=none remarks=0" --scalify-quantize=recompute=1 | FileCheck %s

// A conversion to complex numbers, whose element is no number of bits by
// itself, is wider than what it reads: it is computed again as any other.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.convert {{.*}} : (tensor<4x8xf32>) -> tensor<4x8xcomplex<f32>>
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xcomplex<f32>>, tensor<4x8xf32>) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %z = stablehlo.convert %w {scalify.phase = #scalify.phase<forward>} : (tensor<8x8xf32>) -> tensor<8x8xcomplex<f32>>
  %c = stablehlo.convert %y {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>) -> tensor<4x8xcomplex<f32>>
  %g = stablehlo.dot_general %y, %w, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %m = stablehlo.multiply %c, %c {scalify.phase = #scalify.phase<backward>} : tensor<4x8xcomplex<f32>>
  %r = stablehlo.real %z {scalify.phase = #scalify.phase<backward>} : (tensor<8x8xcomplex<f32>>) -> tensor<8x8xf32>
  %h = stablehlo.dot_general %g, %r, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %m, %h : tensor<4x8xcomplex<f32>>, tensor<4x8xf32>
}
