// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s

// BF16 has F32's exponents: what is cast to it is not measured, and what the
// backward keeps neither; F8 beside it is.
// A step that trains has a product in its backward; that of %n is one which no
// recipe casts.
// CHECK-LABEL: func.func @current
// CHECK: %[[ONE:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f32>
// CHECK: %[[ABS:.*]] = stablehlo.abs %arg0
// CHECK: stablehlo.reduce(%[[ABS]]
// CHECK: scalify.quantize %arg0, %{{.*}} -> tensor<4x8xf8E4M3FN>
// CHECK: %[[Y:.*]] = stablehlo.tanh
// CHECK-NOT: stablehlo.abs
// CHECK: scalify.quantize %[[Y]], %[[ONE]] {{.*}}scalify.rule = "bf16: as many binades as f32"{{.*}} -> tensor<4x8xbf16>
module attributes {scalify.recipe = #scalify.recipe<"fp8-current", head = true, saved = bf16>} {
  func.func @current(%x: tensor<4x8xf32> {scalify.role = #scalify.role<batch>}, %w: tensor<8x8xf32> {scalify.role = #scalify.role<param>}, %n: tensor<2x2xi32>) -> (tensor<4x8xf32>, tensor<2x2xi32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %a = scalify.scale_hint %x, %s : tensor<4x8xf32>
    %b = scalify.scale_hint %w, %s : tensor<8x8xf32>
    %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>, scalify.scale = 0 : i32} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %y = stablehlo.tanh %d {scalify.phase = #scalify.phase<forward>, scalify.scale = -1 : i32} : tensor<4x8xf32>
    %g = stablehlo.multiply %y, %y {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
    %trained = stablehlo.dot_general %n, %n, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    return %g, %trained : tensor<4x8xf32>, tensor<2x2xi32>
  }
}

// -----

// No blocks either.
// CHECK-LABEL: func.func @block
// CHECK-DAG: scalify.quantize %arg0, %{{[a-z_0-9]+}} {cast{{.*}} : tensor<256x256xf32> -> tensor<256x256xbf16>
// CHECK-DAG: scalify.quantize %arg1, %{{[a-z_0-9]+}} {cast{{.*}} : tensor<256x256xf32> -> tensor<256x256xbf16>
// CHECK-NOT: block =
// CHECK: stablehlo.dot_general
module attributes {scalify.recipe = #scalify.recipe<"fp8-block", linear = bf16, head = bf16>} {
  func.func @block(%x: tensor<256x256xf32> {scalify.role = #scalify.role<batch>}, %w: tensor<256x256xf32> {scalify.role = #scalify.role<param>}) -> tensor<256x256xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %a = scalify.scale_hint %x, %s : tensor<256x256xf32>
    %b = scalify.scale_hint %w, %s : tensor<256x256xf32>
    %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %d : tensor<256x256xf32>
  }
}

// -----

// A scale of run time, as gradients have one in a loop, is none; a constant of
// the rules stays.
// CHECK-LABEL: func.func @of_run_time
// CHECK-DAG: %[[ONE:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f32>
// CHECK-DAG: %[[HALF:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<f32>
// CHECK-DAG: scalify.quantize %arg0, %[[ONE]]
// CHECK-DAG: scalify.quantize %arg1, %[[HALF]]
module attributes {scalify.recipe = #scalify.recipe<"bf16">} {
  func.func @of_run_time(%x: tensor<4x8xf32>, %w: tensor<8x8xf32> {scalify.role = #scalify.role<param>}, %r: tensor<f32>) -> tensor<4x8xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %a = scalify.scale_hint %x, %r : tensor<4x8xf32>
    %b = scalify.scale_hint %w, %s : tensor<8x8xf32>
    %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %d : tensor<4x8xf32>
  }
}
