// RUN: scalify-opt %s --scalify-decide-formats --scalify-quantize | FileCheck %s

// A product with one number, as the backward of a squared norm writes it, and
// the norm itself are no matrix products: a cast would flush the factor, and
// saves nothing.

// CHECK-LABEL: func.func @main
// CHECK-NOT: scalify.quantize
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"shape", "an operand or the result is one number"
// CHECK-NOT: scalify.quantize
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"shape", "an operand or the result is one number"
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
  func.func @main(%w: tensor<64xf32> {scalify.role = #scalify.role<param>}) -> (tensor<f32>, tensor<64xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %ws = scalify.scale_hint %w, %s : tensor<64xf32>
    %norm = stablehlo.dot_general %ws, %ws, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<f32>
    %c = stablehlo.constant dense<5.0e-05> : tensor<f32>
    %cs = scalify.scale_hint %c, %s : tensor<f32>
    %grad = stablehlo.dot_general %cs, %ws, contracting_dims = [] x [] {scalify.phase = #scalify.phase<backward>} : (tensor<f32>, tensor<64xf32>) -> tensor<64xf32>
    return %norm, %grad : tensor<f32>, tensor<64xf32>
  }
}
