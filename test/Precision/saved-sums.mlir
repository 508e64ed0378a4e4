// RUN: scalify-opt %s --scalify-decide-formats="recipe=bf16 remarks=0" --scalify-quantize=recompute=1 -verify-diagnostics | FileCheck %s

// 1 - a^2 of a decay a near 1, which the backward divides by: of a^2 in BF16
// nothing would be left, so the difference is kept. That of t^2 far below 1 is
// as accurate as t^2, and is computed again. What a sum of the backward itself
// cancels is kept as it is.
// CHECK-LABEL: func.func @decay
func.func @decay(%x: tensor<4x8xf32> {scalify.scale = 0 : i32}, %w: tensor<8x8xf32> {scalify.scale = -2 : i32}, %g: tensor<4x8xf32> {scalify.scale = 0 : i32}) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<4x8xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>, scalify.rule = "product", scalify.scale = 0 : i32} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %a = stablehlo.exponential %y {scalify.phase = #scalify.phase<forward>, scalify.rule = "exponential", scalify.scale = 0 : i32} : tensor<4x8xf32>
  // CHECK: %[[GAP:.*]] = stablehlo.subtract {{.*}}scalify.phase = #scalify.phase<forward>{{.*}}scalify.scale = -6
  // CHECK: %[[SAVED:.*]] = scalify.quantize %[[GAP]]
  %gap = stablehlo.subtract %one, %a {scalify.phase = #scalify.phase<forward>, scalify.rule = "sum", scalify.scale = -6 : i32} : tensor<4x8xf32>
  %t = stablehlo.tanh %y {scalify.phase = #scalify.phase<forward>, scalify.rule = "tanh", scalify.scale = -4 : i32} : tensor<4x8xf32>
  %rest = stablehlo.subtract %one, %t {scalify.phase = #scalify.phase<forward>, scalify.rule = "sum", scalify.scale = 0 : i32} : tensor<4x8xf32>
  // expected-remark @+1 {{saved value stays wide: a sum of the backward cancels most of it}}
  %b = stablehlo.sine %y {scalify.phase = #scalify.phase<forward>, scalify.rule = "sine", scalify.scale = 0 : i32} : tensor<4x8xf32>
  %g0 = stablehlo.dot_general %g, %w, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>, scalify.rule = "product", scalify.scale = 0 : i32} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[READ:.*]] = scalify.dequantize %[[SAVED]]
  // CHECK: stablehlo.divide %{{.*}}, %[[READ]]
  %p = stablehlo.divide %g0, %gap {scalify.phase = #scalify.phase<backward>, scalify.rule = "quotient", scalify.scale = 6 : i32} : tensor<4x8xf32>
  // CHECK: %[[REST:.*]] = stablehlo.subtract {{.*}}scalify.phase = #scalify.phase<backward>{{.*}}scalify.scale = 0
  // CHECK: stablehlo.multiply %{{.*}}, %[[REST]]
  %q = stablehlo.multiply %g0, %rest {scalify.phase = #scalify.phase<backward>, scalify.rule = "product", scalify.scale = 0 : i32} : tensor<4x8xf32>
  %s = stablehlo.multiply %g0, %t {scalify.phase = #scalify.phase<backward>, scalify.rule = "product", scalify.scale = -4 : i32} : tensor<4x8xf32>
  %r = stablehlo.subtract %b, %g0 {scalify.phase = #scalify.phase<backward>, scalify.rule = "sum", scalify.scale = -5 : i32} : tensor<4x8xf32>
  return %p, %q, %r, %s : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
