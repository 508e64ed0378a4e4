// RUN: scalify-opt %s --scalify-analyse-ranges --scalify-decide-formats=remarks=0 --scalify-quantize -split-input-file | FileCheck %s

// Under one constant loss scale a gradient is cast by another scale than the
// analysis knew: the proof on the cast is of the scale that it has. It also
// comes through a reversal, on which Precision casts before it.

// CHECK-LABEL: func.func @main(
// CHECK: %[[R:.*]] = stablehlo.add %arg0, %arg0 {scalify.phase = #scalify.phase<backward>}
// CHECK: scalify.quantize %[[R]], %[[S:[^ ]*]] {{.*}}scalify.unproved = {assumed = ["arg0"], bound = 2.{{.*}}, data = 131072{{.*}}, format = f8E5M2, reason = "|x| <= 2, data up to 1.311e+05 in f8E5M2 at scale 2^-16"}{{.*}} -> tensor<4x64xf8E5M2>
module attributes {scalify.recipe = #scalify.recipe<"fp8-plain-scaled">} {
  func.func @main(%g: tensor<4x64xf32> {scalify.range = {max = 1.0}},
                  %w: tensor<64x8xf32> {scalify.range = {max = 1.0}}) -> tensor<4x8xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = stablehlo.add %g, %g {scalify.phase = #scalify.phase<backward>} : tensor<4x64xf32>
    %1 = stablehlo.reverse %0, dims = [1] {scalify.phase = #scalify.phase<backward>} : tensor<4x64xf32>
    %x = scalify.scale_hint %1, %one : tensor<4x64xf32>
    %u = scalify.scale_hint %w, %one : tensor<64x8xf32>
    %2 = stablehlo.dot_general %x, %u, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
    %3 = stablehlo.tanh %2 : tensor<4x8xf32>
    return %3 : tensor<4x8xf32>
  }
}

// -----

// The recipe gives linear layers E4M3 for gradients as well: 2,000 fits the
// format that gradients have elsewhere, and not this one.

// CHECK-LABEL: func.func @main(
// CHECK: scalify.quantize %{{.*}}scalify.unproved = {{.*}}format = f8E4M3FN, reason = "|x| <= 2000, data up to 2000 in f8E4M3FN at scale 2^0"}{{.*}} -> tensor<4x64xf8E4M3FN>
module attributes {scalify.recipe = #scalify.recipe<"fp8", linear = f8E4M3FN>} {
  func.func @main(%g: tensor<4x64xf32> {scalify.range = {max = 1000.0}}, %w: tensor<64x8xf32>,
                  %v: tensor<8x2xf32>) -> tensor<4x2xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = stablehlo.add %g, %g {scalify.phase = #scalify.phase<backward>} : tensor<4x64xf32>
    %x = scalify.scale_hint %0, %one : tensor<4x64xf32>
    %u = scalify.scale_hint %w, %one : tensor<64x8xf32>
    %1 = stablehlo.dot_general %x, %u, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
    %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    return %2 : tensor<4x2xf32>
  }
}
