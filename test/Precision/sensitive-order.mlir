// RUN: scalify-opt %s --scalify-decide-formats="remarks=0" | FileCheck %s

// The gradient %g2 has an error of 0.1 by a dot of the backward: the exponential
// of a variance of 0.5 * 64 = 32, by operands in E5M2 and E4M3, 3.0e-3 of it.
// The forward dot's share is 0.01. 16 bits in both suffice, so that none is F32.
// CHECK-LABEL: func.func @backward
// CHECK: stablehlo.dot_general {{.*}}scalify.formats = #scalify.formats<bf16, bf16>
// CHECK: stablehlo.dot_general {{.*}}scalify.formats = #scalify.formats<bf16, bf16>, scalify.judgement = #scalify.decision<"sensitive"
// CHECK-NOT: scalify.wide
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true>} {
  func.func @backward(%x: tensor<256x32xf32> {scalify.role = #scalify.role<batch>, scalify.scale = 3 : i32},
                      %y: tensor<256x64xf32> {scalify.role = #scalify.role<batch>, scalify.scale = 3 : i32},
                      %w: tensor<32x32xf32> {scalify.role = #scalify.role<param>, scalify.scale = -4 : i32},
                      %v: tensor<64x32xf32> {scalify.role = #scalify.role<param>, scalify.scale = 0 : i32})
      -> (tensor<32x32xf32>, tensor<32x32xf32>) {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<256x32xf32>
    %ws = scalify.scale_hint %w, %s : tensor<32x32xf32>
    %h = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
    %d = stablehlo.sine %y {scalify.phase = #scalify.phase<backward>} : tensor<256x64xf32>
    %ds = scalify.scale_hint %d, %s : tensor<256x64xf32>
    %vs = scalify.scale_hint %v, %s : tensor<64x32xf32>
    %k = stablehlo.dot_general %ds, %vs, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<256x64xf32>, tensor<64x32xf32>) -> tensor<256x32xf32>
    %e1 = stablehlo.exponential %h {scalify.phase = #scalify.phase<backward>} : tensor<256x32xf32>
    %e2 = stablehlo.exponential %k {scalify.phase = #scalify.phase<backward>} : tensor<256x32xf32>
    %e1s = scalify.scale_hint %e1, %s : tensor<256x32xf32>
    %g1 = stablehlo.dot_general %xs, %e1s, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
    %e2s = scalify.scale_hint %e2, %s : tensor<256x32xf32>
    %g2 = stablehlo.dot_general %xs, %e2s, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
    return %g1, %g2 : tensor<32x32xf32>, tensor<32x32xf32>
  }
}
