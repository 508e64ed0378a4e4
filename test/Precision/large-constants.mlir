// RUN: scalify-opt %s --scalify-decide-formats="recipe=fp8 remarks=0" --scalify-quantize | FileCheck %s
// RUN: not scalify-opt %s --scalify-decide-formats="recipe=fp8 strict=1" --scalify-quantize=strict=1 -o /dev/null 2>&1 | FileCheck %s --check-prefix=STRICT
// RUN: scalify-opt %s --scalify-decide-formats="recipe=bf16 remarks=0" --scalify-quantize | FileCheck %s --check-prefix=BF16

// 1e4 beside data of unit size: whichever scale is taken, one of both is lost.
// CHECK-LABEL: func.func @main
// CHECK-NOT: scalify.quantize {{.*}}tensor<16x16xf8
// CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"constant", "1.00E+04 is among the elements of an operand and saturates in f8E4M3FN at scale 2^0; keep it out of the operand, or leave this dot wide by name"
// CHECK: scalify.quantize {{.*}}cast = "c2: tanh"
// STRICT: error: 'stablehlo.dot_general' op stays wide under a strict recipe: constant: 1.00E+04 is
// BF16-NOT: scalify.wide
func.func @main(%x: tensor<14x16xf32>, %w: tensor<16x8xf32>, %v: tensor<8x8xf32>) -> tensor<16x8xf32> {
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %c = stablehlo.constant dense<1.0e4> : tensor<f32>
  %p = stablehlo.pad %x, %c, low = [1, 0], high = [1, 0], interior = [0, 0] {scalify.phase = #scalify.phase<forward>} : (tensor<14x16xf32>, tensor<f32>) -> tensor<16x16xf32>
  %a = scalify.scale_hint %p, %s : tensor<16x16xf32>
  %b = scalify.scale_hint %w, %s : tensor<16x8xf32>
  %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  // An infinity is no number that could saturate, and a limit of a maximum is no element.
  %t = stablehlo.tanh %y {scalify.phase = #scalify.phase<forward>} : tensor<16x8xf32>
  %d = scalify.scale_hint %t, %s : tensor<16x8xf32>
  %e = scalify.scale_hint %v, %s : tensor<8x8xf32>
  %z = stablehlo.dot_general %d, %e, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %g = scalify.scale_hint %z, %s : tensor<16x8xf32>
  %h = scalify.scale_hint %v, %s : tensor<8x8xf32>
  %o = stablehlo.dot_general %g, %h, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  return %o : tensor<16x8xf32>
}
