// RUN: scalify-opt %s --scalify-decide-formats="recipe=fp8 counts-loops=0 remarks=0" --scalify-quantize --scalify-validate-precision | FileCheck %s --check-prefixes=CHECK,UNCOUNTED
// RUN: scalify-opt %s --scalify-decide-formats="recipe=fp8 remarks=0" --scalify-quantize --scalify-validate-precision | FileCheck %s --check-prefixes=CHECK,COUNTED
// RUN: scalify-opt %s --scalify-decide-formats="recipe=fp8-current counts-loops=0 remarks=0" --scalify-quantize --scalify-validate-precision | FileCheck %s --check-prefixes=CHECK,COUNTED
// RUN: not scalify-opt %s --scalify-decide-formats="recipe=fp8 counts-loops=0 strict=1" --scalify-quantize=strict=1 2>&1 | FileCheck %s --check-prefix=STRICT

// Where XLA runs a loop whose length data decide, nothing counts what its casts
// lose: a constant scale would clip in silence.
// STRICT: error: 'stablehlo.dot_general' op stays wide under a strict recipe: loop: in a loop of unknown length
// CHECK-LABEL: func.func @main
// CHECK: do
// UNCOUNTED-NOT: scalify.quantize
// UNCOUNTED: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"loop", "in a loop of unknown length
// COUNTED: scalify.quantize
// COUNTED: stablehlo.dot_general
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %n: tensor<i32>) -> tensor<4x8xf32> {
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4x8xf32> attributes {scalify.phase = #scalify.phase<forward>}
  cond {
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %l = scalify.scale_hint %a, %s : tensor<4x8xf32>
    %r = scalify.scale_hint %w, %s : tensor<8x8xf32>
    %d = stablehlo.dot_general %l, %r, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %t = stablehlo.tanh %d {scalify.phase = #scalify.phase<forward>} : tensor<4x8xf32>
    stablehlo.return %j, %t : tensor<i32>, tensor<4x8xf32>
  }
  %v = scalify.scale_hint %0#1, %s : tensor<4x8xf32>
  %u = scalify.scale_hint %w, %s : tensor<8x8xf32>
  %y = stablehlo.dot_general %v, %u, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
